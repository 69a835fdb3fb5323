"""Transformer-XL runs: Sega-Transformer-XL with token positions only.

Commands, hardware and results: docs/configs.md#transformer_xl_tiny.

tiny: 4 layers of width 128, trains in minutes on a laptop.
base: 16 layers of width 410, WikiText-103, 200,000 updates.
large: 18 layers of width 1,024, WikiText-103, 350,000 updates.
"""

from dataclasses import replace

from seg_tf.config import RunConfig, config_getter, named_runs
from seg_tf.configs import sega_transformer_xl


def _tokens_alone(variant: str) -> RunConfig:
    run = sega_transformer_xl.RUNS[variant]
    return replace(
        run,
        paper=run.paper.removeprefix("sega_"),
        model=replace(run.model, position_parts=("token",)),
    )


RUNS = named_runs(
    "transformer_xl",
    **{variant: _tokens_alone(variant) for variant in ("tiny", "base", "large")},
)

get_config = config_getter(RUNS)
