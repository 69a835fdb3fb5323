"""SLM runs: BERT that learns to put shuffled sentences back in order.

Commands, hardware and results: docs/configs.md#slm_tiny.

tiny: 2 layers of width 128, for a CPU and a first look at the curves.
tiny_no_reconstructor: tiny without the Sequence Reconstructor, only masked LM.
base: 12 layers of width 768, Wikipedia and books, 1,000,000 updates.
base_shuffle_all: base with shuffled sentences in every row (table 5, row 2).
base_shuffle_all_no_reconstructor: shuffled rows, only masked LM (table 5, row 3).
base_no_shuffle: base with sentences in order, only masked LM (table 5, row 4).
base_plain: BERT with SLM's span masking and learning rate (table 5, last row).
base_plain_shuffled: base_plain with shuffled sentences in every row (table 4, row 2).
"""

from dataclasses import replace

from seg_tf.config import (
    AdamWConfig,
    EncoderConfig,
    MaskedLMConfig,
    RunConfig,
    SentenceUnshufflingConfig,
    TrainingConfig,
    config_getter,
    named_runs,
)
from seg_tf.configs import segabert
from seg_tf.data.configs import (
    MaskingConfig,
    SentenceInputsConfig,
    ShuffledWindowInputsConfig,
    WindowInputsConfig,
)

_MASKED_LM = {"masked_lm": MaskedLMConfig()}
_BASE = RunConfig(
    model=EncoderConfig(
        index_tables={"position_index": 512, "sentence_id": 22}, num_token_types=2
    ),
    inputs=SentenceInputsConfig(),
    objectives=_MASKED_LM | {"sentence_unshuffling": SentenceUnshufflingConfig()},
    optimizer=AdamWConfig(learning_rate=1.5e-4, warmup_updates=10_000),
    training=TrainingConfig(
        num_updates=1_000_000, batch_size=256, dtype_policy="mixed_float16"
    ),
)
_BASE_SHUFFLE_ALL = replace(_BASE, inputs=replace(_BASE.inputs, shuffle_rate=1.0))

_SEGABERT = segabert.RUNS["tiny"]
_TINY = replace(
    _SEGABERT,
    paper="slm_base",
    model=replace(
        _SEGABERT.model,
        index_tables={"position_index": 148, "sentence_id": 22},
        num_token_types=_BASE.model.num_token_types,
    ),
    inputs=SentenceInputsConfig(
        window_length=_SEGABERT.inputs.window_length,
        max_sentences=20,
        # If half of the rows are in order, a small model only points to the next index.
        shuffle_rate=1.0,
        # With span masking, the loss does not leave its plateau in such a short run.
        masking=MaskingConfig(max_predictions=20),
    ),
    objectives={
        "masked_lm": MaskedLMConfig(),
        "sentence_unshuffling": SentenceUnshufflingConfig(
            num_layers=3,
            # Unscaled pointer logits are too large at first with these weights.
            scale_pointers=True,
            # With post-norm, it collapses at this learning rate and never recovers.
            normalize_first=True,
            # With 1, the pointer loss dominates the clipped gradient.
            loss_weight=0.1,
        ),
    },
    optimizer=replace(_SEGABERT.optimizer, warmup_share=3 / 70),
    training=replace(_SEGABERT.training, num_updates=6_000, checkpoint_interval=500),
)
_BASE_PLAIN = replace(
    _BASE,
    model=replace(_BASE.model, index_tables={"position_index": 512}),
    inputs=WindowInputsConfig(
        window_length=_BASE.inputs.window_length, masking=_BASE.inputs.masking
    ),
    objectives=_MASKED_LM,
)

RUNS = named_runs(
    "slm",
    tiny=_TINY,
    tiny_no_reconstructor=replace(
        _TINY, name="slm_tiny_no_reconstructor", objectives=_MASKED_LM
    ),
    base=_BASE,
    base_shuffle_all=_BASE_SHUFFLE_ALL,
    base_shuffle_all_no_reconstructor=replace(_BASE_SHUFFLE_ALL, objectives=_MASKED_LM),
    base_no_shuffle=replace(
        _BASE, inputs=replace(_BASE.inputs, shuffle_rate=0.0), objectives=_MASKED_LM
    ),
    base_plain=_BASE_PLAIN,
    base_plain_shuffled=replace(
        _BASE_PLAIN,
        inputs=ShuffledWindowInputsConfig(
            window_length=_BASE.inputs.window_length,
            max_sentences=_BASE.inputs.max_sentences,
            shuffle_rate=1.0,
            masking=_BASE.inputs.masking,
        ),
    ),
)

get_config = config_getter(RUNS)
