"""Cuts the shards of whole documents into shards of windows."""

import dataclasses
import pathlib
from collections.abc import Iterator
from typing import Any

from data_pipelines.builds.sharded_build import SliceTask
from seg_tf.data import record_schema
from seg_tf.data.manifest import (
    NUM_SPECIAL_TOKENS,
    SPLITS,
    Manifest,
    Shard,
    shard_name,
)
from seg_tf.text import encoding


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowOptions:
    """Settings that determine the windows cut from documents.

    Attributes:
        window_length: positions of a window, `[CLS]` and `[SEP]` included.
        short_window_rate: probability that a window aims at a random length.
        cut_sentences: whether windows are filled to the last piece, sentences or not.
        seed: seed of lengths and sentence permutations.
    """

    window_length: int = 512
    short_window_rate: float = 0.01
    cut_sentences: bool = False
    seed: int = 0

    def __post_init__(self):
        if not 8 <= self.window_length <= 65_535:
            raise ValueError(
                "`window_length` must lie between 8 and 65535. "
                f"Received: {self.window_length}"
            )
        if not 0 <= self.short_window_rate <= 1:
            raise ValueError(
                "`short_window_rate` must lie between 0 and 1. "
                f"Received: {self.short_window_rate}"
            )

    @property
    def capacity(self) -> int:
        """The most pieces of a window."""
        return self.window_length - NUM_SPECIAL_TOKENS

    def described(self) -> dict[str, Any]:
        """The options as a manifest names them."""
        return dataclasses.asdict(self)


def check_word_pieces(tokenizer: str) -> None:
    """Makes sure that documents are of word pieces, which alone are cut into windows.

    Raises:
        ValueError: if they are of words.
    """
    if tokenizer != encoding.WORD_PIECES:
        raise ValueError(
            "Windows are cut from documents of word pieces. Received: documents with "
            f"tokenizer={tokenizer}, which are read as one stream and need no windows: "
            "run `python -m data_pipelines.build_documents` alone, and train with its "
            "--output_dir as --records_dir"
        )


@dataclasses.dataclass(frozen=True)
class ShardPair:
    """The train and the validation shard of one slice of documents."""

    number: int
    shards: dict[str, Shard]


def tasks(documents: Manifest) -> Iterator[SliceTask]:
    """One task a slice of documents.

    Raises:
        ValueError: if a slice has no shard of one of the splits.
    """
    counts = {split: len(documents.splits[split]) for split in SPLITS}
    if len(set(counts.values())) > 1:
        raise ValueError(
            "A manifest of documents must list a shard of every split for each slice. "
            f"Received: {counts} shards. Build the documents again"
        )
    for number in range(counts["train"]):
        shards = {split: documents.splits[split][number] for split in SPLITS}
        progress = sum(shard.bytes for shard in shards.values())
        yield SliceTask(number, ShardPair(number, shards), progress)


# --- In the workers -------------------------------------------------------------


class WindowMaker:
    """Cuts the documents of a pair of shards into windows.

    Args:
        options: what the windows depend on.
        documents_dir: the finished build of documents.
    """

    def __init__(self, options: WindowOptions, documents_dir: pathlib.Path):
        self._options = options
        self._documents_dir = documents_dir
        manifest = Manifest.load(documents_dir)
        self._document_widths = manifest.number_widths
        self._widths = record_schema.number_widths(
            manifest.vocabulary["size"], options.capacity
        )

    def make(self, pair: ShardPair, folder: pathlib.Path) -> dict:
        """Writes the window shards of a pair; returns the task's report."""
        # TensorFlow takes a second to import; the parent process never needs it.
        from seg_tf.data import examples

        entries = {}
        for split, shard in pair.shards.items():
            path = folder / shard_name(split, pair.number)
            items = self._cut(self._documents_dir / shard.file)
            entries[split] = vars(examples.write_windows(path, items, self._widths))
        return {"shards": entries}

    def _cut(self, path: pathlib.Path) -> Iterator[tuple]:
        from data_pipelines.builds import window_cutting
        from seg_tf.data import examples

        options = self._options
        for tree, document_id, _ in examples.read_trees(path, self._document_widths):
            for window in window_cutting.cut_windows(
                tree,
                document_id,
                capacity=options.capacity,
                short_window_rate=options.short_window_rate,
                cut_sentences=options.cut_sentences,
                seed=options.seed,
            ):
                yield window.tree, document_id, window.shuffled_sentence_indices
