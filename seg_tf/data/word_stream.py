"""The documents of a split as one stream of words that can be read anywhere."""

import functools
import pathlib

import numpy as np

from seg_tf.data import examples, shards
from seg_tf.data.manifest import Manifest, shard_paths


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

    def read(self, begin: int, length: int) -> np.ndarray:
        """The `length` words from `begin` on; the first follows the last.

        Returns:
            int64 array `(3, length)`: ids, and which sentence and which paragraph of
            the stream each word is in, counted on through all epochs.

        Raises:
            DamagedShardError: if a shard is not what was written.
            ValueError: if the split holds no words.
        """
        if not self.num_tokens:
            raise ValueError("The split must hold words to be read. Received: none")
        parts = []
        while length > 0:
            epoch, place = divmod(begin, self.num_tokens)
            first_counts, token_ids, sentence_ends, paragraph_ends = self._document(
                *self._locate(place)
            )
            _, first_sentence, first_paragraph = (
                first_counts + epoch * self._first_counts[-1]
            )
            start = place - first_counts[0]
            ids = token_ids[start : start + length]
            positions = np.arange(start, start + len(ids))
            sentences = np.searchsorted(sentence_ends, positions, side="right")
            paragraphs = np.searchsorted(paragraph_ends, sentences, side="right")
            parts.append(
                np.stack(
                    [ids, sentences + first_sentence, paragraphs + first_paragraph]
                )
            )
            begin += len(ids)
            length -= len(ids)
        return np.concatenate(parts, axis=1)

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

    def _read_document(self, shard: int, record: int) -> tuple[np.ndarray, ...]:
        """Counts before a document; its ids, ends of sentences and of paragraphs."""
        data = self._reader[self._reader.records_of(shard)[record]]
        tree, _, _ = examples.decode(data, self._widths)
        return (
            self._counts(shard)[record],
            tree.token_ids,
            np.cumsum(tree.sentence_lengths),
            np.cumsum(tree.paragraph_lengths),
        )


def _running_totals(sizes: list[tuple[int, int, int]]) -> np.ndarray:
    """Sums of all entries before each one, and of all: int64 `(n + 1, 3)`."""
    return np.cumsum([(0, 0, 0), *sizes], axis=0, dtype=np.int64)


def _last_not_above(rising: np.ndarray, value: int) -> int:
    """Index of the last number that is not above `value`."""
    return int(np.searchsorted(rising, value, side="right")) - 1
