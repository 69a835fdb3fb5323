r"""SegaBERT tiny: 2 layers of width 128, for a CPU and a first look at the curves.

    python run_pretraining.py --config=configs/segabert_tiny.py \
        --records_dir=records/wikipedia_128 --output_dir=runs/segabert_tiny

Hardware: 2 CPU cores. Time: about twelve minutes for the 4,000 updates of 4,096
tokens, with a vocabulary of 8,192 pieces.

Expected: with --config.training.num_updates=6000 and
--config.optimizer.warmup_updates=200 on 155 MB of Wikipedia and books, with
a vocabulary of 8,192 pieces, validation loss 4.306 and accuracy 30.3 %. The loss stays
near 6, where the pieces' frequencies leave it, for the first 1,500 updates and falls
fast from there (docs/pretraining.md).
"""

import ml_collections

from seg_tf import configuration

RUN = configuration.RunConfig(
    name="segabert_tiny",
    paper="segabert_base",
    model=configuration.EncoderConfig(
        index_tables={"paragraph_index": 50, "sentence_index": 100, "token_index": 256},
        num_layers=2,
        hidden_size=128,
        num_heads=2,
        intermediate_size=512,
        # Else the loss stays for longer where the pieces' frequencies leave it: after
        # 2,500 updates it was 5.84 with 0.1 and 0.05, and is 5.00 with these.
        dropout=0.0,
        initializer_range=0.1,
    ),
    inputs=configuration.WindowInputsConfig(
        window_length=128,
        masking=configuration.MaskingConfig(max_predictions=20),
    ),
    # With a peak of 4e-3 the loss stays where the pieces' frequencies leave it.
    # 100 of the 4,000 updates; a share, so that a shorter run warms up too.
    optimizer=configuration.AdamWConfig(learning_rate=2e-3, warmup_share=0.025),
    training=configuration.TrainingConfig(
        num_updates=4_000,
        batch_size=32,
        log_interval=20,
        validation_interval=100,
        validation_batches=20,
        checkpoint_interval=200,
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
