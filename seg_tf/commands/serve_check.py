r"""Measures latency and throughput of an exported model.

  python -m seg_tf.commands.serve_check --saved_model=exported/segabert

loads the SavedModel as any server does, with TensorFlow and tensorflow-text alone,
calls its `serving_default` at several batch sizes and lengths of texts, and prints a
table: how long a call takes (the median and the slowest tenth and hundredth), and how
many texts and words it makes of that in a second. --csv writes it to a file too.

  python -m seg_tf.commands.serve_check --saved_model=exported/segabert \
    --text=article.txt --batch_sizes=1,32 --words=64,512 --seconds=10 --csv=latency.csv

Texts are stretches of --text, or else of words drawn by a fixed seed. The first calls
of every shape are not counted: TensorFlow prepares itself in them.
"""

import csv
import itertools
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from absl import flags

from seg_tf import command_line, files

_WARM_UP_CALLS = 3
_FEWEST_CALLS = 5
_WORDS_PER_SENTENCE = 20
_SENTENCES_PER_PARAGRAPH = 5
_COLUMNS = (
    "batch_size",
    "words",
    "calls",
    "p50_ms",
    "p90_ms",
    "p99_ms",
    "texts_per_second",
    "words_per_second",
)


def define_flags() -> None:
    flags.DEFINE_string(
        "saved_model", None, "The folder of the SavedModel.", required=True
    )
    flags.DEFINE_string("text", None, "Text file to take texts from.")
    flags.DEFINE_list("batch_sizes", ["1", "8", "32"], "Texts of a call.")
    flags.DEFINE_list("words", ["16", "128", "1024"], "Words of a text.")
    flags.DEFINE_float(
        "seconds", 3.0, "Seconds to measure each batch size and length.", lower_bound=0
    )
    flags.DEFINE_string("csv", None, "File to write the table to.")


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    sizes, lengths = (
        _positive(values[name].value, name) for name in ("batch_sizes", "words")
    )
    folder = pathlib.Path(values.saved_model)
    if not (folder / "saved_model.pb").is_file():
        raise ValueError(
            f"`--saved_model` must be the folder of a SavedModel. Received: {folder}"
        )
    words = _words(values.text)
    call = _load(folder)
    rows = []
    with command_line.progress_bar(
        len(sizes) * len(lengths), "Serving", "shape"
    ) as bar:
        for length, size in itertools.product(lengths, sizes):
            seconds = _measure(call, _texts(words, length, size), values.seconds)
            rows.append(_row(size, length, seconds))
            bar.update()
    print(_table(rows))
    if values.csv:
        _write_csv(pathlib.Path(values.csv), rows)
        print(f"Written: {values.csv}")


def _positive(texts: Sequence[str], name: str) -> list[int]:
    if not texts or not all(one.isdecimal() and int(one) > 0 for one in texts):
        raise ValueError(
            f"`--{name}` must be numbers above 0. Received: {','.join(texts)!r}"
        )
    return list(map(int, texts))


def _words(path: str | None) -> list[str]:
    """Words to make texts of; those of a file with its line feeds."""
    if path is None:
        generator = np.random.default_rng(1)
        letters = np.array(list("etaoinshrdlu"))
        lengths = generator.integers(2, 9, 5_000)
        return ["".join(generator.choice(letters, length)) for length in lengths]
    text = pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
    words = [
        word + "\n" * (number == len(of_line) - 1)
        for of_line in map(str.split, text.split("\n"))
        for number, word in enumerate(of_line)
    ]
    if not words:
        raise ValueError(f"`--text` must hold words. Received: {path}, without")
    return words


def _texts(words: Sequence[str], length: int, count: int) -> list[str]:
    """Texts of so many words, each from another place."""
    is_written = any(word.endswith("\n") for word in words)
    texts = []
    for number in range(count):
        begin = number * length % len(words)
        taken = list(itertools.islice(itertools.cycle(words), begin, begin + length))
        if not is_written:
            for place in range(_WORDS_PER_SENTENCE - 1, length, _WORDS_PER_SENTENCE):
                sentence = place // _WORDS_PER_SENTENCE
                ends_paragraph = not (sentence + 1) % _SENTENCES_PER_PARAGRAPH
                taken[place] += ".\n" if ends_paragraph else "."
        texts.append(" ".join(taken))
    return texts


def _load(folder: pathlib.Path) -> Callable[[Sequence[str]], Mapping]:
    """A function that calls the model on texts, as both of two if it takes two."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401 - registers its operators

    model = tf.saved_model.load(str(folder))
    signature = model.signatures.get("serving_default")
    names = list(signature.structured_input_signature[1]) if signature else []
    if not set(names) & {"text", "context"}:
        raise ValueError(
            "`--saved_model` must have a signature serving_default that takes `text`, "
            f"or `question` and `context`. Received: {folder}, with "
            f"{dict.fromkeys(model.signatures)}"
        )

    def call(texts: Sequence[str]) -> Mapping:
        # Kept alive: functions of a model that is gone cannot be called.
        assert model is not None
        given = tf.constant(texts)
        found = signature(**dict.fromkeys(names, given))
        return {name: tensor.numpy() for name, tensor in found.items()}

    return call


def _measure(
    call: Callable[[Sequence[str]], Mapping], texts: Sequence[str], seconds: float
) -> np.ndarray:
    """Seconds of each of at least a few calls."""
    for _ in range(_WARM_UP_CALLS):
        call(texts)
    taken = []
    end = time.perf_counter() + seconds
    while len(taken) < _FEWEST_CALLS or time.perf_counter() < end:
        begin = time.perf_counter()
        call(texts)
        taken.append(time.perf_counter() - begin)
    return np.array(taken)


def _row(size: int, length: int, seconds: np.ndarray) -> dict[str, float]:
    texts_per_second = size / seconds.mean()
    middle, tenth, hundredth = 1e3 * np.percentile(seconds, [50, 90, 99])
    values = (
        size,
        length,
        len(seconds),
        round(middle, 3),
        round(tenth, 3),
        round(hundredth, 3),
        round(texts_per_second, 2),
        round(texts_per_second * length, 1),
    )
    return dict(zip(_COLUMNS, values, strict=True))


def _table(rows: Sequence[Mapping[str, float]]) -> str:
    def line(cells: Sequence[str]) -> str:
        return "  ".join(f"{cell:>16}" for cell in cells)

    body = [line([f"{row[name]:,}" for name in _COLUMNS]) for row in rows]
    return "\n".join([line(_COLUMNS), *body])


def _write_csv(path: pathlib.Path, rows: Sequence[Mapping[str, float]]) -> None:
    with files.written_aside(path) as aside, open(aside, "w", newline="") as file:
        writer = csv.DictWriter(file, _COLUMNS)
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    define_flags()
    command_line.run(main)
