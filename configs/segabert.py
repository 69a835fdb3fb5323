r"""SegaBERT: BERT with indices of paragraph, sentence and token for the position.

`--config=configs/segabert.py:VARIANT`; without a variant it is tiny. Runs of the
paper's sizes were not made here; docs/tables/segatron.md has its figures.

tiny: 2 layers of width 128, for a CPU and a first look at the curves.
    python run_pretraining.py --config=configs/segabert.py:tiny \
        --records_dir=records/wikipedia_128 --output_dir=runs/segabert_tiny
    Hardware: 2 CPU cores. Time: about twelve minutes for the 4,000 updates of 4,096
    tokens, with a vocabulary of 8,192 pieces.
    Expected: with --config.training.num_updates=6000 and
    --config.optimizer.warmup_updates=200 on 155 MB of Wikipedia and books, with a
    vocabulary of 8,192 pieces, validation loss 4.306 and accuracy 30.3 %. The loss
    stays near 6, which a model that ignores the context reaches too, for the first
    1,500 updates and falls fast from there (docs/pretraining.md#plateau).

modern_tiny: tiny with the modern trunk and rotary positions; `make pretrain` uses it.
    python run_pretraining.py --config=configs/segabert.py:modern_tiny \
        --records_dir=records/docstrings --output_dir=runs/segabert_modern_tiny
    Several windows a row, half the rows of an update, 30 % of the pieces masked. At
    this size the gradient of few predictions is mostly noise, so that twice as many of
    the same text do the work of twice the text.
    Hardware: 2 CPU cores. Time: seven to eight minutes for the 3,200 updates of 2,048
    tokens.
    Expected: on the docstrings of Python packages (1.2 million pieces, vocabulary
    8,192) validation loss 3.44. BERT's trunk with the same inputs has 4.10
    (docs/pretraining.md).

mini: 4 layers of width 256, the model segabert_mini_en (docs/pretrained_models.md).
    python run_pretraining.py --config=configs/segabert.py:mini \
        --records_dir=records/wikibooks_128 --output_dir=runs/segabert_mini
    Inputs as of modern_tiny. On a warm-up–stable–decay schedule, to be made longer.
    Hardware: one CPU core with AVX-512. Time: 75 minutes for the 8,000 updates of 2,048
    tokens; bfloat16 wants a processor that computes with it.
    Expected: on 155 MB of Wikipedia and books, with a vocabulary of 8,192 pieces,
    validation loss 4.14 with 30 % masked and 3.86 with 15 %, accuracy 31.6 % and
    34.1 %.

modern_mini: mini with the modern trunk and rotary positions.
    python run_pretraining.py --config=configs/segabert.py:modern_mini \
        --records_dir=records/wikibooks_128 --output_dir=runs/segabert_modern_mini
    Hardware and time as mini. Expected: see docs/speedrun.md.

modern_base: base with the modern trunk, packed windows of 512, 30 % masked.
    horovodrun -np 16 -H host1:8,host2:8 python run_pretraining.py \
        --config=configs/segabert.py:modern_base --records_dir=records/wikibooks_512 \
        --output_dir=runs/segabert_modern_base
    Expected: unknown; not run here, and the learning rate is a guess.

tiny_wsd: tiny on a warm-up–stable–decay schedule: a run that can be made longer.
    python run_pretraining.py --config=configs/segabert.py:tiny_wsd \
        --records_dir=records/wikipedia_128 --output_dir=runs/segabert_tiny_wsd
    Records, hardware, time and everything but the schedule as tiny. The same command
    with a larger --config.training.num_updates continues from before the decay and ends
    with the weights, bit for bit, of a run that had this length from the start
    (docs/pretraining.md).
    Expected: no figure was measured.

tiny_phase1: first phase of two: large_phase1 at a size for a CPU.
    python run_pretraining.py --config=configs/segabert.py:tiny_phase1 \
        --records_dir=records/wikipedia_128 --output_dir=runs/segabert_tiny_phase1
    A tenth of the updates and a thousandth of the batch of large_phase1, in
    micro-batches all the same.
    Hardware: 2 CPU cores. Time: about five minutes.
    Expected: validation loss about 6.52, accuracy about 13.6 % on 41 MB of Wikipedia
    with a vocabulary of 8,192 pieces, computed in batches of 64 at once.

tiny_phase2: second phase of two: longer windows, from the weights of tiny_phase1.
    python run_pretraining.py --config=configs/segabert.py:tiny_phase2 \
        --records_dir=records/wikipedia_512 --output_dir=runs/segabert_tiny_phase2 \
        --initial_checkpoint=runs/segabert_tiny_phase1
    A tenth of the updates and a thousandth of the batch of large_phase2, in
    micro-batches all the same; optimizer and schedule begin afresh.
    Hardware: 2 CPU cores. Time: about three minutes.
    Expected: validation loss about 6.41, accuracy about 14.2 % (after 50 updates 6.44
    and 13.5 %), on the text of phase 1, computed in batches of 32 at once.

base: 12 layers of width 768, English Wikipedia, 500,000 updates.
    horovodrun -np 16 -H host1:8,host2:8 python run_pretraining.py \
        --config=configs/segabert.py:base --records_dir=records/wikipedia_512 \
        --output_dir=runs/segabert_base --config.training.dtype_policy=mixed_bfloat16
    Hardware: 16 V100, as in the paper; the batch of 256 is split over the ranks. Time:
    about a day in mixed precision, an estimate from the throughput that NVIDIA
    publishes for BERT large.
    Expected: see docs/tables/segatron.md, tables 2 to 4 and 6.

large: 24 layers of width 1024, Wikipedia and books, 1,000,000 updates.
    horovodrun -np 16 -H host1:8,host2:8 python run_pretraining.py \
        --config=configs/segabert.py:large --records_dir=records/wikibooks_512 \
        --output_dir=runs/segabert_large --config.training.dtype_policy=mixed_bfloat16
    Hardware: 16 V100, as in the paper; the batch of 256 is split over the ranks. Time:
    about five days in mixed precision, at the 312 sequences/s that NVIDIA publishes for
    BERT large on eight of them.
    Expected: see docs/tables/segatron.md, tables 2 to 4.

large_phase1: first of the two phases of NVIDIA's BERT recipe: 128 positions.
    horovodrun -np 8 python run_pretraining.py \
        --config=configs/segabert.py:large_phase1 \
        --records_dir=records/wikibooks_128 --output_dir=runs/segabert_large_phase1 \
        --config.training.dtype_policy=mixed_bfloat16
    The model of large. Hardware, time and other cards: docs/pretraining.md.
    Expected: unknown, and not run here.

large_phase2: second of the two phases of NVIDIA's BERT recipe: 512 positions.
    horovodrun -np 8 python run_pretraining.py \
        --config=configs/segabert.py:large_phase2 \
        --records_dir=records/wikibooks_512 --output_dir=runs/segabert_large_phase2 \
        --initial_checkpoint=runs/segabert_large_phase1 \
        --config.training.dtype_policy=mixed_bfloat16
    From the weights of large_phase1, with a fresh optimizer and schedule.
    Expected: unknown, and not run here.
"""

from dataclasses import replace

import ml_collections

from seg_tf import configuration

_WINDOWS_128 = configuration.WindowInputsConfig(
    window_length=128, masking=configuration.MaskingConfig(max_predictions=20)
)
_WINDOWS_512 = configuration.WindowInputsConfig(
    window_length=512, masking=configuration.MaskingConfig(max_predictions=80)
)

_TINY = configuration.RunConfig(
    name="segabert_tiny",
    paper="segabert_base",
    model=configuration.EncoderConfig(
        num_layers=2,
        hidden_size=128,
        num_heads=2,
        intermediate_size=512,
        # Otherwise the loss stays longer on the plateau of a model that ignores the
        # context: after 2,500 updates it was 5.84 with 0.1 and 0.05; it is 5.00 here.
        dropout=0.0,
        initializer_range=0.1,
    ),
    inputs=_WINDOWS_128,
    # With a peak of 4e-3 the loss stays on that plateau.
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
_TINY_PHASE1 = configuration.RunConfig(
    name="segabert_tiny_phase1",
    paper="segabert_large_nvidia_phase1",
    # As in the large recipe, with which the figures above were measured.
    model=replace(_TINY.model, dropout=0.1, initializer_range=0.02),
    inputs=_WINDOWS_128,
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
_BASE = configuration.RunConfig(
    name="segabert_base",
    paper="segabert_base",
    model=configuration.EncoderConfig(),
    inputs=_WINDOWS_512,
    optimizer=configuration.AdamWConfig(learning_rate=1e-4),
    training=configuration.TrainingConfig(
        num_updates=500_000,
        batch_size=256,
        validation_interval=5_000,
        checkpoint_interval=5_000,
    ),
)
_LARGE = replace(
    _BASE,
    name="segabert_large",
    paper="segabert_large",
    model=replace(
        _BASE.model,
        num_layers=24,
        hidden_size=1024,
        num_heads=16,
        intermediate_size=4096,
    ),
    training=replace(_BASE.training, num_updates=1_000_000),
)
_LARGE_PHASE1 = configuration.RunConfig(
    name="segabert_large_phase1",
    paper="segabert_large_nvidia_phase1",
    model=_LARGE.model,
    inputs=_WINDOWS_128,
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
_PACKED = replace(
    _TINY,
    inputs=configuration.PackedWindowInputsConfig(
        window_length=_TINY.inputs.window_length,
        masking=configuration.MaskingConfig(mask_rate=0.3, max_predictions=40),
    ),
    # From an empty folder to the plot in ten minutes on two cores.
    training=replace(
        _TINY.training, num_updates=3_200, batch_size=16, validation_interval=200
    ),
)
_MINI = replace(
    _PACKED,
    name="segabert_mini",
    model=replace(
        _PACKED.model,
        num_layers=4,
        hidden_size=256,
        num_heads=4,
        intermediate_size=1024,
        # Of 0.02 to 0.08 this leaves the plateau first, and 1e-3 of the rates.
        initializer_range=0.03,
    ),
    optimizer=configuration.StableAdamWConfig(
        learning_rate=1e-3, warmup_updates=250, decay_share=0.2
    ),
    training=replace(
        _PACKED.training,
        num_updates=8_000,
        # Faster on a CPU with AVX-512 too: 3,600 tokens a second on a core, not 2,500.
        dtype_policy="mixed_bfloat16",
        log_interval=50,
        validation_interval=500,
        checkpoint_interval=500,
    ),
)


def _modern(
    run: configuration.RunConfig, size: str, learning_rate: float, warmup_updates: int
) -> configuration.RunConfig:
    """A run with the modern trunk, rotary positions and the three tables."""
    return replace(
        run,
        name=f"segabert_modern_{size}",
        paper="segabert_base",
        model=replace(
            run.model,
            trunk="modern",
            rotary_shares={"position_index": 1},
            dropout=0.0,
            layer_norm_epsilon=1e-6,
            initializer_range=0.03,
        ),
        optimizer=configuration.StableAdamWConfig(
            learning_rate=learning_rate, warmup_updates=warmup_updates, decay_share=0.2
        ),
    )


RUNS = {
    "tiny": _TINY,
    "modern_tiny": _modern(_PACKED, "tiny", 4e-3, 100),
    "mini": _MINI,
    "modern_mini": _modern(_MINI, "mini", 2e-3, 100),
    "modern_base": _modern(
        replace(
            _BASE,
            inputs=configuration.PackedWindowInputsConfig(
                window_length=512,
                masking=configuration.MaskingConfig(mask_rate=0.3, max_predictions=160),
            ),
            training=replace(_BASE.training, dtype_policy="mixed_bfloat16"),
        ),
        "base",
        5e-4,
        2_000,
    ),
    "tiny_wsd": replace(
        _TINY,
        name="segabert_tiny_wsd",
        optimizer=configuration.StableAdamWConfig(
            learning_rate=_TINY.optimizer.learning_rate,
            warmup_updates=100,
            decay_share=0.1,
        ),
    ),
    "tiny_phase1": _TINY_PHASE1,
    "tiny_phase2": replace(
        _TINY_PHASE1,
        name="segabert_tiny_phase2",
        paper="segabert_large_nvidia_phase2",
        inputs=_WINDOWS_512,
        optimizer=configuration.LambConfig(learning_rate=5e-3, warmup_updates=20),
        training=configuration.TrainingConfig(
            num_updates=156,
            batch_size=32,
            micro_batch_size=8,
            log_interval=10,
            validation_interval=50,
            validation_batches=5,
            checkpoint_interval=50,
        ),
    ),
    "base": _BASE,
    "large": _LARGE,
    "large_phase1": _LARGE_PHASE1,
    "large_phase2": replace(
        _LARGE_PHASE1,
        name="segabert_large_phase2",
        paper="segabert_large_nvidia_phase2",
        inputs=_WINDOWS_512,
        optimizer=configuration.LambConfig(learning_rate=4e-3, warmup_updates=200),
        training=replace(
            _LARGE_PHASE1.training,
            num_updates=1_564,
            batch_size=32_768,
            micro_batch_size=32,
        ),
    ),
}


def get_config(variant: str = "tiny") -> ml_collections.ConfigDict:
    """The variant's run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(configuration.get_variant(RUNS, variant))
