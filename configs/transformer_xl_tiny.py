r"""Transformer-XL tiny: Sega-Transformer-XL tiny, positions of tokens alone.

    python run_pretraining.py \
        --config=configs/transformer_xl_tiny.py \
        --records_dir=records/wikipedia_words --output_dir=runs/transformer_xl_tiny

Everything else, records included, is that of `sega_transformer_xl_tiny.py`;
so are hardware and time.

Expected: perplexity 211.8, 229.2 and 215.7 of held-out words with the seeds 0, 1
and 2, on 99 MB of Wikipedia (docs/language_modelling.md).
"""

import dataclasses

import ml_collections

from configs import sega_transformer_xl_tiny
from seg_tf import configuration

RUN = dataclasses.replace(
    sega_transformer_xl_tiny.RUN,
    name="transformer_xl_tiny",
    paper="transformer_xl_base",
    model=dataclasses.replace(
        sega_transformer_xl_tiny.RUN.model, position_parts=("token",)
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
