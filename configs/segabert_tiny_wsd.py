r"""SegaBERT tiny on a warm-up–stable–decay schedule: a run that can be made longer.

    python run_pretraining.py --config=configs/segabert_tiny_wsd.py \
        --records_dir=records/wikipedia_128 --output_dir=runs/segabert_tiny_wsd

Records, hardware and time are those of `segabert_tiny.py`. The same command with a
larger --config.training.num_updates goes on from before the decay and ends with the
weights, bit for bit, of a run that had this length from the start
(docs/pretraining.md).

Expected: no figure was measured. Everything but the schedule is that of
`segabert_tiny.py`.
"""

import dataclasses

import ml_collections

from configs import segabert_tiny
from seg_tf import configuration

RUN = dataclasses.replace(
    segabert_tiny.RUN,
    name="segabert_tiny_wsd",
    optimizer=configuration.StableAdamWConfig(
        learning_rate=segabert_tiny.RUN.optimizer.learning_rate,
        warmup_updates=100,
        decay_share=0.1,
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
