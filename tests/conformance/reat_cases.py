"""The parts of ReAT, the whole, and its objective."""

# Shape key: B batch, N sentences of a row, D hidden size.
import numpy as np
from keras import ops

from seg_tf.layers import AlphaTransformerLayer, SentenceTransformerLayer
from seg_tf.models import ReAT
from seg_tf.objectives import ExchangeSentence
from seg_tf.ops.attention import gather_vectors
from tests import numpy_reat, numpy_reference, text_batches
from tests.conformance.case import Case, feature_specs, waves

BLOCK_LENGTH = 10
SENTENCE_LAYER_ARGUMENTS = {
    "intermediate_size": 6,
    "num_heads": 2,
    "block_length": BLOCK_LENGTH,
    "dropout": 0.25,
    "attention_dropout": 0.125,
    "layer_norm_epsilon": 1e-3,
    "initializer_range": 0.3,
    "approximate_gelu": True,
    "recompute": True,
}
REAT_ARGUMENTS = {
    "vocab_size": 13,
    "block_length": BLOCK_LENGTH,
    "max_sentences": 4,
    "num_sentence_layers": 1,
    "num_alpha_layers": 1,
    "hidden_size": 4,
    "alpha_hidden_size": 6,
    "num_heads": 2,
    "alpha_num_heads": 3,
    "intermediate_size": 6,
    "alpha_intermediate_size": 8,
    "dropout": 0.25,
    "attention_dropout": 0.0,
    "layer_norm_epsilon": 1e-3,
    "initializer_range": 0.3,
    "approximate_gelu": True,
    "recompute_layers": True,
}
REAT_SETTINGS = {"epsilon": 1e-3, "approximate_gelu": True}


def _text_inputs(batch, length):
    """Rows of about `length` sentences, two in each block."""
    num_blocks = (length + 1) // 2
    return text_batches.text_rows(
        text_batches.some_rows(batch, num_blocks),
        block_length=BLOCK_LENGTH,
        num_blocks=num_blocks,
        num_sentences=2 * num_blocks,
    )


def _hidden_text_inputs(batch, length):
    inputs = _text_inputs(batch, length)
    shape = inputs["token_ids"].shape
    return {"hidden": 3 * waves((*shape, 4), 2) - 1.5, **inputs}


def _exchange_inputs(batch, length):
    inputs = _text_inputs(batch, length)
    shape = inputs["sentence_mask"].shape
    count = np.arange(np.prod(shape)).reshape(shape)
    return {
        "sequence_output": 3 * waves((*inputs["token_ids"].shape, 6), 4) - 1.5,
        "sentence_starts": inputs["sentence_starts"],
        "is_moved": inputs["sentence_mask"] & (count % 3 == 0),
        "can_move": inputs["sentence_mask"] & (count % 5 > 0),
    }


def _at_starts(outputs, inputs):
    """The outputs at the first position of each sentence; 0 where there is none."""
    vectors_BND = gather_vectors(outputs, inputs["sentence_starts"])
    mask_BN = ops.cast(inputs["sentence_mask"], vectors_BND.dtype)
    return vectors_BND * mask_BN[:, :, None]


def _apply_sentence_layer(layer, inputs):
    return _at_starts(layer(inputs["hidden"], inputs["sentence_number"]), inputs)


def _apply_alpha_layer(layer, inputs):
    outputs = layer(
        inputs["hidden"],
        inputs["sentence_number"],
        inputs["text_number"],
        inputs["sentence_starts"] + 1,
        inputs["sentence_mask"],
    )
    return _at_starts(outputs, inputs)


def _reference_layer(function):
    """A reference of a layer by a function of `numpy_reat`."""

    def reference(layer, inputs):
        weights = numpy_reference.named_weights(layer)
        outputs = function(weights, inputs["hidden"], inputs, **REAT_SETTINGS)
        return _at_starts(outputs, inputs)

    return reference


def _reference_reat(layer, inputs):
    weights = numpy_reference.named_weights(layer)
    sequence = numpy_reat.reat(
        weights, inputs, num_sentence_layers=1, num_alpha_layers=1, **REAT_SETTINGS
    )
    return _at_starts(sequence, inputs)


def _reference_exchange(layer, inputs):
    mask = np.ones_like(inputs["can_move"])
    vectors = numpy_reat.pooled(
        numpy_reference.named_weights(layer.encoder),
        inputs["sequence_output"],
        {**inputs, "sentence_mask": mask},
    )
    weights = numpy_reference.named_weights(layer.classifier)
    logits = numpy_reference.dense(weights, vectors)
    return numpy_reat.exchange_sentence(logits, inputs["is_moved"], inputs["can_move"])


HIDDEN = {"hidden": ((None, 4), "float32")}
CASES = [
    Case(
        cls=SentenceTransformerLayer,
        arguments=SENTENCE_LAYER_ARGUMENTS,
        specs={
            **HIDDEN,
            **feature_specs("sentence_number", "sentence_starts", "sentence_mask"),
        },
        apply=_apply_sentence_layer,
        reference=_reference_layer(numpy_reat.sentence_layer),
        make_inputs=_hidden_text_inputs,
        compiled_within="ReAT",
    ),
    Case(
        cls=AlphaTransformerLayer,
        arguments=SENTENCE_LAYER_ARGUMENTS,
        specs={
            **HIDDEN,
            **feature_specs(
                "sentence_number", "text_number", "sentence_starts", "sentence_mask"
            ),
        },
        apply=_apply_alpha_layer,
        reference=_reference_layer(numpy_reat.alpha_layer),
        make_inputs=_hidden_text_inputs,
        compiled_within="ReAT",
    ),
    Case(
        cls=ReAT,
        arguments=REAT_ARGUMENTS,
        specs=feature_specs(
            "token_ids",
            "position_index",
            "sentence_number",
            "text_number",
            "sentence_position",
            "sentence_starts",
            "sentence_mask",
        ),
        apply=lambda layer, inputs: _at_starts(layer(inputs), inputs),
        reference=_reference_reat,
        make_inputs=_text_inputs,
    ),
    Case(
        cls=ExchangeSentence,
        arguments={
            "encoder": lambda dtype: ReAT(**REAT_ARGUMENTS, dtype=dtype),
            "loss_weight": 0.25,
        },
        specs={
            "sequence_output": ((None, 6), "float32"),
            **feature_specs("sentence_starts", "is_moved", "can_move"),
        },
        reference=_reference_exchange,
        make_inputs=_exchange_inputs,
    ),
]
