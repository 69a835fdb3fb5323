r"""SegaBERT large, second of the two phases of NVIDIA's BERT recipe: 512 positions.

    horovodrun -np 8 python run_pretraining.py \
        --config=configs/segabert_large_phase2.py \
        --records_dir=records/wikibooks_512 --output_dir=runs/segabert_large_phase2 \
        --initial_checkpoint=runs/segabert_large_phase1 \
        --config.training.dtype_policy=mixed_bfloat16

Starts from the weights of `segabert_large_phase1.py`, with a fresh optimizer and
schedule: LAMB in batches of 32,768 for 1,564 updates. The records are cut from the
same documents as those of phase 1 (docs/pretraining.md).

Hardware: 8 A100 with 80 GB; an update is 128 micro-batches of 32 on each (NVIDIA's
scripts: 40, on 40 GB). On V100 with 32 GB (NVIDIA: 10), for the last line above:

        --config.training.dtype_policy=mixed_float16 \
        --config.training.micro_batch_size=8

Time, an estimate: 1,564 × 32,768 = 51.2 million windows, at the rates that NVIDIA
publishes for BERT large: 22 hours on 8 A100 (650 windows/s), 46 on 8 V100 (312).

Expected: unknown, and not run here. The recipe is NVIDIA's for BERT large.
"""

import ml_collections

from configs import segabert_large
from seg_tf import configuration

RUN = configuration.RunConfig(
    name="segabert_large_phase2",
    paper="segabert_large_nvidia_phase2",
    model=segabert_large.RUN.model,
    inputs=configuration.WindowInputsConfig(
        window_length=512,
        masking=configuration.MaskingConfig(max_predictions=80),
    ),
    optimizer=configuration.LambConfig(learning_rate=4e-3, warmup_updates=200),
    training=configuration.TrainingConfig(
        num_updates=1_564,
        batch_size=32_768,
        micro_batch_size=32,
        log_interval=10,
        validation_interval=100,
        validation_batches=1,
        checkpoint_interval=100,
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
