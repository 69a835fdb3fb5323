"""ReAT runs on texts of up to 128 sentences with up to 128 positions each.

Commands, hardware and results: docs/configs.md#reat_tiny.

tiny: 2 sentence layers of width 64, 2 alpha layers of width 128, for a CPU.
small: 2 sentence layers, 2 alpha layers, 5,000,000 updates.
base: 3 sentence layers, 4 alpha layers, 25,000,000 updates.
"""

from dataclasses import replace

from seg_tf.config import (
    AdamWConfig,
    ExchangeSentenceConfig,
    MaskedLMConfig,
    ReATConfig,
    RunConfig,
    TrainingConfig,
    config_getter,
    named_runs,
)
from seg_tf.data.configs import MaskingConfig, ReATInputsConfig

_BASE = RunConfig(
    model=ReATConfig(),
    inputs=ReATInputsConfig(),
    objectives={
        "masked_lm": MaskedLMConfig(),
        "exchange_sentence": ExchangeSentenceConfig(),
    },
    optimizer=AdamWConfig(learning_rate=4e-5, warmup_updates=10_000),
    training=TrainingConfig(
        num_updates=25_000_000,
        batch_size=1,
        log_interval=500,
        validation_interval=50_000,
        validation_batches=500,
        checkpoint_interval=50_000,
    ),
)
_SMALL = replace(
    _BASE,
    model=replace(
        _BASE.model,
        num_sentence_layers=2,
        num_alpha_layers=2,
        hidden_size=512,
        alpha_hidden_size=768,
        num_heads=8,
        alpha_num_heads=12,
        intermediate_size=2048,
        alpha_intermediate_size=3072,
    ),
    optimizer=replace(_BASE.optimizer, learning_rate=2e-4),
    training=replace(_BASE.training, num_updates=5_000_000, batch_size=2),
)
_TINY = replace(
    _BASE,
    paper="reat_base",
    model=replace(
        _BASE.model,
        num_sentence_layers=2,
        num_alpha_layers=2,
        hidden_size=64,
        alpha_hidden_size=128,
        num_heads=2,
        alpha_num_heads=2,
        intermediate_size=256,
        alpha_intermediate_size=512,
        # 0.02 at width 768, scaled to width 128 by the square root.
        initializer_range=0.05,
        dropout=0.0,
    ),
    inputs=replace(
        _BASE.inputs,
        row_length=2_048,
        sentences_per_row=96,
        exchange_within="row",
        masking=MaskingConfig(max_predictions=308),
    ),
    optimizer=AdamWConfig(learning_rate=2e-3, warmup_share=0.04),
    training=TrainingConfig(
        num_updates=5_000,
        batch_size=2,
        validation_interval=500,
        validation_batches=20,
        checkpoint_interval=500,
    ),
)

RUNS = named_runs("reat", tiny=_TINY, small=_SMALL, base=_BASE)

get_config = config_getter(RUNS)
