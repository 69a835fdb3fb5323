r"""SegaBERT base: 12 layers of width 768, English Wikipedia, 500,000 updates.

    horovodrun -np 16 -H host1:8,host2:8 python run_pretraining.py \
        --config=configs/segabert_base.py --records_dir=records/wikipedia_512 \
        --output_dir=runs/segabert_base \
        --config.training.dtype_policy=mixed_bfloat16

Hardware: 16 V100, as in the paper; the batch of 256 is split over the ranks.
Time: about a day in mixed precision, an estimate from the throughput that NVIDIA
publishes for BERT large.

Expected, from the paper and not run here (Segatron, tables 2 to 4 and 6): GLUE dev
average 82.9, test 79.2; SQuAD 1.1 dev 83.2 EM, 90.2 F1; SQuAD 2.0 dev 76.3 EM,
79.2 F1.
"""

import ml_collections

from seg_tf import configuration

RUN = configuration.RunConfig(
    name="segabert_base",
    paper="segabert_base",
    model=configuration.EncoderConfig(
        index_tables={"paragraph_index": 50, "sentence_index": 100, "token_index": 256},
        num_layers=12,
        hidden_size=768,
        num_heads=12,
        intermediate_size=3072,
    ),
    inputs=configuration.WindowInputsConfig(
        window_length=512,
        masking=configuration.MaskingConfig(max_predictions=80),
    ),
    optimizer=configuration.AdamWConfig(learning_rate=1e-4),
    training=configuration.TrainingConfig(
        num_updates=500_000,
        batch_size=256,
        validation_interval=5_000,
        checkpoint_interval=5_000,
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
