"""Lays out rows of sentences `<SS> <Attn> words </s>` in blocks (ReAT).

Shape key: B rows, M sentences, N sentence parts, L row length, P pieces of a row.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from seg_tf.layouts.layout import (
    Features,
    Layout,
    PooledSentences,
    RowShape,
    TextCapacity,
)
from seg_tf.layouts.rows import Example, room_for_pieces, trees_of
from seg_tf.ops.attention import mean_vectors
from seg_tf.text.graph.flat import count_off
from seg_tf.text.graph.trees import Trees, largest
from seg_tf.text.vocabulary import Vocabulary

# <SS>, <Attn> and </s>.
NUM_SPECIAL_TOKENS = 3
# Keras does not support attention over a single position.
_MIN_SLOTS = 2
# Number of special tokens before the words of a sentence.
_BEFORE_WORDS = 2


class BlockLayout(Layout):
    """Lays out each sentence inside a block. The encoder reads each row as one text.

    For example, sentences with the pieces [7, 8] and [9] become, in blocks of 10,

      tokens             <SS> <Attn> 7  8  </s>  <SS> <Attn> 9  </s>  [PAD]
      position_index       0     1   2  3    4     0     1   2    3     0
      sentence_number      1     1   1  1    1     2     2   2    2     0
      text_number          1     1   1  1    1     1     1   1    1     0
      sentence_position    0     0   0  0    0     1     1   1    1     0
      sentence_starts      0  5
      given_text           1  2

    A sentence too long for a block is split into even parts, which the encoder treats
    as sentences. The vector of a sentence is its pooled `<SS>`, or the mean over its
    parts. The vector of a row is the mean over its sentences. `max_length` includes
    three special tokens per text, but not those of additional parts.
    """

    holds_spans = False
    vectors_per_text = True
    extra_features = ("given_text",)
    unread_features = ("padding_mask",)

    def __init__(
        self, inputs: Any, encoder: Any, vocabulary: Any, max_length: int | None = None
    ):
        del inputs  # Pretraining rows contain several texts.
        self.block_length = encoder.block_length
        self.max_sentences = encoder.max_sentences
        self.longest_part = encoder.block_length - NUM_SPECIAL_TOKENS
        if max_length is None:
            max_length = encoder.max_sentences * encoder.block_length
        self.max_length = max_length
        self.text_capacity = TextCapacity(
            self.max_sentences * self.longest_part,
            self.max_sentences,
            self.longest_part,
        )
        self._vocabulary = vocabulary

    def capacity(self, num_texts: int) -> int:
        num_specials = NUM_SPECIAL_TOKENS * num_texts
        room = room_for_pieces(
            num_specials, self.max_length, num_texts, self.max_sentences
        )
        # Texts of this total length never have more parts than the model has sentence
        # positions, because each text wastes less than one part.
        return min(
            room, self.longest_part * (self.max_sentences - num_texts) + num_texts
        )

    def rows(self, trees: Trees) -> Features:
        return block_rows(trees, self.block_length, self._vocabulary)

    def num_tokens(self, example: Example) -> int:
        return int((self._parts(example) + NUM_SPECIAL_TOKENS).sum())

    def fits(self, example: Example) -> bool:
        return len(self._parts(example)) <= self.max_sentences

    def row_shape(self, example: Example) -> tuple[int, int]:
        parts = self._parts(example)
        if len(parts) > self.max_sentences:
            raise ValueError(
                "`example` must have at most as many sentences, or parts of them, as "
                f"the model has positions, {self.max_sentences}. Received: {len(parts)}"
            )
        spans = (parts + NUM_SPECIAL_TOKENS).astype(np.int32)[np.newaxis]
        starts, _ = place_in_blocks(spans, self.block_length, len(parts))
        num_blocks = 1 + int(np.max(starts)) // self.block_length
        # Limits the distinct numbers of blocks: 1 to 8, 10, 12, 14, 16, 20, 24, …
        step = max(1, (1 << (num_blocks - 1).bit_length()) // 8)
        num_slots = max(_MIN_SLOTS, len(parts))
        return -(-num_blocks // step) * step, 1 << (num_slots - 1).bit_length()

    def _parts(self, example: Example) -> np.ndarray:
        """Returns the number of pieces in each sentence part of an example."""
        lengths = np.array([len(segment.pieces) for segment in example])
        return split_long(lengths, self.longest_part)[0]

    def lay_out(
        self, examples: Sequence[Example], row_shape: RowShape
    ) -> dict[str, np.ndarray]:
        with tf.device("CPU"):
            trees = trees_of(examples, max(map(len, examples)))
            rows = block_rows(trees, self.block_length, self._vocabulary, row_shape)
            # Map sentences to the texts of their segments.
            texts = tf.pad(trees.texts + 1, [[0, 0], [1, 0]])
            rows["given_text"] = tf.gather(texts, rows["given_text"], batch_dims=1)
        return {
            name: values.numpy() for name, values in self.read_features(rows).items()
        }

    def readout(self, num_texts: int) -> PooledSentences:
        self.capacity(num_texts)
        return PooledSentences(num_texts)

    def sentence_vectors(
        self, encoder: Any, sequence_output: tf.Tensor, features: Features
    ) -> tuple[tf.Tensor, tf.Tensor]:
        pooled = encoder.pool(sequence_output, features["sentence_starts"])
        number = features["given_text"]
        return mean_vectors(pooled, number, largest(number))

    def pooled_output(
        self, sequence_output: tf.Tensor, vectors: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        counts = tf.reduce_sum(tf.cast(mask, vectors.dtype), axis=1, keepdims=True)
        return tf.reduce_sum(vectors, axis=1) / tf.maximum(counts, 1)


def split_long(lengths: np.ndarray, longest: int) -> tuple[np.ndarray, np.ndarray]:
    """Splits sentences of `lengths` `(S,)` that exceed `longest` into even parts.

    For example, lengths [3, 10] and `longest` 4 give part lengths [3, 4, 3, 3], and the
    number of each part in its sentence, [0, 0, 1, 2].
    """
    num_parts = np.maximum(-(-lengths // longest), 1)
    whole, parts = np.repeat(lengths, num_parts), np.repeat(num_parts, num_parts)
    first_parts = np.repeat(np.cumsum(num_parts) - num_parts, num_parts)
    part = np.arange(len(parts)) - first_parts
    return whole // parts + (part < whole % parts), part


def _split_rows(lengths: tf.RaggedTensor, longest: int) -> tuple[tf.RaggedTensor, ...]:
    """Applies `split_long` in the graph. Returns part lengths and sentence numbers."""
    num_parts = tf.maximum(-(-lengths.flat_values // longest), 1)
    part, whole = count_off(tf.zeros_like(num_parts), num_parts)
    length, parts = (
        tf.gather(values, whole) for values in (lengths.flat_values, num_parts)
    )
    part_length = length // parts + tf.cast(part < length % parts, tf.int32)
    number = tf.ragged.range(tf.cast(lengths.row_lengths(), tf.int32)).flat_values
    row = tf.gather(lengths.value_rowids(), whole)

    def by_rows(values: tf.Tensor) -> tf.RaggedTensor:
        return tf.RaggedTensor.from_value_rowids(
            values, row, nrows=lengths.nrows(), validate=False
        )

    return by_rows(part_length), by_rows(tf.gather(number, whole))


@tf.function(
    autograph=False,
    input_signature=[
        tf.TensorSpec([None, None], tf.int32),
        tf.TensorSpec([], tf.int32),
        tf.TensorSpec([], tf.int32),
    ],
)
def place_in_blocks(
    lengths: tf.Tensor, block_length: int, num_blocks: int | tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Places the sentences of rows so that none crosses the end of a block.

    Uses first-fit decreasing: places the longest sentences first, each in the first
    block with room. Rows that are at most half full always succeed. In blocks of 128,
    nearly all rows of real sentences succeed even if they are 98% full. More blocks do
    not change the positions, and one block per sentence always suffices.

    `lengths`, int32 `(B, N)`, are at most `block_length`, and 0 at padding. Returns the
    first position of each sentence, int32 `(B, N)`, 0 at padding, and a bool mask
    `(B,)` of the rows whose sentences all fit. Positions in other rows are undefined.
    """
    num_rows, num_slots = tf.unstack(tf.shape(lengths))
    order = tf.argsort(-lengths, axis=1, stable=True)
    falling = tf.transpose(tf.gather(lengths, order, batch_dims=1))
    rows = tf.range(num_rows)

    def place(
        number: tf.Tensor, used: tf.Tensor, starts: tf.TensorArray
    ) -> tuple[tf.Tensor, tf.Tensor, tf.TensorArray]:
        length = falling[number]
        has_room = used + length[:, tf.newaxis] <= block_length
        block = tf.argmax(tf.cast(has_room, tf.int32), axis=1, output_type=tf.int32)
        at = tf.stack([rows, block], axis=1)
        start = block * block_length + tf.gather_nd(used, at)
        starts = starts.write(number, tf.where(length > 0, start, 0))
        return number + 1, tf.tensor_scatter_nd_add(used, at, length), starts

    _, used, starts = tf.while_loop(
        lambda number, *_: number < num_slots,
        place,
        (
            tf.constant(0),
            tf.zeros([num_rows, num_blocks], tf.int32),
            tf.TensorArray(tf.int32, size=num_slots, element_shape=[None]),
        ),
    )
    sorted_starts = tf.transpose(starts.stack())
    starts_BN = tf.gather(sorted_starts, tf.argsort(order, axis=1), batch_dims=1)
    return starts_BN, tf.reduce_all(used <= block_length, axis=1)


def lay_out(
    *,
    pieces: tf.Tensor,
    lengths: tf.Tensor,
    starts: tf.Tensor,
    is_sentence: tf.Tensor,
    row_length: int | tf.Tensor,
    vocabulary: Vocabulary,
) -> dict[str, tf.Tensor]:
    """Lays out `<SS> <Attn> words </s>` for each sentence at its position in `starts`.

    `pieces`, int32 `(B, P)`, are the padded pieces of all sentences of a row. `lengths`
    and `starts`, int32, and `is_sentence`, bool, are `(B, N)`, 0 at padding. Returns
    `token_ids`, `position_index`, `sentence_number`, `padding_mask` and `is_piece`,
    which is False at special tokens. Each is `(B, L)`, padded.
    """
    starts = tf.where(is_sentence, starts, row_length)
    order = tf.argsort(starts, axis=1, stable=True)
    position = tf.range(row_length)[tf.newaxis, :] + tf.zeros_like(starts[:, :1])
    slot = tf.searchsorted(
        tf.gather(starts, order, batch_dims=1), position, side="right"
    )
    sentence = tf.gather(order, tf.maximum(slot - 1, 0), batch_dims=1)
    table = tf.stack([starts, lengths, tf.cumsum(lengths, axis=1, exclusive=True)], 2)
    start, length, pieces_before = tf.unstack(
        tf.gather(table, sentence, batch_dims=1), axis=2
    )
    offset = position - start
    last = length + NUM_SPECIAL_TOKENS - 1
    is_token = (offset >= 0) & (offset <= last)
    is_piece = (offset >= _BEFORE_WORDS) & (offset < last)
    piece = tf.where(is_piece, pieces_before + offset - _BEFORE_WORDS, 0)
    token = tf.gather(tf.pad(pieces, [[0, 0], [0, 1]]), piece, batch_dims=1)
    token = tf.where(offset == 0, vocabulary.cls_id, token)
    token = tf.where(offset == 1, vocabulary.attention_id, token)
    token = tf.where(offset == last, vocabulary.sep_id, token)
    return {
        "token_ids": tf.where(is_token, token, vocabulary.pad_id),
        "padding_mask": is_token,
        "position_index": tf.where(is_token, offset, 0),
        "sentence_number": tf.where(is_token, sentence + 1, 0),
        "is_piece": is_piece,
    }


def block_rows(
    trees: Trees,
    block_length: int,
    vocabulary: Vocabulary,
    row_shape: RowShape | None = None,
) -> dict[str, tf.Tensor]:
    """Returns the features of `BlockLayout` for one text per row, and `sentence_mask`.

    `row_shape`, (blocks, sentence parts) per row, defaults to the smallest possible.
    `given_text`, `(B, N)`, is the sentence of each part, from 1, or 0 at padding.
    """
    parts, sentence = _split_rows(
        tf.RaggedTensor.from_tensor(trees.sentence_lengths, trees.num_sentences),
        block_length - NUM_SPECIAL_TOKENS,
    )
    num_parts = tf.cast(parts.row_lengths(), tf.int32)
    num_slots = tf.maximum(largest(num_parts), _MIN_SLOTS)
    if row_shape is not None:
        num_slots = row_shape[1]
    mask = tf.sequence_mask(num_parts, num_slots)
    shape = [tf.size(num_parts), num_slots]
    lengths = parts.to_tensor(shape=shape)
    spans = tf.where(mask, lengths + NUM_SPECIAL_TOKENS, 0)
    starts, _ = place_in_blocks(spans, block_length, num_slots)
    num_blocks = 1 + largest(starts) // block_length
    if row_shape is not None:
        num_blocks = row_shape[0]
    row = lay_out(
        pieces=trees.pieces,
        lengths=lengths,
        starts=starts,
        is_sentence=mask,
        row_length=num_blocks * block_length,
        vocabulary=vocabulary,
    )
    del row["is_piece"]
    number = row["sentence_number"]
    return {
        **row,
        "text_number": tf.cast(number > 0, tf.int32),
        "sentence_position": tf.maximum(number - 1, 0),
        "sentence_starts": starts,
        "sentence_mask": mask,
        "given_text": tf.where(mask, sentence.to_tensor(shape=shape) + 1, 0),
    }
