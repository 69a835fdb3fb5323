"""Shards of trees: written with the counts that the manifest wants, and read back."""

import pathlib
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from seg_tf import files
from seg_tf.data import examples, shards, window_lengths
from seg_tf.data.manifest import Shard
from seg_tf.text.tree import DocumentTree

# A tree, the number of its document and, for a window, a permutation of its
# sentences.
Item = tuple[DocumentTree, int, np.ndarray | None]


def write_trees(
    path: pathlib.Path, items: Iterable[Item], widths: Mapping[str, str]
) -> Shard:
    """Writes a shard; the items of one document have to follow one another.

    Returns:
        Its entry for the manifest.
    """
    counts = {"documents": 0, "paragraphs": 0, "sentences": 0, "pieces": 0}

    def encoded() -> Iterator[bytes]:
        last_document = None
        for tree, document_id, permutation in items:
            counts["documents"] += document_id != last_document
            counts["paragraphs"] += len(tree.paragraph_lengths)
            counts["sentences"] += len(tree.sentence_lengths)
            counts["pieces"] += len(tree.token_ids)
            last_document = document_id
            yield examples.encode(tree, document_id, widths, permutation)

    num_records = shards.write_shard(path, encoded())
    return Shard(
        file=path.name,
        bytes=path.stat().st_size,
        sha256=files.checksum(path),
        **counts,
        records=num_records,
    )


def write_windows(
    path: pathlib.Path, windows: Iterable[Item], widths: Mapping[str, str]
) -> Shard:
    """`write_trees`, with the lengths of windows and sentences beside the shard."""
    sentence_lengths = []

    def noted() -> Iterator[Item]:
        for item in windows:
            sentence_lengths.append(item[0].sentence_lengths)
            yield item

    shard = write_trees(path, noted(), widths)
    window_lengths.write(path, sentence_lengths)
    return shard


def read_trees(path: pathlib.Path, widths: Mapping[str, str]) -> Iterator[Item]:
    """Inverse of `write_trees`."""
    for record in shards.RecordReader([path], in_order=True):
        yield examples.decode(record, widths)
