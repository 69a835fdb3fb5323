r"""SLM tiny with every row shuffled: the row of the paper's table 5 at this size.

    python run_pretraining.py \
        --config=configs/slm_tiny_shuffle_all.py \
        --records_dir=records/wikipedia_128 --output_dir=runs/slm_tiny_shuffle_all

Rows in their own order, half of those of `slm_tiny.py`, are solved by pointing at the
next place, which is what a small model learns first and holds on to. Without them it
finds orders several times as early. Everything else is that of `slm_tiny.py`.

Expected: not measured yet.
"""

import dataclasses

import ml_collections

from configs import slm_tiny
from seg_tf import configuration

RUN = dataclasses.replace(
    slm_tiny.RUN,
    name="slm_tiny_shuffle_all",
    paper="slm_base_shuffle_all",
    inputs=dataclasses.replace(slm_tiny.RUN.inputs, shuffle_rate=1.0),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
