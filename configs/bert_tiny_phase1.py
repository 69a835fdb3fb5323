r"""BERT tiny, first phase of two: SegaBERT's with BERT's position table.

    python run_pretraining.py --config=configs/bert_tiny_phase1.py \
        --records_dir=records/wikipedia_128 --output_dir=runs/bert_tiny_phase1

All 512 positions have their row in both phases, so that the second can start from the
first. Everything else, records included, is that of `segabert_tiny_phase1.py`; so are
hardware and time.

Expected: validation loss about 6.54, accuracy about 13.0 %, otherwise as there.
"""

import dataclasses

import ml_collections

from configs import segabert_tiny_phase1
from seg_tf import configuration

RUN = dataclasses.replace(
    segabert_tiny_phase1.RUN,
    name="bert_tiny_phase1",
    paper="bert_large_nvidia_phase1",
    model=dataclasses.replace(
        segabert_tiny_phase1.RUN.model,
        index_tables={"position_index": 512},
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
