"""SegaBERT runs: BERT with paragraph, sentence and token indices as positions.

Commands, hardware and results: docs/configs.md#segabert_tiny.

tiny: 2 layers of width 128, for a CPU and a first look at the curves.
modern_tiny: tiny with the modern trunk and packed windows. Used by `make pretrain`.
mini: 4 layers of width 256, with packed windows.
modern_mini: mini with the modern trunk and rotary positions.
included: first phase of the package's segabert_mini_en, a modern_mini with rotary
  segment indices, at a constant learning rate.
included_paragraphs: its second phase, windows of one paragraph with a falling rate.
modern_base: base with the modern trunk, packed windows of length 512, 30% masked.
tiny_phase1: first of two phases, like large_phase1 but small enough for a CPU.
tiny_phase2: second of two phases, with longer windows and the weights of tiny_phase1.
base: 12 layers of width 768, English Wikipedia, 500,000 updates.
large: 24 layers of width 1024, Wikipedia and books, 1,000,000 updates.
large_phase1: first of the two phases of NVIDIA's BERT recipe: 128 positions.
large_phase2: second of the two phases of NVIDIA's BERT recipe: 512 positions.
"""

from dataclasses import replace

from seg_tf.config import (
    AdamWConfig,
    EncoderConfig,
    LambConfig,
    MuonConfig,
    RunConfig,
    StableAdamWConfig,
    TrainingConfig,
    config_getter,
    named_runs,
)
from seg_tf.data.configs import (
    MaskingConfig,
    PackedWindowInputsConfig,
    WindowInputsConfig,
)

_WINDOWS_128 = WindowInputsConfig(
    window_length=128, masking=MaskingConfig(max_predictions=20)
)
_WINDOWS_512 = WindowInputsConfig()

_TINY = RunConfig(
    paper="segabert_base",
    model=EncoderConfig(
        num_layers=2,
        hidden_size=128,
        num_heads=2,
        intermediate_size=512,
        # Shortens the plateau on which the model ignores the context. After 2,500
        # updates, the loss is 5.00. With dropout 0.1 and range 0.05, it was 5.84.
        dropout=0.0,
        initializer_range=0.1,
    ),
    inputs=_WINDOWS_128,
    # With a peak rate of 4e-3, the loss stays on that plateau.
    optimizer=AdamWConfig(learning_rate=2e-3, warmup_share=0.025),
    training=TrainingConfig(
        num_updates=4_000,
        batch_size=32,
        log_interval=20,
        validation_interval=100,
        validation_batches=20,
        checkpoint_interval=200,
    ),
)
_TINY_PHASE1 = RunConfig(
    paper="segabert_large_nvidia_phase1",
    # As in the large recipe.
    model=replace(_TINY.model, dropout=0.1, initializer_range=0.02),
    inputs=_WINDOWS_128,
    optimizer=LambConfig(learning_rate=1e-2, warmup_updates=200),
    training=replace(
        _TINY.training,
        num_updates=704,
        batch_size=64,
        micro_batch_size=16,
        validation_batches=10,
    ),
)
_BASE = RunConfig(inputs=_WINDOWS_512)
_LARGE = replace(
    _BASE,
    model=replace(
        _BASE.model,
        num_layers=24,
        hidden_size=1024,
        num_heads=16,
        intermediate_size=4096,
    ),
    training=replace(_BASE.training, num_updates=1_000_000),
)
_LARGE_PHASE1 = RunConfig(
    paper="segabert_large_nvidia_phase1",
    model=_LARGE.model,
    inputs=_WINDOWS_128,
    optimizer=LambConfig(learning_rate=6e-3, warmup_updates=2_000),
    training=TrainingConfig(
        num_updates=7_038,
        batch_size=65_536,
        micro_batch_size=256,
        log_interval=10,
        validation_interval=100,
        validation_batches=1,
        checkpoint_interval=100,
    ),
)
_PACKED = replace(
    _TINY,
    inputs=PackedWindowInputsConfig(
        window_length=_TINY.inputs.window_length,
        masking=MaskingConfig(mask_rate=0.3, max_predictions=40),
    ),
    # Takes ten minutes on two cores, from an empty folder to the plot.
    training=replace(
        _TINY.training, num_updates=3_200, batch_size=16, validation_interval=200
    ),
)
_MINI = replace(
    _PACKED,
    model=replace(
        _PACKED.model,
        num_layers=4,
        hidden_size=256,
        num_heads=4,
        intermediate_size=1024,
        # The first value between 0.02 and 0.08 to leave the plateau, at rate 1e-3.
        initializer_range=0.03,
    ),
    optimizer=StableAdamWConfig(
        learning_rate=1e-3, warmup_updates=250, decay_share=0.2
    ),
    training=replace(
        _PACKED.training,
        num_updates=8_000,
        # Also faster on a CPU with AVX-512: 3,600 instead of 2,500 tokens/s per core.
        dtype_policy="mixed_bfloat16",
        log_interval=50,
        validation_interval=500,
        checkpoint_interval=500,
    ),
)


def _modern(run: RunConfig, learning_rate: float, warmup_updates: int) -> RunConfig:
    """Adapts a run to the modern trunk, with rotary positions and StableAdamW."""
    return replace(
        run,
        paper="segabert_base",
        model=replace(
            run.model,
            trunk="modern",
            rotary_shares={"position_index": 1},
            dropout=0.0,
            layer_norm_epsilon=1e-6,
            initializer_range=0.03,
        ),
        optimizer=StableAdamWConfig(
            learning_rate=learning_rate, warmup_updates=warmup_updates, decay_share=0.2
        ),
    )


_MODERN_MINI = _modern(_MINI, 2e-3, 100)


def included(run: RunConfig, num_updates: int) -> RunConfig:
    """Returns `run` with Muon, 256 rows per update and no decay of the rate."""
    return replace(
        run,
        optimizer=MuonConfig(warmup_updates=200, decay_share=1 / num_updates),
        training=replace(run.training, num_updates=num_updates, batch_size=256),
    )


def included_paragraphs(run: RunConfig, num_updates: int) -> RunConfig:
    """Returns the second phase of an `included` run, on windows of one paragraph."""
    masking = replace(run.inputs.masking, mask_rate=0.15, max_predictions=19)
    return replace(
        run,
        inputs=replace(run.inputs, window_length=128, masking=masking),
        optimizer=MuonConfig(
            warmup_updates=min(200, num_updates // 20), decay_share=0.9
        ),
        training=replace(run.training, num_updates=num_updates, batch_size=512),
    )


INCLUDED_INPUTS = WindowInputsConfig(
    window_length=256, masking=MaskingConfig(mask_rate=0.3, max_predictions=77)
)
_INCLUDED = included(
    replace(
        _MODERN_MINI,
        inputs=INCLUDED_INPUTS,
        model=replace(
            _MODERN_MINI.model,
            rotary_shares={
                "position_index": 4,
                "token_index": 2,
                "sentence_index": 1,
                "paragraph_index": 1,
            },
        ),
    ),
    8_240,
)

RUNS = named_runs(
    "segabert",
    tiny=_TINY,
    modern_tiny=_modern(_PACKED, 4e-3, 100),
    mini=_MINI,
    modern_mini=_MODERN_MINI,
    included=_INCLUDED,
    included_paragraphs=included_paragraphs(_INCLUDED, 4_010),
    modern_base=_modern(
        replace(
            _BASE,
            inputs=PackedWindowInputsConfig(
                window_length=512,
                masking=MaskingConfig(mask_rate=0.3, max_predictions=160),
            ),
            training=replace(_BASE.training, dtype_policy="mixed_bfloat16"),
        ),
        5e-4,
        2_000,
    ),
    tiny_phase1=_TINY_PHASE1,
    tiny_phase2=replace(
        _TINY_PHASE1,
        paper="segabert_large_nvidia_phase2",
        inputs=_WINDOWS_512,
        optimizer=LambConfig(learning_rate=5e-3, warmup_updates=20),
        training=TrainingConfig(
            num_updates=156,
            batch_size=32,
            micro_batch_size=8,
            log_interval=10,
            validation_interval=50,
            validation_batches=5,
            checkpoint_interval=50,
        ),
    ),
    base=_BASE,
    large=_LARGE,
    large_phase1=_LARGE_PHASE1,
    large_phase2=replace(
        _LARGE_PHASE1,
        paper="segabert_large_nvidia_phase2",
        inputs=_WINDOWS_512,
        optimizer=LambConfig(learning_rate=4e-3, warmup_updates=200),
        training=replace(
            _LARGE_PHASE1.training,
            num_updates=1_564,
            batch_size=32_768,
            micro_batch_size=32,
        ),
    ),
)

get_config = config_getter(RUNS)
