r"""SegaBERT tiny, first phase of two: the large recipe at a size for a CPU.

    python run_pretraining.py --config=configs/segabert_tiny_phase1.py \
        --records_dir=records/wikipedia_128 --output_dir=runs/segabert_tiny_phase1

`segabert_large_phase1.py` with a tenth of its updates and a thousandth of its batch,
in micro-batches all the same. `segabert_tiny_phase2.py` goes on from its weights.

Hardware: 2 CPU cores. Time: about five minutes.

Expected: validation loss about 6.52, accuracy about 13.6 % on 41 MB of Wikipedia with a
vocabulary of 8,192 pieces, computed in batches of 64 at once.
"""

import dataclasses

import ml_collections

from configs import segabert_tiny
from seg_tf import configuration

RUN = configuration.RunConfig(
    name="segabert_tiny_phase1",
    paper="segabert_large_nvidia_phase1",
    # As in the large recipe, with which the figures above were measured.
    model=dataclasses.replace(
        segabert_tiny.RUN.model, dropout=0.1, initializer_range=0.02
    ),
    inputs=configuration.WindowInputsConfig(
        window_length=128,
        masking=configuration.MaskingConfig(max_predictions=20),
    ),
    optimizer=configuration.LambConfig(learning_rate=1e-2, warmup_updates=200),
    training=configuration.TrainingConfig(
        num_updates=704,
        batch_size=64,
        micro_batch_size=16,
        log_interval=20,
        validation_interval=100,
        validation_batches=10,
        checkpoint_interval=200,
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
