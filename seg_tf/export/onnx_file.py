"""Converts the signature `encode_ids` to ONNX and checks it in onnxruntime.

The ONNX model accepts the features of any number of rows of any length, but not text,
because ONNX has no operators that split text into sentences and word pieces.
"""

import importlib.util
import random

import numpy as np
import tensorflow as tf

from seg_tf.export.served import ServedModel
from seg_tf.features import FEATURES
from seg_tf.text.vocabulary import TokenTable

FILE_NAME = "encode_ids.onnx"
_OPSET = 18
# Tolerance relative to an output's largest absolute value, or absolute if that is < 1.
_TOLERANCE = 1e-4


def check_packages() -> None:
    """Raises a `ValueError` if a package that `convert` needs is missing."""
    for package in ("tf2onnx", "onnx", "onnxruntime"):
        if importlib.util.find_spec(package) is None:
            raise ValueError(
                f"`formats` with onnx needs the package {package}: pip install "
                f"'seg_tf[onnx]'. Received: an environment without {package}"
            )


def convert(model: ServedModel, vocabulary: TokenTable) -> tuple[bytes, float]:
    """Converts a model's `encode_ids` to ONNX and compares outputs on random texts.

    Returns the file's content and the largest absolute difference. Raises a
    `ValueError` if a difference is too large for a rounding error.
    """
    import onnxruntime
    import tf2onnx

    encode = _numeric_outputs(model)
    onnx_model, _ = tf2onnx.convert.from_function(
        encode, encode.input_signature, opset=_OPSET
    )
    for value in onnx_model.graph.input:
        sizes = value.type.tensor_type.shape.dim
        for size, letter in zip(sizes, FEATURES[value.name].shape, strict=True):
            size.dim_param = letter
    content = onnx_model.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    words = [token for token in vocabulary.tokens if token[0] not in "[#."]
    generator, difference = random.Random(0), 0.0
    # One text, then three texts of other lengths.
    for counts in ((1,), (3, 1, 12)):
        sentences = (" ".join(generator.choices(words, k=7)) + ".\n" for _ in range(99))
        texts = ["".join(next(sentences) for _ in range(count)) for count in counts]
        rows = model.rows_of_texts(tf.constant(texts))
        rows = {spec.name: rows[spec.name] for spec in encode.input_signature}
        expected = encode(*rows.values())
        outputs = session.run(
            list(expected), {name: values.numpy() for name, values in rows.items()}
        )
        for (name, values), output in zip(expected.items(), outputs, strict=True):
            difference = max(difference, _compare(name, values.numpy(), output))
    return content, difference


def _numeric_outputs(model: ServedModel) -> tf.types.experimental.GenericFunction:
    """Wraps `encode_ids` without string outputs. Renames outputs named like inputs."""
    encode_ids = model.functions["encode_ids"]
    specs = encode_ids.structured_input_signature[1]

    @tf.function(input_signature=list(specs.values()), autograph=False)
    def encode(*features: tf.Tensor) -> dict[str, tf.Tensor]:
        outputs = encode_ids(**dict(zip(specs, features, strict=True)))
        return {
            f"output_{name}" if name in specs else name: values
            for name, values in outputs.items()
            if values.dtype != tf.string
        }

    return encode


def _compare(name: str, expected: np.ndarray, output: np.ndarray) -> float:
    expected = expected.astype(np.float64)
    difference = float(np.max(np.abs(expected - output), initial=0.0))
    allowed = _TOLERANCE * max(1.0, float(np.max(np.abs(expected), initial=0.0)))
    # Also refuses NaN.
    if not difference <= allowed:
        raise ValueError(
            "The ONNX file must compute what the model computes. Received: "
            f"`{name}`, which differs by {difference:.1e}, more than {allowed:.1e}; "
            "the export was not kept"
        )
    return difference
