r"""SegaBERT large, first of the two phases of NVIDIA's BERT recipe: 128 positions.

    horovodrun -np 8 python run_pretraining.py \
        --config=configs/segabert_large_phase1.py \
        --records_dir=records/wikibooks_128 --output_dir=runs/segabert_large_phase1 \
        --config.training.dtype_policy=mixed_bfloat16

The model of `segabert_large.py`, trained by LAMB in batches of 65,536 for 7,038
updates. `segabert_large_phase2.py` goes on from its weights at 512 positions.

Hardware: 8 A100 with 80 GB; an update is 32 micro-batches of 256 on each (NVIDIA's
scripts: 312, on 40 GB). On V100 with 32 GB (NVIDIA: 60), for the last line above:

        --config.training.dtype_policy=mixed_float16 \
        --config.training.micro_batch_size=32

Any number of GPUs and any micro-batch make the same update; the rate stays as it is,
being that of the whole batch.

Time, an estimate: 7,038 × 65,536 = 461 million windows, at the rates that NVIDIA
publishes for BERT large: 34 hours on 8 A100 (3,799 windows/s), 82 on 8 V100 (1,562).

Expected: unknown, and not run here. The recipe is NVIDIA's for BERT large.
"""

import ml_collections

from configs import segabert_large
from seg_tf import configuration

RUN = configuration.RunConfig(
    name="segabert_large_phase1",
    paper="segabert_large_nvidia_phase1",
    model=segabert_large.RUN.model,
    inputs=configuration.WindowInputsConfig(
        window_length=128,
        masking=configuration.MaskingConfig(max_predictions=20),
    ),
    optimizer=configuration.LambConfig(learning_rate=6e-3, warmup_updates=2_000),
    training=configuration.TrainingConfig(
        num_updates=7_038,
        batch_size=65_536,
        micro_batch_size=256,
        log_interval=10,
        validation_interval=100,
        validation_batches=1,
        checkpoint_interval=100,
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
