r"""SegaBERT large: 24 layers of width 1024, Wikipedia and books, 1,000,000 updates.

    horovodrun -np 16 -H host1:8,host2:8 python run_pretraining.py \
        --config=configs/segabert_large.py --records_dir=records/wikibooks_512 \
        --output_dir=runs/segabert_large \
        --config.training.dtype_policy=mixed_bfloat16

Hardware: 16 V100, as in the paper; the batch of 256 is split over the ranks.
Time: about five days in mixed precision, at the 312 sequences/s that NVIDIA
publishes for BERT large on eight of them.

The paper's 24 heads do not divide the width; its authors' published configuration
has 16, and so has this one.

Expected, from the paper and not run here (Segatron, tables 2 to 4): GLUE dev average
86.5, test 83.3; SQuAD 1.1 dev 85.3 EM, 92.4 F1; SQuAD 2.0 dev 81.8 EM, 85.2 F1.
"""

import ml_collections

from seg_tf import configuration

RUN = configuration.RunConfig(
    name="segabert_large",
    paper="segabert_large",
    model=configuration.EncoderConfig(
        index_tables={"paragraph_index": 50, "sentence_index": 100, "token_index": 256},
        num_layers=24,
        hidden_size=1024,
        num_heads=16,
        intermediate_size=4096,
    ),
    inputs=configuration.WindowInputsConfig(
        window_length=512,
        masking=configuration.MaskingConfig(max_predictions=80),
    ),
    optimizer=configuration.AdamWConfig(learning_rate=1e-4),
    training=configuration.TrainingConfig(
        num_updates=1_000_000,
        batch_size=256,
        validation_interval=5_000,
        checkpoint_interval=5_000,
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
