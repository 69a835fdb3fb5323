"""The documents of a split as one stream of words that can be read anywhere.

Shape key: n words.
"""

import dataclasses
import functools
import pathlib

import numpy as np

from seg_tf.data import examples, shards
from seg_tf.data.manifest import Manifest, shard_paths
from seg_tf.text.tree import DocumentTree


@dataclasses.dataclass(frozen=True, eq=False)
class StreamWords:
    """Consecutive words of a stream, and what they belong to, counted through.

    Attributes:
        token_ids: int32 array `(n,)`.
        sentences: int64 array `(n,)`, which sentence of the stream, from 0.
        paragraphs: int64 array `(n,)`, which paragraph of the stream, from 0.
    """

    token_ids: np.ndarray
    sentences: np.ndarray
    paragraphs: np.ndarray


class WordStream:
    """All words of a split, one document after the other, again and again.

    Nothing is read in advance. A shard is scanned for the sizes of its documents when
    it is first read; sizes and decoded documents are kept while they are in use.

    Args:
        manifest: that of the documents.
        folder: where they lie.
        split: "train" or "validation".
        num_places: places of the stream that are read in turns: the sizes of twice
            as many shards, and as many documents, are kept at once.

    Attributes:
        num_tokens: words of the split, ends of paragraphs included.

    Raises:
        ValueError: if a shard is missing or has another size.
    """

    def __init__(
        self,
        manifest: Manifest,
        folder: pathlib.Path,
        split: str,
        num_places: int = 1,
    ):
        self._paths = shard_paths(manifest, folder, split)
        self._reader = shards.RecordReader(self._paths, in_order=True)
        self._widths = manifest.number_widths
        sizes = [
            (shard.pieces, shard.sentences, shard.paragraphs)
            for shard in manifest.splits[split]
        ]
        self._first_counts = _running_totals(sizes)
        self.num_tokens = int(self._first_counts[-1, 0])
        # A lane passes from a shard, or a document, to the next.
        self._counts = functools.lru_cache(2 * num_places)(self._count_shard)
        self._document = functools.lru_cache(2 * num_places)(self._read_document)

    def read(self, begin: int, length: int) -> StreamWords:
        """The `length` words from `begin` on; the first follows the last.

        Sentences and paragraphs are counted on through all epochs.

        Raises:
            DamagedShardError: if a shard is not what was written.
            ValueError: if the split holds no words.
        """
        if not self.num_tokens:
            raise ValueError("The split must hold words to be read. Received: none")
        parts = []
        while length > 0:
            epoch, place = divmod(begin, self.num_tokens)
            document = self._document(*self._locate(place))
            part = document.words(place, length, epoch * self._first_counts[-1])
            parts.append(part)
            begin += len(part.token_ids)
            length -= len(part.token_ids)
        return StreamWords(
            *(
                np.concatenate([getattr(part, field.name) for part in parts])
                for field in dataclasses.fields(StreamWords)
            )
        )

    def locate(self, token: int) -> str:
        """Shard and record of a word of the stream, for messages."""
        shard, record = self._locate(token % self.num_tokens)
        return f"{self._paths[shard].name}, record {record}"

    def _locate(self, place: int) -> tuple[int, int]:
        """The shard, and the record in it, of a word of the split."""
        number = _last_not_above(self._first_counts[:, 0], place)
        return number, _last_not_above(self._counts(number)[:, 0], place)

    def _count_shard(self, number: int) -> np.ndarray:
        """Tokens, sentences and paragraphs before each document of a shard."""
        path = self._paths[number]
        sizes = []
        for record in self._reader.records_of(number):
            data = self._reader[record]
            try:
                sizes.append(examples.list_sizes(data, self._widths))
            except ValueError as error:
                raise shards.DamagedShardError(
                    f"{path}: record {len(sizes)}: {error}"
                ) from error
        first_counts = self._first_counts[number] + _running_totals(sizes)
        expected, found = (
            (counts - self._first_counts[number]).tolist()
            for counts in (self._first_counts[number + 1], first_counts[-1])
        )
        if found != expected:
            raise shards.DamagedShardError(
                f"{path}: expected {expected} words, sentences and paragraphs, "
                f"as the manifest says, found {found}. The file was replaced; build "
                "the documents again"
            )
        return first_counts

    def _read_document(self, shard: int, record: int) -> "_Document":
        data = self._reader[self._reader.records_of(shard)[record]]
        tree, _, _ = examples.decode(data, self._widths)
        return _Document(tree, self._counts(shard)[record])


class _Document:
    """A decoded document at its place in the split."""

    def __init__(self, tree: DocumentTree, first_counts: np.ndarray):
        self._first_counts = first_counts
        self._token_ids = tree.token_ids.astype(np.int32)
        self._sentence_ends = np.cumsum(tree.sentence_lengths)
        self._paragraph_ends = np.cumsum(tree.paragraph_lengths)

    def words(self, place: int, length: int, offsets: np.ndarray) -> StreamWords:
        """At most `length` words from `place` of the split on."""
        _, first_sentence, first_paragraph = self._first_counts + offsets
        begin = place - self._first_counts[0]
        token_ids = self._token_ids[begin : begin + length]
        positions = np.arange(begin, begin + len(token_ids))
        sentences = np.searchsorted(self._sentence_ends, positions, side="right")
        paragraphs = np.searchsorted(self._paragraph_ends, sentences, side="right")
        return StreamWords(
            token_ids, sentences + first_sentence, paragraphs + first_paragraph
        )


def _running_totals(sizes: list[tuple[int, int, int]]) -> np.ndarray:
    """Sums of all entries before each one, and of all: int64 `(n + 1, 3)`."""
    return np.cumsum([(0, 0, 0), *sizes], axis=0, dtype=np.int64)


def _last_not_above(rising: np.ndarray, value: int) -> int:
    """Index of the last number that is not above `value`."""
    return int(np.searchsorted(rising, value, side="right")) - 1
