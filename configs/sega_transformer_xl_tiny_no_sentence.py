r"""Sega-Transformer-XL tiny, ablation: no positions of sentences.

    python run_pretraining.py \
        --config=configs/sega_transformer_xl_tiny_no_sentence.py \
        --records_dir=records/wikipedia_words \
        --output_dir=runs/sega_transformer_xl_tiny_no_sentence

Everything else, records included, is that of `sega_transformer_xl_tiny.py`;
so are hardware and time.

Expected: perplexity 205.3, 218.9 and 207.3 of held-out words with the seeds 0, 1
and 2, on 99 MB of Wikipedia (docs/language_modelling.md).
"""

import dataclasses

import ml_collections

from configs import sega_transformer_xl_tiny
from seg_tf import configuration

RUN = dataclasses.replace(
    sega_transformer_xl_tiny.RUN,
    name="sega_transformer_xl_tiny_no_sentence",
    paper="sega_transformer_xl_no_sentence_base",
    model=dataclasses.replace(
        sega_transformer_xl_tiny.RUN.model, position_parts=("token", "paragraph")
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
