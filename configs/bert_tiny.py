r"""BERT tiny: SegaBERT tiny with BERT's position table in place of the three.

    python run_pretraining.py --config=configs/bert_tiny.py \
        --records_dir=records/wikipedia_128 --output_dir=runs/bert_tiny

Everything else, records included, is that of `segabert_tiny.py`; so are hardware
and time.

Expected: with --config.training.num_updates=6000 on 155 MB of Wikipedia and books, with
a vocabulary of 8,192 pieces, validation loss 4.415 and accuracy 28.0 %, the fast fall
beginning after 2,500 updates (docs/pretraining.md).
"""

import dataclasses

import ml_collections

from configs import segabert_tiny
from seg_tf import configuration

RUN = dataclasses.replace(
    segabert_tiny.RUN,
    name="bert_tiny",
    paper="bert_base",
    model=dataclasses.replace(
        segabert_tiny.RUN.model,
        index_tables={"position_index": 128},
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
