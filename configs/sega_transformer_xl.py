"""Sega-Transformer-XL runs: word-level language models with segment-aware distances.

Commands, hardware and results: docs/configs.md#sega_transformer_xl_tiny.

tiny: 4 layers of width 128, trains in minutes on a laptop.
tiny_no_sentence: ablation of tiny without sentence positions.
tiny_no_paragraph: ablation of tiny without paragraph positions.
base: 16 layers of width 410, WikiText-103, 200,000 updates.
base_no_sentence: ablation of base without sentence positions.
base_no_paragraph: ablation of base without paragraph positions.
large: 18 layers of width 1,024, WikiText-103, 350,000 updates.
"""

from dataclasses import replace

from seg_tf.config import (
    CausalLMConfig,
    CosineAdamWConfig,
    RunConfig,
    TrainingConfig,
    TransformerXLConfig,
    config_getter,
    named_runs,
)
from seg_tf.data.configs import LaneInputsConfig

_TINY = RunConfig(
    paper="sega_transformer_xl_base",
    model=TransformerXLConfig(
        num_layers=4,
        hidden_size=128,
        num_heads=4,
        head_size=32,
        intermediate_size=512,
        memory_length=64,
        dropout=0.0,
        cutoffs=(4_096, 16_384),
        embedding_size=128,
        tail_divisor=2,
        # Larger than the paper's 0.02 because the width is smaller, 128 instead of 410.
        initializer_range=0.05,
        projection_range=0.05,
    ),
    inputs=LaneInputsConfig(target_length=64, validation_lanes=16),
    objectives={"causal_lm": CausalLMConfig()},
    optimizer=CosineAdamWConfig(
        learning_rate=3e-3, warmup_updates=None, warmup_share=0.025
    ),
    training=TrainingConfig(
        num_updates=2_000,
        batch_size=16,
        clip_norm=0.25,
        log_interval=20,
        validation_interval=200,
        validation_batches=60,
        checkpoint_interval=500,
        keep_checkpoints=1,
    ),
)
_BASE = RunConfig(
    model=TransformerXLConfig(),
    inputs=LaneInputsConfig(),
    objectives={"causal_lm": CausalLMConfig()},
    optimizer=CosineAdamWConfig(),
    training=TrainingConfig(
        num_updates=200_000,
        batch_size=64,
        clip_norm=0.25,
        validation_interval=4_000,
        validation_batches=1_000,
        checkpoint_interval=4_000,
    ),
)
_LARGE = replace(
    _BASE,
    model=TransformerXLConfig(
        num_layers=18,
        hidden_size=1024,
        num_heads=16,
        head_size=64,
        intermediate_size=4096,
        memory_length=384,
        dropout=0.2,
        attention_dropout=0.2,
        embedding_size=1024,
        tail_divisor=4,
    ),
    inputs=LaneInputsConfig(target_length=384),
    optimizer=CosineAdamWConfig(warmup_updates=16_000, decay_updates=500_000),
    training=replace(_BASE.training, num_updates=350_000, batch_size=128),
)


def _without(part: str, run: RunConfig) -> RunConfig:
    """Returns the run without the positions of `part`, "sentence" or "paragraph"."""
    parts = tuple(other for other in run.model.position_parts if other != part)
    return replace(
        run,
        paper=f"sega_transformer_xl_no_{part}_base",
        model=replace(run.model, position_parts=parts),
    )


RUNS = named_runs(
    "sega_transformer_xl",
    tiny=_TINY,
    tiny_no_sentence=_without("sentence", _TINY),
    tiny_no_paragraph=_without("paragraph", _TINY),
    base=_BASE,
    base_no_sentence=_without("sentence", _BASE),
    base_no_paragraph=_without("paragraph", _BASE),
    large=_LARGE,
)

get_config = config_getter(RUNS)
