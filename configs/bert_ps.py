r"""BERT with P.S.: BERT's position table and SegaBERT's other two.

`--config=configs/bert_ps.py:VARIANT`; without a variant it is tiny. The paper's
ablation: paragraph and sentence tables beside the global token index. Everything else,
records included, is that of the same variant of `segabert.py`; so are hardware and
time.

tiny: SegaBERT tiny with positions, paragraphs and sentences, for a CPU.
    python run_pretraining.py --config=configs/bert_ps.py:tiny \
        --records_dir=records/wikipedia_128 --output_dir=runs/bert_ps_tiny
    Expected: with --config.model.dropout=0.1 --config.model.initializer_range=0.02
    validation loss 6.708, accuracy 14.4 % after 2,500 updates on 99 MB of Wikipedia
    with Google's vocabulary of 30,522 pieces; as it is, it was not run.

base: the paper's ablation: 12 layers of width 768, 500,000 updates.
    horovodrun -np 16 -H host1:8,host2:8 python run_pretraining.py \
        --config=configs/bert_ps.py:base --records_dir=records/wikipedia_512 \
        --output_dir=runs/bert_ps_base --config.training.dtype_policy=mixed_bfloat16
    Expected: see docs/tables/segatron.md, table 6. Not run here.

large: the ablation at 24 layers of width 1024, 1,000,000 updates.
    horovodrun -np 16 -H host1:8,host2:8 python run_pretraining.py \
        --config=configs/bert_ps.py:large --records_dir=records/wikibooks_512 \
        --output_dir=runs/bert_ps_large --config.training.dtype_policy=mixed_bfloat16
    Expected: unknown; the paper has this ablation at base size only. Not run here.
"""

from dataclasses import replace

import ml_collections

from seg_tf import configuration
from seg_tf.configs import segabert


def _with_positions(variant: str) -> configuration.RunConfig:
    run = segabert.RUNS[variant]
    tables = {"position_index": run.inputs.window_length, **run.model.index_tables}
    del tables["token_index"]
    return replace(
        run,
        name=f"bert_ps_{variant}",
        paper=run.paper.replace("segabert", "bert_ps"),
        model=replace(run.model, index_tables=tables),
    )


RUNS = {variant: _with_positions(variant) for variant in ("tiny", "base", "large")}


def get_config(variant: str = "tiny") -> ml_collections.ConfigDict:
    """The variant's run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(configuration.get_variant(RUNS, variant))
