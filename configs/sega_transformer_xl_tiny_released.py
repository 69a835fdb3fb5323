r"""Sega-Transformer-XL tiny in the form of its authors' code, which is not causal.

    python run_pretraining.py \
        --config=configs/sega_transformer_xl_tiny_released.py \
        --records_dir=records/wikipedia_words \
        --output_dir=runs/sega_transformer_xl_tiny_released

For comparison only: a word sees where later sentences of its segment begin.

Everything else, records included, is that of `sega_transformer_xl_tiny.py`;
so are hardware and time.

Expected: perplexity 202.6, 217.0 and 207.2 of held-out words with the seeds 0, 1
and 2, on 99 MB of Wikipedia (docs/language_modelling.md).
"""

import dataclasses

import ml_collections

from configs import sega_transformer_xl_tiny
from seg_tf import configuration

RUN = dataclasses.replace(
    sega_transformer_xl_tiny.RUN,
    name="sega_transformer_xl_tiny_released",
    model=dataclasses.replace(
        sega_transformer_xl_tiny.RUN.model, position_form="released"
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
