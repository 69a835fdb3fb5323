r"""Compares the speed and ids of word pieces with those of Hugging Face's `tokenizers`.

  python -m benchmarks.tokenisation --vocab_file=vocab.txt --input=…/text/AA

Both sides run in turn in one process on the sentences of the first files. All threads
are pinned to one core, and the thread pool of `tokenizers` is off. Its methods
`encode_batch` and `encode_batch_fast`, which omits offsets, are timed separately.

Afterwards, the ids of all lines in --compare (files, folders) are compared. If any
differ, exits with status 1:

  python -m benchmarks.tokenisation --vocab_file=vocab.txt --input=…/text/AA \
    --compare=…/text/AA,…/books,…/c4 --limit_mb=100
"""

import gzip
import os
import pathlib
import sys
from collections.abc import Iterator, Sequence

import numpy as np
from absl import flags

from benchmarks import paired, sample_data
from seg_tf import command_line
from seg_tf.text.normalization import Normalization

_INPUT = flags.DEFINE_string(
    "input", str(sample_data.WIKIPEDIA), "WikiExtractor files."
)
_VOCAB = flags.DEFINE_string(
    "vocab_file", str(sample_data.VOCABULARY), "A BERT vocab.txt."
)
_LOWER_CASE = flags.DEFINE_bool("lower_case", True, "Rules of an uncased model.")
_TIMED_MB = flags.DEFINE_float("timed_mb", 4.0, "Megabytes to time.")
_ROUNDS = flags.DEFINE_integer("rounds", 7, "Counted rounds.")
_COMPARE = flags.DEFINE_list("compare", [], "Files and folders to compare ids on.")
_LIMIT_MB = flags.DEFINE_float("limit_mb", None, "Megabytes of each to compare.")

_BATCH = 4096


def _sentences(limit: float) -> list[str]:
    """Returns the sentences of about the first `limit` megabytes of the input."""
    from data_pipelines.readers import get_reader
    from data_pipelines.readers.base import Document
    from seg_tf.text.punkt import SentenceSplitter

    splitter, sentences, size = SentenceSplitter(), [], 0
    for item in get_reader("wikiextractor").read_input(_INPUT.value):
        if isinstance(item, Document):
            for paragraph in item.paragraphs:
                sentences += splitter.split(paragraph)
                size += len(paragraph)
        if size >= limit * 1e6:
            break
    return sentences


def _lines(path: pathlib.Path) -> Iterator[str]:
    """Yields the lines of a file or folder as they are. Replaces invalid UTF-8."""
    inside = sorted(p for p in path.rglob("*") if p.is_file())
    for file_path in inside or [path]:
        opener = gzip.open if file_path.suffix == ".gz" else open
        with opener(file_path, "rt", encoding="utf-8", errors="replace") as file:
            for line in file:
                yield line.rstrip("\n")


def _batches(texts: Iterator[str], limit: float | None) -> Iterator[list[str]]:
    batch, size = [], 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if limit is not None and size >= limit * 1e6:
            break
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _compare(path: pathlib.Path, pieces, reference) -> int:
    """Prints statistics and returns the number of lines whose ids differ."""
    num_texts = num_exact = num_different = num_bytes = 0
    for batch in _batches(_lines(path), _LIMIT_MB.value):
        ids, lengths = pieces.encode(batch)
        rows = np.split(ids, np.cumsum(lengths))[:-1]
        expected = reference.encode_batch_fast(batch, add_special_tokens=False)
        num_different += sum(
            row.tolist() != other.ids for row, other in zip(rows, expected, strict=True)
        )
        num_exact += int(pieces.takes_exact_way(batch).sum())
        num_texts += len(batch)
        num_bytes += sum(len(text.encode("utf-8", "replace")) for text in batch)
    print(
        f"  {path.name:28s} {num_bytes / 1e6:8.1f} MB, {num_texts:,} texts, "
        f"{num_exact / max(num_texts, 1):.2%} the exact way, "
        f"{num_different:,} with other ids",
        flush=True,
    )
    return num_different


def main(_: Sequence[str]) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    paired.pin_to_one_core()
    from seg_tf.text.normalization import exact_tokenizer
    from seg_tf.text.vocabulary import Vocabulary
    from seg_tf.text.word_pieces import WordPieces

    vocabulary = Vocabulary.from_file(_VOCAB.value)
    normalization = Normalization(_LOWER_CASE.value)
    pieces = WordPieces(vocabulary, normalization)
    reference = exact_tokenizer(vocabulary.tokens, normalization)
    sentences = _sentences(_TIMED_MB.value)
    num_bytes = sum(len(sentence.encode()) for sentence in sentences)
    batches = list(_batches(iter(sentences), None))

    def timed(encode):
        def work() -> float:
            for batch in batches:
                encode(batch)
            return num_bytes

        return work

    paired.print_machine()
    print(
        f"text to ids, {num_bytes / 1e6:.1f} MB, {len(sentences):,} sentences, "
        f"{pieces.takes_exact_way(sentences).mean():.2%} the exact way, one core"
    )
    rates = paired.interleave(
        {
            "WordPieces": timed(pieces.encode),
            "encode_batch": timed(
                lambda batch: reference.encode_batch(batch, add_special_tokens=False)
            ),
            "encode_batch_fast": timed(
                lambda batch: reference.encode_batch_fast(
                    batch, add_special_tokens=False
                )
            ),
        },
        _ROUNDS.value,
    )
    for against in ("encode_batch", "encode_batch_fast"):
        paired.report(
            rates, of="WordPieces", against=against, unit="MB/s", scale=1e-6, target=10
        )
    different = sum(
        _compare(pathlib.Path(path), pieces, reference) for path in _COMPARE.value
    )
    if different:
        sys.exit(f"error: {different} texts have other ids")


if __name__ == "__main__":
    sys.exit(command_line.run(main))
