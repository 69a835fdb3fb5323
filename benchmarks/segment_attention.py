r"""Compares the cost of segment-aware attention with that of Transformer-XL.

  python -m benchmarks.segment_attention
  python -m benchmarks.segment_attention --size=large --batch_size=1
  python -m benchmarks.segment_attention --nopairwise --sentence_words=3
  python -m benchmarks.segment_attention --nopairwise --jit_compile

Runs the forward and backward pass of one attention sublayer with memory, including
relative positions. There are three sides: positions of tokens only (Transformer-XL);
positions of tokens, sentences and paragraphs in our exact form; and the same as written
in the paper, with a vector for every pair. Sentences have random lengths, 21 words on
average, and paragraphs have five sentences.

Peak memory is the increase in a separate process during three passes over many rows,
as the median over several processes.

Targets of the exact form: at most 1.5 times Transformer-XL's time at base size (a ratio
of 0.67) and 1.3 times at large (0.77); at most 1.4 times its peak memory; at least 10
times the speed of pairwise vectors.
"""

import os
import statistics
import sys
from collections.abc import Callable, Sequence

# Read when TensorFlow is imported.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from absl import flags
from keras import ops

from benchmarks import paired, peak_memory
from seg_tf import command_line
from seg_tf.layers.transformer_xl import (
    PARTS,
    RelativePositions,
    SegmentRelativeAttention,
)
from seg_tf.ops import relative_logits

# Width, heads, their size, target and memory length of the paper's models.
_SIZES = {"base": (410, 10, 41, 150), "large": (1024, 16, 64, 384)}
_TARGETS = {"base": 0.67, "large": 0.77}

_SIZE = flags.DEFINE_enum("size", "base", list(_SIZES), "Which of the paper's models.")
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 4, "Rows.")
_MEMORY_ROWS = flags.DEFINE_integer("memory_rows", 16, "Rows to measure memory with.")
_MEMORY_ROUNDS = flags.DEFINE_integer("memory_rounds", 5, "Processes of each side.")
_SENTENCE_WORDS = flags.DEFINE_float("sentence_words", 21, "Words of a sentence.")
_PAIRWISE = flags.DEFINE_bool("pairwise", True, "Also with a vector for every pair.")
_JIT_COMPILE = flags.DEFINE_bool("jit_compile", False, "Compile all sides by XLA.")
_STEPS = flags.DEFINE_integer("steps", 3, "Passes of a round.")
_ROUNDS = flags.DEFINE_integer("rounds", 9, "Counted rounds.")
_DTYPE = flags.DEFINE_string("dtype_policy", "float32", "Keras dtype policy.")

_TRANSFORMER_XL, _EXACT, _PAIRS = "Transformer-XL", "exact", "pairwise vectors"


class _PairwisePositions:
    """Equation 3 as written: position vectors and their projection for every pair."""

    def __init__(self, indices: tf.Tensor, keys: tf.Tensor, widths: Sequence[int]):
        distances = indices[:, :, None] - keys[:, None]
        vectors = [
            relative_logits.position_vectors(distances[..., part], width)
            for part, width in enumerate(widths)
        ]
        self._vectors_BTKD = ops.concatenate(vectors, axis=-1)

    def logits(
        self,
        content_query: tf.Tensor,
        key: tf.Tensor,
        position_query: tf.Tensor,
        kernel: tf.Tensor,
    ) -> tf.Tensor:
        vectors_BTKHE = ops.einsum("btkd,dhe->btkhe", self._vectors_BTKD, kernel)
        by_content = ops.matmul(content_query, ops.swapaxes(key, 2, 3))
        return by_content + ops.einsum(
            "bhte,btkhe->bhtk", position_query, vectors_BTKHE
        )


def _indices(rows: int, length: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    ends = rng.random((rows, length)) < 1 / _SENTENCE_WORDS.value
    sentences = np.cumsum(ends, axis=1)
    tokens = np.broadcast_to(np.arange(length), sentences.shape)
    return np.stack([tokens, sentences, sentences // 5], axis=-1).astype("int32")


def _pass(side: str, rows: int) -> Callable[[], object]:
    """Returns a function that runs the forward and backward pass of a side."""
    width, heads, head_size, length = _SIZES[_SIZE.value]
    keras.utils.set_random_seed(0)
    parts = ("token",) if side == _TRANSFORMER_XL else PARTS
    preparation = RelativePositions(
        width,
        parts,
        static_shapes=_JIT_COMPILE.value,
    )
    layer = SegmentRelativeAttention(heads, head_size)
    layer.build((None, None, width))
    biases = [tf.Variable(tf.random.normal((heads, head_size))) for _ in range(2)]
    states = tf.random.normal((rows, 2 * length, width))
    memory, hidden = tf.split(states, 2, axis=1)
    all_indices = tf.constant(_indices(rows, 2 * length))
    variables = [*(variable.value for variable in layer.trainable_variables), *biases]

    @tf.function(jit_compile=_JIT_COMPILE.value, autograph=False)
    def run(hidden: tf.Tensor, memory: tf.Tensor, all_indices: tf.Tensor) -> tuple:
        memory_indices, indices = tf.split(all_indices, 2, axis=1)
        with tf.GradientTape() as tape:
            tape.watch(hidden)
            positions, mask = preparation(indices, memory_indices)
            if side == _PAIRS:
                widths = list(preparation.widths.values())
                positions = _PairwisePositions(indices, all_indices, widths)
            output = layer.call(hidden, memory, positions, mask, *biases)
            loss = tf.reduce_sum(tf.cast(output, tf.float32) ** 2)
        gradients = tape.gradient(loss, [*variables, hidden])
        return tf.add_n(
            [tf.reduce_sum(tf.cast(variable, tf.float32)) for variable in gradients]
        )

    return lambda: run(hidden, memory, all_indices).numpy()


def _peak_memory(side: str, arguments: Sequence[str]) -> int:
    """Returns the bytes that three passes of a side add to this process's peak."""
    flags.FLAGS(arguments)
    keras.config.set_dtype_policy(_DTYPE.value)
    _pass(side, 1)()  # the graph's own memory, and what runs it
    run = _pass(side, _MEMORY_ROWS.value)
    return peak_memory.added_by(paired.repeated(run, 3))


def _report_memory(sides: Sequence[str]) -> None:
    peaks = {side: [] for side in sides}
    for _ in range(_MEMORY_ROUNDS.value):
        for side in sides:
            peaks[side].append(peak_memory.in_own_process(_peak_memory, side, sys.argv))
    median = {side: statistics.median(sizes) for side, sizes in peaks.items()}
    for side, sizes in peaks.items():
        low, middle, high = (
            size / 2**20 for size in (min(sizes), median[side], max(sizes))
        )
        print(
            f"  {side:32s} {middle:8,.0f} MiB ({low:,.0f} to {high:,.0f}), "
            f"{median[side] / median[_TRANSFORMER_XL]:.2f} of Transformer-XL's"
        )


def main(argv: Sequence[str]) -> None:
    del argv
    paired.print_machine()
    keras.config.set_dtype_policy(_DTYPE.value)
    names = [_TRANSFORMER_XL, _EXACT]
    if _PAIRWISE.value:
        names.append(_PAIRS)
    rows = _BATCH_SIZE.value
    width, heads, head_size, length = _SIZES[_SIZE.value]
    print(
        f"{_SIZE.value}: width {width}, {heads} heads of {head_size}, target and "
        f"memory {length}, {rows} rows"
    )
    sides = {
        name: paired.repeated(_pass(name, rows), _STEPS.value, rows) for name in names
    }
    rates = paired.interleave(sides, _ROUNDS.value)
    target = _TARGETS[_SIZE.value]
    paired.report(
        rates, of=_EXACT, against=_TRANSFORMER_XL, unit="rows/s", target=target
    )
    if _PAIRWISE.value:
        paired.report(rates, of=_EXACT, against=_PAIRS, unit="rows/s", target=10)
    _report_memory(names)
    paired.print_machine()


if __name__ == "__main__":
    command_line.run(main)
