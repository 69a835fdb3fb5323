r"""Transformer-XL large: Sega-Transformer-XL large, positions of tokens alone.

    horovodrun -np 16 python run_pretraining.py \
        --config=configs/transformer_xl_large.py \
        --records_dir=records/wikitext_103 --output_dir=runs/transformer_xl_large

Everything else, records included, is that of `sega_transformer_xl_large.py`;
so are hardware and time.

Expected, from the paper and not run here (Segatron, table 1): perplexity 18.3 on the
test split of WikiText-103, of the original after 4,000,000 updates.
"""

import dataclasses

import ml_collections

from configs import sega_transformer_xl_large
from seg_tf import configuration

RUN = dataclasses.replace(
    sega_transformer_xl_large.RUN,
    name="transformer_xl_large",
    paper="transformer_xl_large",
    model=dataclasses.replace(
        sega_transformer_xl_large.RUN.model, position_parts=("token",)
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
