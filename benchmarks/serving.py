"""Measures latency and throughput of an exported model.

  python -m benchmarks.serving --saved_model=exported/segabert

Calls `serving_default` at several batch sizes and text lengths, as a server does, and
prints the median, the 90th and 99th percentile in milliseconds, and texts per second.
Texts are random words in sentences of 20. TensorFlow's first calls of each shape are
not counted.
"""

import itertools
import time

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 - registers its operators
from absl import app, flags

_SAVED_MODEL = flags.DEFINE_string(
    "saved_model", None, "Folder of the SavedModel.", required=True
)
_BATCH_SIZES = flags.DEFINE_list("batch_sizes", ["1", "8", "32"], "Texts per call.")
_WORDS = flags.DEFINE_list("words", ["16", "128", "1024"], "Words per text.")
_SECONDS = flags.DEFINE_float("seconds", 3.0, "Seconds per shape.", lower_bound=0)

_WARM_UP_CALLS, _MIN_CALLS, _SENTENCE_LENGTH = 3, 5, 20


def make_texts(count: int, num_words: int) -> list[str]:
    """Returns texts of random words, in sentences, with five sentences per line."""
    generator = np.random.default_rng(1)
    letters = np.array(list("etaoinshrdlu"))
    texts = []
    for _ in range(count):
        words = [
            "".join(generator.choice(letters, length))
            for length in generator.integers(2, 9, num_words)
        ]
        for end in range(_SENTENCE_LENGTH - 1, num_words, _SENTENCE_LENGTH):
            is_last = not (end + 1) % (5 * _SENTENCE_LENGTH)
            words[end] += ".\n" if is_last else "."
        texts.append(" ".join(words))
    return texts


def main(_: list[str]) -> None:
    model = tf.saved_model.load(_SAVED_MODEL.value)
    serve = model.signatures["serving_default"]
    arguments = list(serve.structured_input_signature[1])
    print(f"{'texts':>6}{'words':>7}{'p50':>9}{'p90':>9}{'p99':>9}{'texts/s':>10}")
    for num_words, size in itertools.product(
        map(int, _WORDS.value), _BATCH_SIZES.value
    ):
        texts = tf.constant(make_texts(int(size), num_words))
        seconds: list[float] = []
        end = np.inf
        while len(seconds) < _WARM_UP_CALLS + _MIN_CALLS or time.perf_counter() < end:
            begin = time.perf_counter()
            outputs = serve(**dict.fromkeys(arguments, texts))
            [tensor.numpy() for tensor in outputs.values()]
            seconds.append(time.perf_counter() - begin)
            if len(seconds) == _WARM_UP_CALLS:
                end = time.perf_counter() + _SECONDS.value
        measured = 1e3 * np.array(seconds[_WARM_UP_CALLS:])
        percentiles = np.percentile(measured, [50, 90, 99])
        columns = "".join(f"{value:9.2f}" for value in percentiles)
        rate = 1e3 * int(size) / measured.mean()
        print(f"{size:>6}{num_words:>7}{columns}{rate:10,.1f}", flush=True)


if __name__ == "__main__":
    app.run(main)
