"""SegaBERT runs with SLM's sentence ids and sentence unshuffling objective.

Commands, hardware and results: docs/configs.md#segabert_slm_tiny.

tiny: 2 layers of width 128, for a CPU.
included: first phase of the package's segabert_slm_mini_en, with SLM's objective.
included_paragraphs: its second phase, in which the model learns the order of sentences.
base: 12 layers of width 768, Wikipedia and books, 1,000,000 updates.
"""

from dataclasses import replace

from seg_tf.config import RunConfig, config_getter, named_runs
from seg_tf.configs import segabert, slm


def _with_both(variant: str) -> RunConfig:
    run = slm.RUNS[variant]
    tables = {
        **segabert.RUNS[variant].model.index_tables,
        "sentence_id": run.model.index_tables["sentence_id"],
    }
    return replace(
        run,
        paper="segabert_slm_base",
        model=replace(run.model, index_tables=tables, num_token_types=0),
    )


_TINY = _with_both("tiny")


def _included(order_weight: float) -> RunConfig:
    run = segabert.RUNS["included"]
    windows, order = run.inputs, _TINY.objectives["sentence_unshuffling"]
    order = replace(order, num_layers=1, loss_weight=order_weight)
    run = replace(
        run,
        paper=_TINY.paper,
        model=replace(run.model, index_tables=_TINY.model.index_tables),
        inputs=replace(
            _TINY.inputs, window_length=windows.window_length, masking=windows.masking
        ),
        objectives={**_TINY.objectives, "sentence_unshuffling": order},
    )
    return segabert.included(run, 4_652)


RUNS = named_runs(
    "segabert_slm",
    tiny=_TINY,
    included=_included(0.1),
    included_paragraphs=segabert.included_paragraphs(_included(1.0), 2_965),
    base=_with_both("base"),
)

get_config = config_getter(RUNS)
