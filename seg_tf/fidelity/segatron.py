"""Columns of SegaBERT, of the models that its paper compares, and NVIDIA's recipe.

The columns "…_nvidia_phase1" and "…_nvidia_phase2" have the model and the objective of
the large column, and window, batch and optimizer of NVIDIA's two-phase recipe for BERT
large, which trains next sentence prediction as well.
"""

from collections.abc import Mapping

from seg_tf.fidelity.paper_values import (
    BERT,
    BERT_CODE,
    BERT_CONFIG,
    PaperValue,
    attention_dropout,
    one_percent,
    predictions,
    whole_run,
)

_SEGABERT = "SegaBERT (arXiv:2004.14996), section 2"
_BERT = f"{BERT}, appendix A.2"
_NVIDIA = "NVIDIA's BERT for TensorFlow 2, LAMB recipe"

_SHARED = (
    PaperValue("model.dropout", 0.1, _BERT),
    PaperValue("model.attention_dropout", attention_dropout, _BERT),
    PaperValue("model.layer_norm_epsilon", 1e-12, BERT_CODE, released=1e-5),
    PaperValue("model.initializer_range", 0.02, BERT_CONFIG),
    PaperValue("model.num_token_types", 0, f"{_SEGABERT}, input sum", released=2),
    PaperValue("inputs.window_length", 512, f"{_SEGABERT}, input representation"),
    PaperValue("inputs.max_windows_per_row", 1, f"{_SEGABERT}, input representation"),
    PaperValue("inputs.masking", "MaskingConfig", "BERT, section 3.1"),
    PaperValue("inputs.masking.mask_rate", 0.15, "BERT, section 3.1"),
    PaperValue("inputs.masking.max_predictions", predictions, BERT_CODE),
    PaperValue("inputs.masking.mask_token_rate", 0.8, "BERT, section 3.1"),
    PaperValue("inputs.masking.random_token_rate", 0.1, "BERT, section 3.1"),
    PaperValue("objectives", ("masked_lm",), f"{_SEGABERT}, training objective"),
    PaperValue("objectives.masked_lm.loss_weight", 1.0, _SEGABERT),
    PaperValue("optimizer", "AdamWConfig", f"{_SEGABERT}: Adam; {_BERT}: with decay"),
    PaperValue("optimizer.learning_rate", 1e-4, f"{_SEGABERT}, training setup"),
    PaperValue("optimizer.beta_1", 0.9, f"{_SEGABERT}, training setup"),
    PaperValue("optimizer.beta_2", 0.999, f"{_SEGABERT}, training setup"),
    PaperValue("optimizer.epsilon", 1e-6, BERT_CODE),
    PaperValue("optimizer.weight_decay", 0.01, _BERT),
    PaperValue("training.clip_norm", 1.0, BERT_CODE),
    PaperValue("optimizer.warmup_updates", one_percent, f"{_SEGABERT}: 1 % of steps"),
    PaperValue("optimizer.decay_power", 1.0, f"{_SEGABERT}: linear decay"),
    PaperValue("optimizer.end_learning_rate", 0.0, BERT_CODE, released=2e-6),
    PaperValue("optimizer.decay_updates", whole_run, BERT_CODE, released=900_000),
    PaperValue("training.batch_size", 256, _BERT),
)
# Not of NVIDIA's recipe, whose scripts take full and mixed precision.
_PRECISION = PaperValue("training.dtype_policy", "float32", BERT_CODE)

_SIZES = {
    "base": (
        PaperValue("model.num_layers", 12, _SEGABERT),
        PaperValue("model.hidden_size", 768, _SEGABERT),
        PaperValue("model.num_heads", 12, _SEGABERT),
        PaperValue("model.intermediate_size", 3072, _BERT),
        PaperValue("training.num_updates", 500_000, f"{_SEGABERT}, training setup"),
    ),
    "large": (
        PaperValue("model.num_layers", 24, _SEGABERT),
        PaperValue("model.hidden_size", 1024, _SEGABERT),
        # The paper prints 24, which does not divide the width.
        PaperValue("model.num_heads", 16, "config published by SegaBERT's authors"),
        PaperValue("model.intermediate_size", 4096, _BERT),
        PaperValue("training.num_updates", 1_000_000, f"{_SEGABERT}, training setup"),
    ),
}

_POSITION = {"position_index": 512}
_SEGMENTS = {"paragraph_index": 50, "sentence_index": 100}

_TABLES = {
    "segabert": PaperValue(
        "model.index_tables",
        _SEGMENTS | {"token_index": 256},
        f"{_SEGABERT}, training setup",
        released=_SEGMENTS | {"token_index": 512},
    ),
    "bert": PaperValue("model.index_tables", _POSITION, "SegaBERT, section 3.3: BERT"),
    "bert_ps": PaperValue(
        "model.index_tables",
        _POSITION | _SEGMENTS,
        "SegaBERT, section 3.3: BERT with P.S.",
    ),
}

_NVIDIA_SHARED = {
    "optimizer": "LambConfig",
    "optimizer.decay_power": 0.5,
    "optimizer.decay_from_start": True,
    "optimizer.adapt_excluded": True,
    "optimizer.end_learning_rate": 0.0,
    "optimizer.decay_updates": whole_run,
}
_NVIDIA_PHASES = {
    "phase1": {
        "inputs.window_length": 128,
        "inputs.masking.max_predictions": 20,
        "optimizer.learning_rate": 6e-3,
        "optimizer.warmup_updates": 2_000,
        "training.batch_size": 65_536,
        "training.num_updates": 7_038,
    },
    "phase2": {
        "inputs.window_length": 512,
        "inputs.masking.max_predictions": 80,
        "optimizer.learning_rate": 4e-3,
        "optimizer.warmup_updates": 200,
        "training.batch_size": 32_768,
        "training.num_updates": 1_564,
    },
}


def _nvidia_column(model: str, phase: str) -> tuple[PaperValue, ...]:
    """The large column of `model`, but for what the recipe of `phase` says."""
    recipe = {
        setting: PaperValue(setting, value, f"{_NVIDIA}, {phase}")
        for setting, value in {**_NVIDIA_SHARED, **_NVIDIA_PHASES[phase]}.items()
    }
    large = (_TABLES[model], *_SIZES["large"], *_SHARED)
    return tuple({**{value.setting: value for value in large}, **recipe}.values())


COLUMNS: Mapping[str, tuple[PaperValue, ...]] = {
    f"{model}_{size}": (tables, *values, *_SHARED, _PRECISION)
    for model, tables in _TABLES.items()
    for size, values in _SIZES.items()
} | {
    f"{model}_large_nvidia_{phase}": _nvidia_column(model, phase)
    for model in _TABLES
    for phase in _NVIDIA_PHASES
}

# What a config does not hold, so that nothing here can compare it.
NOT_COMPARED = (
    "the corpus (base: English Wikipedia; large: with BookCorpus) and its vocabulary",
    "the sentence splitter (NLTK Punkt)",
    "short windows (1 in 100 has a random length) and their layout (one stretch of a "
    "document; the authors' code: two, A and B)",
    "the precision of NVIDIA's recipe (its scripts take float32 and mixed float16)",
    "the initial weights (phase 2 of NVIDIA's recipe: those of phase 1)",
)
