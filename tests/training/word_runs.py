"""A small run of Sega-Transformer-XL on `word_records`."""

from seg_tf.config import (
    CausalLMConfig,
    CosineAdamWConfig,
    RunConfig,
    TrainingConfig,
    TransformerXLConfig,
)
from seg_tf.data.inputs import LaneInputsConfig

TARGET_LENGTH = 5
CONFIG = RunConfig(
    name="words",
    paper="sega_transformer_xl_base",
    model=TransformerXLConfig(
        num_layers=2,
        hidden_size=12,
        num_heads=2,
        head_size=4,
        intermediate_size=16,
        memory_length=7,
        dropout=0.2,
        attention_dropout=0.1,
        cutoffs=(10, 20),
        embedding_size=12,
        tail_divisor=2,
        initializer_range=0.2,
        projection_range=0.2,
    ),
    inputs=LaneInputsConfig(target_length=TARGET_LENGTH, validation_lanes=3),
    objectives={"causal_lm": CausalLMConfig()},
    optimizer=CosineAdamWConfig(learning_rate=1e-2, epsilon=1e-4),
    training=TrainingConfig(
        num_updates=12,
        batch_size=4,
        micro_batch_size=2,
        clip_norm=0.25,
        log_interval=3,
        validation_interval=6,
        validation_batches=4,
        checkpoint_interval=4,
    ),
)
