"""`encode_ids` as an ONNX or a LiteRT file, checked in the runtime that will read it.

Such a file takes the features of rows, of any number and length. Text needs operators
that neither format has.
"""

import contextlib
import dataclasses
import importlib.util
import logging
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from seg_tf.export.served_model import ServedModel
from seg_tf.features import FEATURES
from seg_tf.text.token_table import TokenTable

Arrays = Mapping[str, np.ndarray]
Runner = Callable[[Arrays], Arrays]

_OPSET = 18
# Largest difference of an output from the model's, as a share of its largest value.
_TOLERANCE = 1e-4
# Sentences of the texts of each batch that is compared.
_COMPARED = ((1,), (3, 1, 12))
_WORDS_PER_SENTENCE = 7


@dataclasses.dataclass(frozen=True)
class PortableFormat:
    """A format of files that other runtimes read.

    Attributes:
        file_name: name of the file.
        packages: modules that writing and checking it import.
        convert: the content of the file, of a function and the weights that it reads.
        load: makes a runner of that content, in the format's own runtime.
    """

    file_name: str
    packages: tuple[str, ...]
    convert: Callable[[tf.types.experimental.GenericFunction, Sequence[Any]], bytes]
    load: Callable[[bytes], Runner]


def check_formats(names: Iterable[str]) -> None:
    """Makes sure that formats exist and their packages are installed.

    Raises:
        ValueError: if one does not, or a package is missing.
    """
    for name in names:
        if name not in FORMATS:
            raise ValueError(
                f"`formats` must be of saved_model, {', '.join(FORMATS)}. Received: "
                f"{name!r}"
            )
        for package in FORMATS[name].packages:
            if importlib.util.find_spec(package) is None:
                raise ValueError(
                    f"`formats` with {name} needs the package {package}: pip install "
                    f"'seg_tf[{name}]'"
                )


def converted(
    name: str, model: ServedModel, vocabulary: TokenTable
) -> tuple[bytes, float]:
    """A model's `encode_ids` in a format, and how far it is from the model.

    Args:
        name: of `FORMATS`.
        model: the model.
        vocabulary: of whose words texts are made to compare both.

    Returns:
        The content of the file; and the largest difference of a number.

    Raises:
        ValueError: if the file computes something else.
    """
    made, encode, names = FORMATS[name], _of_rows(model), _specs(model)
    content = made.convert(encode, model.weights)
    run, difference = made.load(content), 0.0
    for texts in _texts(vocabulary):
        rows = model.rows_of_texts(tf.constant(texts))
        found = run({one: rows[one].numpy() for one in names})
        expected = encode(*(rows[one] for one in names))
        for output, values in expected.items():
            difference = max(
                difference, _difference(name, output, values.numpy(), found[output])
            )
    return content, difference


def _difference(
    name: str, output: str, expected: np.ndarray, found: np.ndarray
) -> float:
    """Largest difference of an output, which is no larger than rounding explains."""
    if expected.shape != found.shape:
        raise ValueError(
            f"The {name} file must give what the model gives. Received: `{output}` of "
            f"shape {found.shape}, not {expected.shape}; the export was not kept"
        )
    expected = expected.astype(np.float64)
    difference = float(np.max(np.abs(expected - found), initial=0.0))
    allowed = _TOLERANCE * max(1.0, float(np.max(np.abs(expected), initial=0.0)))
    # False of NaN, too.
    if not difference <= allowed:
        raise ValueError(
            f"The {name} file must give what the model gives. Received: `{output}` "
            f"that differs by {difference:.1e}, more than {allowed:.1e}; the export "
            "was not kept"
        )
    return difference


def _texts(vocabulary: TokenTable) -> Iterator[list[str]]:
    """Batches of texts of random words of a vocabulary, in paragraphs of two."""
    words = [token for token in vocabulary.tokens if token[0] not in "[#."]
    generator = random.Random(0)
    for batch in _COMPARED:
        texts = []
        for count in batch:
            sentences = [
                " ".join(generator.choices(words, k=_WORDS_PER_SENTENCE)).capitalize()
                for _ in range(count)
            ]
            texts.append(".\n".join(sentences).replace(".\n", ". ", 1) + ".")
        yield texts


# === Functions ===


def _specs(model: ServedModel) -> Mapping[str, tf.TensorSpec]:
    """Features that `encode_ids` reads."""
    return model.functions["encode_ids"].structured_input_signature[1]


def _of_rows(model: ServedModel) -> tf.types.experimental.GenericFunction:
    """`encode_ids`, its numbers alone, under names that no feature has."""
    specs = _specs(model)

    @tf.function(input_signature=list(specs.values()), autograph=False)
    def encode(*features: tf.Tensor) -> dict[str, tf.Tensor]:
        found = model.functions["encode_ids"](**dict(zip(specs, features, strict=True)))
        return {
            f"output_{name}" if name in specs else name: values
            for name, values in found.items()
            if values.dtype != tf.string
        }

    return encode


# === ONNX ===


def _to_onnx(
    function: tf.types.experimental.GenericFunction, weights: Sequence[Any]
) -> bytes:
    import tf2onnx

    del weights
    with _errors_alone("tf2onnx", "tensorflow"):
        model, _ = tf2onnx.convert.from_function(
            function,
            function.input_signature,
            opset=_OPSET,
            custom_op_handlers={"Erfc": (_erfc, [])},
        )
    for one in model.graph.input:
        sizes = one.type.tensor_type.shape.dim
        for size, letter in zip(sizes, FEATURES[one.name].shape, strict=True):
            size.dim_param = letter
    return model.SerializeToString()


@contextlib.contextmanager
def _errors_alone(*names: str) -> Iterator[None]:
    """Hides warnings of loggers: of operators that have a handler, and of tables."""
    loggers = [logging.getLogger(name) for name in names]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def _erfc(context: Any, node: Any, name: str, _: Any) -> None:
    """1 - erf(x), of which ONNX has the second half."""
    of, result = node.input[0], node.output[0]
    shape, dtype = context.get_shape(result), context.get_dtype(result)
    context.remove_node(node.name)
    one = context.make_const(f"{name}_one", np.array(1, np.float32))
    erf = context.make_node("Erf", [of])
    context.make_node(
        "Sub",
        [one.output[0], erf.output[0]],
        outputs=[result],
        name=name,
        shapes=[shape],
        dtypes=[dtype],
    )


def _load_onnx(content: bytes) -> Runner:
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]

    def run(rows: Arrays) -> Arrays:
        return dict(zip(names, session.run(names, dict(rows)), strict=True))

    return run


# === LiteRT ===


def _to_litert(
    function: tf.types.experimental.GenericFunction, weights: Sequence[Any]
) -> bytes:
    # The weights alone: tables of text are no part of what is converted.
    held = tf.Module()
    held.weights = list(weights)
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [function.get_concrete_function()], held
    )
    return converter.convert()


def _load_litert(content: bytes) -> Runner:
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(model_content=content).get_signature_runner()
    return lambda rows: runner(**rows)


FORMATS: Mapping[str, PortableFormat] = {
    "onnx": PortableFormat(
        "encode_ids.onnx", ("tf2onnx", "onnx", "onnxruntime"), _to_onnx, _load_onnx
    ),
    "litert": PortableFormat(
        "encode_ids.tflite", ("ai_edge_litert",), _to_litert, _load_litert
    ),
}
