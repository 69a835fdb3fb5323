r"""SegaBERT base with SLM: both structures of a text, in one encoder.

    horovodrun -np 8 python run_pretraining.py \
        --config=configs/segabert_slm_base.py \
        --records_dir=records/wikibooks_492 --output_dir=runs/segabert_slm_base

In no paper: SegaBERT's three tables in place of the position table, and SLM's rows,
sentence ids and objective. Paragraph and sentence index are those of the place where a
sentence is presented. There is no token-type table, as in SegaBERT. Records, hardware,
time and everything else are those of `slm_base.py`.

Expected: no paper reports it, and it was not run here.
"""

import dataclasses

import ml_collections

from configs import segabert_base, slm_base
from seg_tf import configuration

RUN = dataclasses.replace(
    slm_base.RUN,
    name="segabert_slm_base",
    paper="segabert_slm_base",
    model=dataclasses.replace(
        slm_base.RUN.model,
        index_tables={
            **segabert_base.RUN.model.index_tables,
            "sentence_id": slm_base.RUN.model.index_tables["sentence_id"],
        },
        num_token_types=0,
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
