r"""SegaBERT tiny, second phase of two: longer windows, from the weights of the first.

    python run_pretraining.py --config=configs/segabert_tiny_phase2.py \
        --records_dir=records/wikipedia_512 --output_dir=runs/segabert_tiny_phase2 \
        --initial_checkpoint=runs/segabert_tiny_phase1

`segabert_large_phase2.py` with a tenth of its updates and a thousandth of its batch,
in micro-batches all the same; optimizer and schedule begin afresh.

Hardware: 2 CPU cores. Time: about three minutes.

Expected: validation loss about 6.41, accuracy about 14.2 % (after 50 updates 6.44 and
13.5 %), on the text of phase 1, computed in batches of 32 at once.
"""

import dataclasses

import ml_collections

from configs import segabert_tiny
from seg_tf import configuration

RUN = configuration.RunConfig(
    name="segabert_tiny_phase2",
    paper="segabert_large_nvidia_phase2",
    # As in the large recipe, with which the figures above were measured.
    model=dataclasses.replace(
        segabert_tiny.RUN.model, dropout=0.1, initializer_range=0.02
    ),
    inputs=configuration.WindowInputsConfig(
        window_length=512,
        masking=configuration.MaskingConfig(max_predictions=80),
    ),
    optimizer=configuration.LambConfig(learning_rate=5e-3, warmup_updates=20),
    training=configuration.TrainingConfig(
        num_updates=156,
        batch_size=32,
        micro_batch_size=8,
        log_interval=10,
        validation_interval=50,
        validation_batches=5,
        checkpoint_interval=50,
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
