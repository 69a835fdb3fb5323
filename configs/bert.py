"""BERT: SegaBERT's runs with BERT's position table in place of the three.

Commands, hardware and results: docs/configs.md#bert_tiny.

tiny: SegaBERT tiny with positions: 2 layers of width 128, for a CPU.
mini: SegaBERT mini with positions.
modern_tiny: SegaBERT's modern_tiny without the tables.
modern_mini: SegaBERT's modern_mini without the tables.
included: the model bert_mini_en: modern_mini by the recipe of segabert_mini_en.
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

_POSITIONS = {
    "tiny": 128,
    "mini": 128,
    "modern_tiny": None,
    "modern_mini": None,
    "modern_base": None,
    "tiny_phase1": 512,
    "tiny_phase2": 512,
    "base": 512,
    "large": 512,
    "large_phase1": 512,
    "large_phase2": 512,
}


def _bert(variant: str, num_positions: int | None) -> RunConfig:
    run = segabert.RUNS[variant]
    tables = {} if num_positions is None else {"position_index": num_positions}
    return replace(
        run,
        name=f"bert_{variant}",
        paper=run.paper.removeprefix("sega"),
        model=replace(run.model, index_tables=tables),
    )


RUNS = {variant: _bert(variant, number) for variant, number in _POSITIONS.items()}
RUNS["included"] = segabert.included(
    replace(RUNS["modern_mini"], inputs=segabert.INCLUDED_INPUTS), "bert", 7_250
)


get_config = config_getter(RUNS)
