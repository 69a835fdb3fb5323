r"""Sega-Transformer-XL base, ablation: no positions of sentences.

    horovodrun -np 8 python run_pretraining.py \
        --config=configs/sega_transformer_xl_base_no_sentence.py \
        --records_dir=records/wikitext_103 \
        --output_dir=runs/sega_transformer_xl_base_no_sentence

Everything else, records included, is that of `sega_transformer_xl_base.py`;
so are hardware and time.

Expected, from the paper and not run here (Segatron, table 5; its text swaps two rows):
perplexity 24.07 on the test split of WikiText-103.
"""

import dataclasses

import ml_collections

from configs import sega_transformer_xl_base
from seg_tf import configuration

RUN = dataclasses.replace(
    sega_transformer_xl_base.RUN,
    name="sega_transformer_xl_base_no_sentence",
    paper="sega_transformer_xl_no_sentence_base",
    model=dataclasses.replace(
        sega_transformer_xl_base.RUN.model, position_parts=("token", "paragraph")
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
