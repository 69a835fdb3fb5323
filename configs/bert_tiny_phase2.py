r"""BERT tiny, second phase of two: SegaBERT's with BERT's position table.

    python run_pretraining.py --config=configs/bert_tiny_phase2.py \
        --records_dir=records/wikipedia_512 --output_dir=runs/bert_tiny_phase2 \
        --initial_checkpoint=runs/bert_tiny_phase1

All 512 positions have their row in both phases, so that the second can start from the
first. Everything else, records included, is that of `segabert_tiny_phase2.py`; so are
hardware and time.

Expected: validation loss about 6.42, accuracy about 13.3 %, otherwise as there.
"""

import dataclasses

import ml_collections

from configs import segabert_tiny_phase2
from seg_tf import configuration

RUN = dataclasses.replace(
    segabert_tiny_phase2.RUN,
    name="bert_tiny_phase2",
    paper="bert_large_nvidia_phase2",
    model=dataclasses.replace(
        segabert_tiny_phase2.RUN.model,
        index_tables={"position_index": 512},
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
