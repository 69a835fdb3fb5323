"""BERT runs, derived from SegaBERT's by replacing or removing the index tables.

Commands, hardware and results: docs/configs.md#bert_tiny.

tiny: SegaBERT tiny with BERT's positions: 2 layers of width 128, for a CPU.
modern_tiny: SegaBERT modern_tiny without the index tables.
mini: SegaBERT mini with BERT's positions: 4 layers of width 256.
modern_mini: SegaBERT modern_mini without the index tables.
included: first phase of the package's bert_mini_en, trained like segabert_mini_en.
included_paragraphs: its second phase.
modern_base: SegaBERT modern_base without the index tables.
tiny_phase1: first of two phases, at a size for a CPU.
tiny_phase2: second of two phases, starting from the weights of tiny_phase1.
base: the paper's BERT baseline: 12 layers of width 768, 500,000 updates.
large: SegaBERT large with BERT's positions: 24 layers of width 1024, 1,000,000 updates.
large_phase1: first of the two phases of NVIDIA's BERT recipe: 128 positions.
large_phase2: second of the two phases of NVIDIA's BERT recipe: 512 positions.
ps_tiny: BERT with P.S., paragraph and sentence indices, at a size for a CPU.
ps_base: the paper's BERT with P.S.: 12 layers of width 768, 500,000 updates.
ps_large: BERT with P.S.: 24 layers of width 1024, 1,000,000 updates.
"""

from dataclasses import replace

from seg_tf.config import RunConfig, config_getter, named_runs
from seg_tf.configs import segabert


def _bert(
    variant: str, name: str = "bert", segments: tuple[str, ...] = ()
) -> RunConfig:
    """Converts a SegaBERT run to BERT by replacing its index tables.

    The new tables are `segments` and, without rotary positions, `position_index`.
    """
    run = segabert.RUNS[variant]
    # Both phases need the table size of the second phase.
    length = 512 if "phase" in variant else run.inputs.window_length
    tables = {} if run.model.rotary_shares else {"position_index": length}
    tables |= {segment: run.model.index_tables[segment] for segment in segments}
    return replace(
        run,
        paper=run.paper.replace("segabert", name),
        model=replace(run.model, index_tables=tables),
    )


_INCLUDED = segabert.included(
    replace(_bert("modern_mini"), inputs=segabert.INCLUDED_INPUTS), 8_599
)
_SEGMENTS = ("paragraph_index", "sentence_index")

RUNS = named_runs(
    "bert",
    **{variant: _bert(variant) for variant in segabert.RUNS}
    | {
        "included": _INCLUDED,
        "included_paragraphs": segabert.included_paragraphs(_INCLUDED, 4_106),
    }
    | {
        f"ps_{size}": _bert(size, "bert_ps", _SEGMENTS)
        for size in ("tiny", "base", "large")
    },
)

get_config = config_getter(RUNS)
