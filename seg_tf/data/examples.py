"""Encodes document trees as `tf.train.Example` records, and decodes them.

A record is a document or one window of a document. Integer lists are stored as
little-endian unsigned integers in bytes features, which are smaller and faster than
int64 lists. `widths` maps the name of each list to its type, "uint16" or "uint32".
"""

import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from seg_tf import files
from seg_tf.data import record_schema, shards
from seg_tf.data.manifest import Shard
from seg_tf.data.record_schema import (
    DOCUMENT_ID,
    FIRST_INDEX,
    NUMBER_LISTS,
    PARAGRAPH_LENGTHS,
    SENTENCE_LENGTHS,
    SHUFFLED_SENTENCE_INDICES,
    TOKEN_IDS,
)
from seg_tf.text.tree import DocumentTree

# Lists that every record contains. Their lengths are the sizes of the tree.
_TREE_LISTS = (TOKEN_IDS, SENTENCE_LENGTHS, PARAGRAPH_LENGTHS)

Item = tuple[DocumentTree, int, np.ndarray | None]
"""A tree, its document id, and a window's permutation of sentences or None."""


def encode(
    tree: DocumentTree,
    document_id: int,
    widths: Mapping[str, str],
    shuffled_sentence_indices: np.ndarray | None = None,
) -> bytes:
    """Serializes a tree as a record. Only windows have `shuffled_sentence_indices`."""
    lists = {name: getattr(tree, name) for name in _TREE_LISTS}
    if shuffled_sentence_indices is not None:
        lists[SHUFFLED_SENTENCE_INDICES] = shuffled_sentence_indices
    features = {
        FIRST_INDEX: _int64_feature(tree.first_index),
        DOCUMENT_ID: _int64_feature([document_id]),
    }
    for name, values in lists.items():
        packed = values.astype(_dtype(widths[name])).tobytes()
        features[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[packed]))
    example = tf.train.Example(features=tf.train.Features(feature=features))
    serialized: bytes = example.SerializeToString(deterministic=True)
    return serialized


def _int64_feature(numbers: Sequence[int]) -> tf.train.Feature:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=numbers))


def decode(serialized: bytes, widths: Mapping[str, str]) -> Item:
    """Decodes a record to an `Item`. Raises a ValueError if the record is invalid."""
    try:
        features = tf.train.Example.FromString(serialized).features.feature
        lists = {}
        for name in NUMBER_LISTS:
            if name in features:
                (data,) = features[name].bytes_list.value
                lists[name] = np.frombuffer(data, _dtype(widths[name])).astype(np.int64)
        paragraph, sentence, token = features[FIRST_INDEX].int64_list.value
        (document_id,) = features[DOCUMENT_ID].int64_list.value
        tree = DocumentTree(
            lists[TOKEN_IDS],
            lists[SENTENCE_LENGTHS],
            lists[PARAGRAPH_LENGTHS],
            (paragraph, sentence, token),
        )
    except Exception as error:  # The class differs between protobuf's engines.
        raise ValueError(f"not a document record: {error!r}") from error
    return tree, document_id, lists.get(SHUFFLED_SENTENCE_INDICES)


def _dtype(width: str) -> np.dtype:
    return np.dtype(width).newbyteorder("<")


def parse(serialized: tf.Tensor) -> dict[str, tf.Tensor]:
    """Parses records `(B,)` to tensors by name. Integer lists stay packed strings."""
    spec = {name: tf.io.FixedLenFeature([], tf.string) for name in NUMBER_LISTS}
    spec[FIRST_INDEX] = tf.io.FixedLenFeature([3], tf.int64)
    parsed: dict[str, tf.Tensor] = tf.io.parse_example(serialized, spec)
    return parsed


def decode_numbers(
    packed: tf.Tensor, width: str, length: int | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Decodes integer lists, packed in a string tensor `(B,)`, in the graph.

    Returns int32 `(B, length)`, truncated or padded with 0, and the stored length of
    each list, int32 `(B,)`. If `length` is None, it is the longest list's, at least 1.
    """
    size = _dtype(width).itemsize
    lengths = tf.strings.length(packed) // size
    if length is None:
        length = tf.maximum(tf.reduce_max(lengths), 1)
    if size == 2:
        numbers = tf.io.decode_raw(packed, tf.uint16, fixed_length=size * length)
        return tf.cast(numbers, tf.int32), lengths
    # `decode_raw` does not support uint32. All values stored here fit int32.
    numbers = tf.io.decode_raw(packed, tf.int32, fixed_length=size * length)
    return numbers, lengths


def write_trees(
    path: pathlib.Path, items: Iterable[Item], widths: Mapping[str, str]
) -> Shard:
    """Writes a shard of documents or windows, in order. Returns its manifest entry."""
    counts = {"documents": 0, "paragraphs": 0, "sentences": 0, "pieces": 0}

    def encoded() -> Iterator[bytes]:
        last_document = None
        for tree, document_id, permutation in items:
            counts["documents"] += document_id != last_document
            counts["paragraphs"] += len(tree.paragraph_lengths)
            counts["sentences"] += len(tree.sentence_lengths)
            counts["pieces"] += len(tree.token_ids)
            last_document = document_id
            yield encode(tree, document_id, widths, permutation)

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
    """Writes a shard of windows and its length files. Returns its manifest entry."""
    sentence_lengths = []

    def collected() -> Iterator[Item]:
        for item in windows:
            sentence_lengths.append(item[0].sentence_lengths)
            yield item

    shard = write_trees(path, collected(), widths)
    for lengths in record_schema.LENGTHS:
        lengths.write(path, lengths.of_windows(sentence_lengths))
    return shard


def read_trees(path: pathlib.Path, widths: Mapping[str, str]) -> Iterator[Item]:
    """Yields each record's `Item`, in order. Raises a ValueError if one is damaged."""
    reader = shards.RecordReader([path], in_order=True)
    for number in range(len(reader)):
        yield decode(reader[number], widths)
