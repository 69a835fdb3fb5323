r"""SegaBERT tiny with SLM: both structures of a text, in one encoder.

    python run_pretraining.py \
        --config=configs/segabert_slm_tiny.py \
        --records_dir=records/wikipedia_128 --output_dir=runs/segabert_slm_tiny

Rows, objectives, hardware and optimizer are those of `slm_tiny.py`, the other tables
those of `segabert_tiny.py`, which has no token types.

Expected: trains (a check of 20 updates); no figures yet.
"""

import dataclasses

import ml_collections

from configs import segabert_tiny, slm_tiny
from seg_tf import configuration

RUN = dataclasses.replace(
    slm_tiny.RUN,
    name="segabert_slm_tiny",
    paper="segabert_slm_base",
    model=dataclasses.replace(
        slm_tiny.RUN.model,
        index_tables={
            **segabert_tiny.RUN.model.index_tables,
            "sentence_id": slm_tiny.RUN.model.index_tables["sentence_id"],
        },
        num_token_types=0,
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
