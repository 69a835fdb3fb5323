r"""Transformer-XL base: Sega-Transformer-XL base, positions of tokens alone.

    horovodrun -np 8 python run_pretraining.py \
        --config=configs/transformer_xl_base.py \
        --records_dir=records/wikitext_103 --output_dir=runs/transformer_xl_base

Everything else, records included, is that of `sega_transformer_xl_base.py`;
so are hardware and time.

Expected, from the paper and not run here (Segatron, table 5): perplexity 24.35 on the
test split of WikiText-103.
"""

import dataclasses

import ml_collections

from configs import sega_transformer_xl_base
from seg_tf import configuration

RUN = dataclasses.replace(
    sega_transformer_xl_base.RUN,
    name="transformer_xl_base",
    paper="transformer_xl_base",
    model=dataclasses.replace(
        sega_transformer_xl_base.RUN.model, position_parts=("token",)
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
