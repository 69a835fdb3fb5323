"""Columns of ReAT: base and small.

The paper is the only source; its authors released no code. Where a source begins with
"unsaid", the paper leaves the setting open, and what follows is taken instead.
"""

import math
from collections.abc import Mapping

from seg_tf import configuration
from seg_tf.fidelity.paper_values import (
    BERT,
    BERT_CODE,
    BERT_CONFIG,
    PaperValue,
    attention_dropout,
    whole_run,
)

_REAT = "ReAT (Kawano and Shimizu)"
_PRETRAINING = f"{_REAT}, section III.A"
_TABLE_1 = f"{_REAT}, table 1"
_AS_BERT = f"unsaid; {BERT}"
_AS_BERT_CODE = f"unsaid; {BERT_CODE}"


def _all_masked(config: configuration.RunConfig) -> int:
    """Largest number of predictions of a row without padding."""
    return math.ceil(getattr(config.inputs, "row_length", 0) * 0.15)


_SHARED = (
    PaperValue("model.block_length", 128, f"{_PRETRAINING}: 128 words a sentence"),
    PaperValue("model.max_sentences", 128, f"{_PRETRAINING}: 128 sentences"),
    PaperValue("model.dropout", 0.1, _TABLE_1),
    PaperValue("model.attention_dropout", attention_dropout, _TABLE_1),
    PaperValue("model.layer_norm_epsilon", 1e-12, _AS_BERT_CODE),
    PaperValue("model.initializer_range", 0.02, f"unsaid; {BERT_CONFIG}"),
    PaperValue("inputs", "ReATInputsConfig", f"{_REAT}, section II.A"),
    PaperValue("inputs.short_sentence_length", 48, _PRETRAINING),
    PaperValue("inputs.short_max_sentences", 16, _PRETRAINING),
    PaperValue("inputs.long_sentence_length", 128, _PRETRAINING),
    PaperValue("inputs.long_max_sentences", 128, _PRETRAINING),
    PaperValue("inputs.long_rate", 0.1, _PRETRAINING),
    PaperValue("inputs.exchange_rate", 0.2, _PRETRAINING),
    PaperValue("inputs.exchange_within", "text", "unsaid; sentences of one text"),
    # A row of Wikipedia holds 258 sentences on average.
    PaperValue("inputs.row_length", 7_168, f"{_TABLE_1}: 256 sentences, or twice that"),
    PaperValue("inputs.masking", "MaskingConfig", f"{_REAT}, section II.D"),
    PaperValue("inputs.masking.mask_rate", 0.15, _PRETRAINING),
    PaperValue("inputs.masking.max_predictions", _all_masked, _PRETRAINING),
    PaperValue("inputs.masking.mask_token_rate", 0.8, f"{_AS_BERT}, section 3.1"),
    PaperValue("inputs.masking.random_token_rate", 0.1, f"{_AS_BERT}, section 3.1"),
    PaperValue(
        "objectives", ("exchange_sentence", "masked_lm"), f"{_REAT}, section II.D"
    ),
    PaperValue("objectives.masked_lm.loss_weight", 1.0, "unsaid; the sum of both"),
    PaperValue(
        "objectives.exchange_sentence.loss_weight", 1.0, "unsaid; the sum of both"
    ),
    PaperValue("optimizer", "AdamWConfig", _TABLE_1),
    PaperValue("optimizer.beta_1", 0.9, _TABLE_1),
    PaperValue("optimizer.beta_2", 0.999, _TABLE_1),
    PaperValue("optimizer.epsilon", 1e-6, _TABLE_1),
    PaperValue("optimizer.weight_decay", 0.01, _TABLE_1),
    PaperValue("optimizer.warmup_updates", 10_000, _TABLE_1),
    PaperValue("optimizer.decay_power", 1.0, f"{_TABLE_1}: linear decay"),
    PaperValue("optimizer.decay_updates", whole_run, _AS_BERT_CODE),
    PaperValue("optimizer.end_learning_rate", 0.0, _AS_BERT_CODE),
    PaperValue("training.clip_norm", 1.0, _AS_BERT_CODE),
    PaperValue("training.dtype_policy", "float32", _AS_BERT_CODE),
)

_SIZES = {
    "base": {
        "model.num_sentence_layers": 3,
        "model.num_alpha_layers": 4,
        "model.hidden_size": 768,
        "model.alpha_hidden_size": 1024,
        "model.intermediate_size": 3072,
        "model.alpha_intermediate_size": 4096,
        "optimizer.learning_rate": 4e-5,
        "training.num_updates": 25_000_000,
    },
    "small": {
        "model.num_sentence_layers": 2,
        "model.num_alpha_layers": 2,
        "model.hidden_size": 512,
        "model.alpha_hidden_size": 768,
        "model.intermediate_size": 2048,
        "model.alpha_intermediate_size": 3072,
        "optimizer.learning_rate": 2e-4,
        "training.num_updates": 5_000_000,
    },
}
# Rows of about 256 sentences, and heads 64 wide.
_ROWS = {"base": 1, "small": 2}
_HEADS = {"base": (12, 16), "small": (8, 12)}


def _column(size: str) -> tuple[PaperValue, ...]:
    num_heads, alpha_num_heads = _HEADS[size]
    unsaid = f"unsaid; heads 64 wide, as in {BERT}"
    return (
        *(PaperValue(name, value, _TABLE_1) for name, value in _SIZES[size].items()),
        PaperValue("model.num_heads", num_heads, unsaid),
        PaperValue("model.alpha_num_heads", alpha_num_heads, unsaid),
        PaperValue(
            "training.batch_size",
            _ROWS[size],
            f"{_TABLE_1}: {256 * _ROWS[size]} sentences, {18 * _ROWS[size]} texts",
        ),
        *_SHARED,
    )


COLUMNS: Mapping[str, tuple[PaperValue, ...]] = {
    f"reat_{size}": _column(size) for size in _SIZES
}

# What a config does not hold, so that nothing here can compare it.
NOT_COMPARED = (
    "the corpus (English C4) and its vocabulary (uncased BERT's); which of its pieces "
    "are <SS>, <Attn> and </s> is unsaid (here [CLS], the first unused one, [SEP])",
    "where sentences are split (at '.', '!', '?' and the like; here by Punkt)",
    "sentences that are too long (unsaid; here cut into parts, each a sentence)",
    "whether the lengths count special tokens (unsaid; here they do)",
    "when the longer texts come (unsaid; here all through the run)",
    "how sentences are exchanged (unsaid; here the drawn ones of a text, or of a row, "
    "all move, and take each other's places)",
    "which vectors tell of an exchange (the output of <SS>, its layer unsaid; here the "
    "last alpha layer's, through the pooler and an affine layer)",
    "whether masked LM is tied to the token table (unsaid; here it is, behind a dense "
    "layer to the width of that table)",
    "the number of parameters (small: 51M, here 51.4M; base: 138M, here 147.5M, since "
    "no one reading gives both)",
    "the initial weights (unsaid; here BERT's, and sinusoids in the table of sentence "
    "positions)",
)
