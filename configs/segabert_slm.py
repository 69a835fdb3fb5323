"""SegaBERT runs with SLM's sentence ids and sentence unshuffling objective.

Commands, hardware and results: docs/configs.md#segabert_slm_tiny.

tiny: 2 layers of width 128, for a CPU.
included: the package's segabert_slm_mini_en, segabert_mini_en with SLM's objective.
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


_TINY, _SEGABERT = _with_both("tiny"), segabert.RUNS["included"]
_WINDOWS = _SEGABERT.inputs
_INCLUDED = replace(
    _SEGABERT,
    paper=_TINY.paper,
    model=replace(_SEGABERT.model, index_tables=_TINY.model.index_tables),
    inputs=replace(
        _TINY.inputs, window_length=_WINDOWS.window_length, masking=_WINDOWS.masking
    ),
    objectives={
        **_TINY.objectives,
        "sentence_unshuffling": replace(
            _TINY.objectives["sentence_unshuffling"], num_layers=1
        ),
    },
)

RUNS = named_runs(
    "segabert_slm",
    tiny=_TINY,
    included=segabert.included(_INCLUDED, 3_750),
    base=_with_both("base"),
)

get_config = config_getter(RUNS)
