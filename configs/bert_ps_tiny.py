r"""BERT tiny with P.S.: BERT's position table and SegaBERT's other two.

    python run_pretraining.py --config=configs/bert_ps_tiny.py \
        --records_dir=records/wikipedia_128 --output_dir=runs/bert_ps_tiny

Everything else, records included, is that of `segabert_tiny.py`; so are hardware
and time.

Expected: with --config.model.dropout=0.1 --config.model.initializer_range=0.02
validation loss 6.708, accuracy 14.4 % after 2,500 updates on 99 MB of Wikipedia with
Google's vocabulary of 30,522 pieces; as it is, it was not run.
"""

import dataclasses

import ml_collections

from configs import segabert_tiny
from seg_tf import configuration

RUN = dataclasses.replace(
    segabert_tiny.RUN,
    name="bert_ps_tiny",
    paper="bert_ps_base",
    model=dataclasses.replace(
        segabert_tiny.RUN.model,
        index_tables={
            "position_index": 128,
            "paragraph_index": 50,
            "sentence_index": 100,
        },
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
