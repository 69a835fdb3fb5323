r"""BERT: SegaBERT's runs with BERT's position table in place of the three.

`--config=configs/bert.py:VARIANT`; without a variant it is tiny. Everything else,
records included, is that of the same variant of `segabert.py`; so are hardware and
time. No next sentence prediction. In the phases all 512 positions have their row, so
that the second can start from the first. Runs of the papers' sizes were not made
here; docs/tables/segatron.md has the figures of the paper.

tiny: SegaBERT tiny with positions: 2 layers of width 128, for a CPU.
    python run_pretraining.py --config=configs/bert.py:tiny \
        --records_dir=records/wikipedia_128 --output_dir=runs/bert_tiny
    Expected: with --config.training.num_updates=6000 on 155 MB of Wikipedia and books,
    with a vocabulary of 8,192 pieces, validation loss 4.415 and accuracy 28.0 %, the
    fast fall beginning after 2,500 updates (docs/pretraining.md).

mini: SegaBERT mini with positions, the model bert_mini_en.
    python run_pretraining.py --config=configs/bert.py:mini \
        --records_dir=records/wikibooks_128 --output_dir=runs/bert_mini
    Expected: validation loss 4.09 with 30 % masked and 3.76 with 15 %, accuracy 31.8 %
    and 34.7 %, otherwise as there.

modern_tiny: SegaBERT's modern_tiny without the tables.
    python run_pretraining.py --config=configs/bert.py:modern_tiny \
        --records_dir=records/docstrings --output_dir=runs/bert_modern_tiny
    Hardware and time as there. Expected: no figure was measured.

modern_mini: SegaBERT's modern_mini without the tables.
    python run_pretraining.py --config=configs/bert.py:modern_mini \
        --records_dir=records/wikibooks_128 --output_dir=runs/bert_modern_mini
    Hardware and time as mini. Expected: see docs/speedrun.md.

modern_base: SegaBERT's modern_base without the tables.
    horovodrun -np 16 -H host1:8,host2:8 python run_pretraining.py \
        --config=configs/bert.py:modern_base --records_dir=records/wikibooks_512 \
        --output_dir=runs/bert_modern_base
    Expected: as there, unknown; not run here.

tiny_phase1: first phase of two, at a size for a CPU.
    python run_pretraining.py --config=configs/bert.py:tiny_phase1 \
        --records_dir=records/wikipedia_128 --output_dir=runs/bert_tiny_phase1
    Expected: validation loss about 6.54, accuracy about 13.0 %, otherwise as there.

tiny_phase2: second phase of two, from the weights of tiny_phase1.
    python run_pretraining.py --config=configs/bert.py:tiny_phase2 \
        --records_dir=records/wikipedia_512 --output_dir=runs/bert_tiny_phase2 \
        --initial_checkpoint=runs/bert_tiny_phase1
    Expected: validation loss about 6.42, accuracy about 13.3 %, otherwise as there.

base: the paper's own baseline: 12 layers of width 768, 500,000 updates.
    horovodrun -np 16 -H host1:8,host2:8 python run_pretraining.py \
        --config=configs/bert.py:base --records_dir=records/wikipedia_512 \
        --output_dir=runs/bert_base --config.training.dtype_policy=mixed_bfloat16
    Expected: see docs/tables/segatron.md, tables 2, 4 and 6.

large: SegaBERT large with positions: 24 layers of width 1024, 1,000,000 updates.
    horovodrun -np 16 -H host1:8,host2:8 python run_pretraining.py \
        --config=configs/bert.py:large --records_dir=records/wikibooks_512 \
        --output_dir=runs/bert_large --config.training.dtype_policy=mixed_bfloat16
    Expected: see docs/tables/segatron.md, table 2. The paper trained no large baseline
    and quotes BERT large, which had next sentence prediction too.

large_phase1: first of the two phases of NVIDIA's BERT recipe: 128 positions.
    horovodrun -np 8 python run_pretraining.py --config=configs/bert.py:large_phase1 \
        --records_dir=records/wikibooks_128 --output_dir=runs/bert_large_phase1 \
        --config.training.dtype_policy=mixed_bfloat16
    Expected: unknown, and not run here (docs/pretraining.md).

large_phase2: second of the two phases of NVIDIA's BERT recipe: 512 positions.
    horovodrun -np 8 python run_pretraining.py --config=configs/bert.py:large_phase2 \
        --records_dir=records/wikibooks_512 --output_dir=runs/bert_large_phase2 \
        --initial_checkpoint=runs/bert_large_phase1 \
        --config.training.dtype_policy=mixed_bfloat16
    Expected: see docs/pretraining.md for NVIDIA's figures. Not run here.
"""

from dataclasses import replace

import ml_collections

from seg_tf import configuration
from seg_tf.configs import segabert


def _with_positions(variant: str, num_positions: int) -> configuration.RunConfig:
    run = segabert.RUNS[variant]
    return replace(
        run,
        name=f"bert_{variant}",
        paper=run.paper.removeprefix("sega"),
        model=replace(run.model, index_tables={"position_index": num_positions}),
    )


def _without_tables(variant: str) -> configuration.RunConfig:
    run = segabert.RUNS[variant]
    return replace(
        run,
        name=f"bert_{variant}",
        paper="bert_base",
        model=replace(run.model, index_tables={}),
    )


RUNS = {
    "tiny": _with_positions("tiny", 128),
    "mini": _with_positions("mini", 128),
    "modern_tiny": _without_tables("modern_tiny"),
    "modern_mini": _without_tables("modern_mini"),
    "modern_base": _without_tables("modern_base"),
    "tiny_phase1": _with_positions("tiny_phase1", 512),
    "tiny_phase2": _with_positions("tiny_phase2", 512),
    "base": _with_positions("base", 512),
    "large": _with_positions("large", 512),
    "large_phase1": _with_positions("large_phase1", 512),
    "large_phase2": _with_positions("large_phase2", 512),
}


def get_config(variant: str = "tiny") -> ml_collections.ConfigDict:
    """The variant's run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(configuration.get_variant(RUNS, variant))
