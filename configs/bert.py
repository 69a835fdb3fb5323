"""BERT: SegaBERT's runs with BERT's position table in place of the three.

Commands, hardware and results: docs/configs.md#bert_tiny.

tiny: SegaBERT tiny with positions: 2 layers of width 128, for a CPU.
mini: SegaBERT mini with positions, the model bert_mini_en.
modern_tiny: SegaBERT's modern_tiny without the tables.
modern_mini: SegaBERT's modern_mini without the tables.
modern_base: SegaBERT's modern_base without the tables.
tiny_phase1: first phase of two, at a size for a CPU.
tiny_phase2: second phase of two, from the weights of tiny_phase1.
base: the paper's own baseline: 12 layers of width 768, 500,000 updates.
large: SegaBERT large with positions: 24 layers of width 1024, 1,000,000 updates.
large_phase1: first of the two phases of NVIDIA's BERT recipe: 128 positions.
large_phase2: second of the two phases of NVIDIA's BERT recipe: 512 positions.
"""

from dataclasses import replace

from seg_tf.config import RunConfig, config_getter
from seg_tf.configs import segabert


def _with_positions(variant: str, num_positions: int) -> RunConfig:
    run = segabert.RUNS[variant]
    return replace(
        run,
        name=f"bert_{variant}",
        paper=run.paper.removeprefix("sega"),
        model=replace(run.model, index_tables={"position_index": num_positions}),
    )


def _without_tables(variant: str) -> RunConfig:
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


get_config = config_getter(RUNS)
