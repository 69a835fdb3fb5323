r"""SegaBERT with SLM: both structures of a text, in one encoder.

`--config=configs/segabert_slm.py:VARIANT`; without a variant it is tiny. In no paper:
SegaBERT's three tables in place of the position table, and SLM's rows, sentence ids and
objective. Paragraph and sentence index are those of the place where a sentence is
presented. There is no token-type table, as in SegaBERT. Records, hardware, time and
everything else are those of the same variant of `slm.py`.

tiny: 2 layers of width 128, for a CPU.
    python run_pretraining.py --config=configs/segabert_slm.py:tiny \
        --records_dir=records/wikipedia_128 --output_dir=runs/segabert_slm_tiny
    Expected: trains (a check of 20 updates); no figures yet.

base: 12 layers of width 768, Wikipedia and books, 1,000,000 updates.
    horovodrun -np 8 python run_pretraining.py --config=configs/segabert_slm.py:base \
        --records_dir=records/wikibooks_492 --output_dir=runs/segabert_slm_base
    Expected: no paper reports it, and it was not run here.
"""

from dataclasses import replace

import ml_collections

from seg_tf import configuration
from seg_tf.configs import segabert, slm


def _with_both(variant: str) -> configuration.RunConfig:
    run = slm.RUNS[variant]
    tables = {
        **segabert.RUNS[variant].model.index_tables,
        "sentence_id": run.model.index_tables["sentence_id"],
    }
    return replace(
        run,
        name=f"segabert_slm_{variant}",
        paper="segabert_slm_base",
        model=replace(run.model, index_tables=tables, num_token_types=0),
    )


RUNS = {variant: _with_both(variant) for variant in ("tiny", "base")}


def get_config(variant: str = "tiny") -> ml_collections.ConfigDict:
    """The variant's run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(configuration.get_variant(RUNS, variant))
