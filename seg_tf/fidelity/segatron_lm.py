"""Columns of Sega-Transformer-XL, its ablations, and Transformer-XL as it is compared.

Where a source names Transformer-XL, the paper takes its setting over.
"""

from collections.abc import Mapping

from seg_tf.fidelity.paper_values import PaperValue, mixed_precision, whole_run

_SEGATRON = "Segatron (arXiv:2004.14996)"
_SETUP = f"{_SEGATRON}, section 4.1"
_TRANSFORMER_XL = "Transformer-XL's published scripts"
_OBJECTIVE = f"{_SEGATRON}, section 3.1"

_SHARED = (
    PaperValue("model.position_form", "eq3", f"{_SEGATRON}, eq. 3", "released"),
    PaperValue("model.cutoffs", (20_000, 40_000, 200_000), _TRANSFORMER_XL),
    PaperValue("model.layer_norm_epsilon", 1e-5, _TRANSFORMER_XL),
    PaperValue("model.initializer_range", 0.02, _TRANSFORMER_XL),
    PaperValue("model.projection_range", 0.01, _TRANSFORMER_XL),
    PaperValue("objectives", ("causal_lm",), _OBJECTIVE),
    PaperValue("objectives.causal_lm.loss_weight", 1.0, _OBJECTIVE),
    PaperValue("optimizer", "CosineAdamWConfig", f"{_TRANSFORMER_XL}: Adam, cosine"),
    PaperValue("optimizer.learning_rate", 2.5e-4, _TRANSFORMER_XL),
    PaperValue("optimizer.end_learning_rate", 0.0, _TRANSFORMER_XL),
    PaperValue("optimizer.weight_decay", 0.0, _TRANSFORMER_XL),
    PaperValue("optimizer.beta_1", 0.9, _TRANSFORMER_XL),
    PaperValue("optimizer.beta_2", 0.999, _TRANSFORMER_XL),
    PaperValue("optimizer.epsilon", 1e-8, _TRANSFORMER_XL),
    PaperValue("training.clip_norm", 0.25, _TRANSFORMER_XL),
)

_SIZES = {
    "base": (
        PaperValue("model.num_layers", 16, _SETUP),
        PaperValue("model.hidden_size", 410, _SETUP),
        PaperValue("model.num_heads", 10, _SETUP),
        PaperValue("model.head_size", 41, _TRANSFORMER_XL),
        PaperValue("model.intermediate_size", 2100, _TRANSFORMER_XL),
        PaperValue("model.embedding_size", 410, _TRANSFORMER_XL),
        PaperValue("model.tail_divisor", 1, _TRANSFORMER_XL),
        PaperValue("model.dropout", 0.1, _TRANSFORMER_XL),
        PaperValue("model.attention_dropout", 0.0, _TRANSFORMER_XL),
        PaperValue("model.memory_length", 150, _SETUP),
        PaperValue("inputs.target_length", 150, _SETUP),
        PaperValue("optimizer.warmup_updates", 0, _TRANSFORMER_XL),
        PaperValue("optimizer.decay_updates", whole_run, _TRANSFORMER_XL),
        PaperValue("training.batch_size", 64, _SETUP),
        PaperValue("training.num_updates", 200_000, _SETUP),
    ),
    "large": (
        PaperValue("model.num_layers", 18, _SETUP),
        PaperValue("model.hidden_size", 1024, _SETUP),
        PaperValue("model.num_heads", 16, _SETUP),
        PaperValue("model.head_size", 64, _TRANSFORMER_XL),
        PaperValue("model.intermediate_size", 4096, _TRANSFORMER_XL),
        PaperValue("model.embedding_size", 1024, _TRANSFORMER_XL),
        PaperValue("model.tail_divisor", 4, _TRANSFORMER_XL),
        PaperValue("model.dropout", 0.2, _TRANSFORMER_XL),
        PaperValue("model.attention_dropout", 0.2, _TRANSFORMER_XL),
        PaperValue("model.memory_length", 384, _SETUP),
        PaperValue("inputs.target_length", 384, _SETUP),
        PaperValue("optimizer.warmup_updates", 16_000, "the authors' scripts"),
        PaperValue("optimizer.decay_updates", 500_000, "the authors' scripts"),
        PaperValue("training.batch_size", 128, _SETUP),
        PaperValue("training.num_updates", 350_000, _SETUP),
    ),
}

_PARTS = {
    "sega_transformer_xl": ("token", "sentence", "paragraph"),
    "sega_transformer_xl_no_paragraph": ("token", "sentence"),
    "sega_transformer_xl_no_sentence": ("token", "paragraph"),
    "transformer_xl": ("token",),
}

# The authors train in mixed precision, of a kind unsaid. The large Transformer-XL is
# not theirs.
_MIXED = PaperValue("training.dtype_policy", mixed_precision, f"{_SETUP}: mixed")
_FULL = PaperValue("training.dtype_policy", "float32", f"{_SETUP}: full precision")

COLUMNS: Mapping[str, tuple[PaperValue, ...]] = {
    f"{model}_{size}": (
        PaperValue("model.position_parts", parts, f"{_SEGATRON}, eq. 3 and table 5"),
        *values,
        *_SHARED,
        _FULL if (model, size) == ("transformer_xl", "large") else _MIXED,
    )
    for model, parts in _PARTS.items()
    for size, values in _SIZES.items()
}

# What a config does not hold, so that nothing here can compare it.
NOT_COMPARED = (
    "the corpus (WikiText-103) and its vocabulary (267,735 words of its training "
    "split, cased)",
    "the sentence splitter (NLTK Punkt on the tokenised line)",
    "the exponents of equation 2 (as printed, k runs on over the cosines, whose waves "
    "would all be 10,000 times 2 pi or longer; here, as in Transformer-XL's code, it "
    "starts anew, so that each cosine has the wave of a sine)",
    "first values of the softmax's vectors of tails (here 0, as in Transformer-XL's "
    "TensorFlow code) and of LayerNorm's scales (here 1); the authors draw both",
    "lanes (here each goes on into the next one's text, and no word is left out; "
    "Transformer-XL starts each epoch anew)",
)
