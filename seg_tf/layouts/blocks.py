"""Rows of texts as sentences in blocks, `<SS> <Attn> words </s>` each (ReAT).

Shape key: B rows, M sentences of a row, N parts of sentences of a row, L row length,
T block length.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from seg_tf.layouts import block_placing
from seg_tf.layouts.block_placing import NUM_SPECIAL_TOKENS, SpecialIds
from seg_tf.layouts.layout import (
    Features,
    Layout,
    PooledSentences,
    RowShape,
    TextCapacity,
)
from seg_tf.layouts.rows import Example, check_num_texts, pieces_beside
from seg_tf.ops.gathering import mean_vectors
from seg_tf.text.graph.flat import count_off
from seg_tf.text.graph.trees import Trees, largest

# Keras does not attend to a single place.
_FEWEST_SLOTS = 2
# Positions of a sentence before its words.
_BEFORE_WORDS = 2


class BlockLayout(Layout):
    """Lays out each sentence in a block; those of a row are one text and meet.

    For example, texts of the pieces [7, 8] and [9] become, with blocks of 10,

      tokens             <SS> <Attn> 7  8  </s>  <SS> <Attn> 9  </s>  [PAD]
      position_index       0     1   2  3    4     0     1   2    3     0
      sentence_number      1     1   1  1    1     2     2   2    2     0
      text_number          1     1   1  1    1     1     1   1    1     0
      sentence_position    0     0   0  0    0     1     1   1    1     0
      sentence_starts      0  5
      given_text           1  2

    A sentence too long for a block is laid out in even parts, each of which is a
    sentence to the encoder. The vector of a sentence is its pooled `<SS>`, or the mean
    over those of its parts; that of a row is the mean over the sentences.

    Args:
        inputs: config of the rows of pretraining.
        encoder: a ReAT.
        vocabulary: the model's vocabulary.
        max_length: maximum number of positions of an example, including special tokens
            of its texts but not of parts; None uses all places of the model.
    """

    holds_spans = False
    vectors_per_text = True
    extra_features = ("given_text",)
    unread_features = ("padding_mask",)

    def __init__(
        self, inputs: Any, encoder: Any, vocabulary: Any, max_length: int | None = None
    ):
        del inputs  # whose rows hold several texts
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
        self._special_ids = SpecialIds.of(vocabulary)

    def capacity(self, num_texts: int) -> int:
        check_num_texts(num_texts, self.max_sentences)
        wanted = pieces_beside(
            NUM_SPECIAL_TOKENS * num_texts, self.max_length, num_texts
        )
        # Texts of this total length never have more parts than the model has places:
        # each text wastes less than a part.
        most = self.longest_part * (self.max_sentences - num_texts) + num_texts
        return min(wanted, most)

    def rows(self, trees: Trees) -> Features:
        return block_rows(trees, self.block_length, self._special_ids)

    def num_tokens(self, example: Example) -> int:
        return int((self._lengths(example)[0] + NUM_SPECIAL_TOKENS).sum())

    def fits(self, example: Example) -> bool:
        return len(self._lengths(example)[0]) <= self.max_sentences

    def row_shape(self, example: Example) -> tuple[int, int]:
        num_blocks, num_slots = self.exact_shape(example)
        # One of few numbers of blocks: 1 to 8, 10, 12, 14, 16, 20, 24, and so on.
        step = max(1, (1 << (num_blocks - 1).bit_length()) // 8)
        return -(-num_blocks // step) * step, 1 << (num_slots - 1).bit_length()

    def exact_shape(self, example: Example) -> tuple[int, int]:
        """Exact numbers of blocks and places that an example needs."""
        parts, _ = self._parts(example)
        _, num_blocks = self._place(parts)
        return num_blocks, max(_FEWEST_SLOTS, len(parts))

    def lay_out(
        self, examples: Sequence[Example], row_shape: RowShape
    ) -> dict[str, np.ndarray]:
        num_blocks, num_slots = row_shape
        row_length = num_blocks * self.block_length
        numbers = {
            name: np.zeros((len(examples), num_slots), np.int32)
            for name in ("lengths", "starts", "given_text")
        }
        pieces = np.zeros((len(examples), row_length), np.int32)
        for row, example in enumerate(examples):
            parts, text_of_part = self._parts(example)
            starts, _ = self._place(parts)
            joined = np.concatenate([segment.pieces for segment in example])
            pieces[row, : len(joined)] = joined
            numbers["lengths"][row, : len(parts)] = parts
            numbers["starts"][row, : len(parts)] = starts
            numbers["given_text"][row, : len(parts)] = 1 + text_of_part
        given_text = numbers.pop("given_text")
        with tf.device("CPU"):
            rows = one_text_rows(
                pieces=tf.constant(pieces),
                **{name: tf.constant(array) for name, array in numbers.items()},
                is_sentence=tf.constant(given_text > 0),
                row_length=row_length,
                special_ids=self._special_ids,
            )
        del rows["padding_mask"]
        return {
            **{name: values.numpy() for name, values in rows.items()},
            "given_text": given_text,
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

    def _parts(self, example: Example) -> tuple[np.ndarray, np.ndarray]:
        """Pieces of each part, and which text it belongs to."""
        parts, number = self._lengths(example)
        if len(parts) > self.max_sentences:
            raise ValueError(
                "`example` must have at most as many sentences, or parts of them, as "
                f"the model has places, {self.max_sentences}. Received: {len(parts)}"
            )
        texts = np.array([segment.text for segment in example])
        return parts, texts[np.cumsum(number == 0) - 1]

    def _lengths(self, example: Example) -> tuple[np.ndarray, np.ndarray]:
        """Pieces of each part, and which part of its sentence it is."""
        lengths = np.array([len(segment.pieces) for segment in example])
        return block_placing.split_long(lengths, self.longest_part)

    def _place(self, parts: np.ndarray) -> tuple[np.ndarray, int]:
        return block_placing.place_in_fewest_blocks(
            parts + NUM_SPECIAL_TOKENS, self.block_length
        )


def split_long(lengths: tf.RaggedTensor, longest: int) -> tuple[tf.RaggedTensor, ...]:
    """As `block_placing.split_long`, for sentences of rows, ragged int32 `(B, M)`.

    Returns:
        Two ragged int32 tensors `(B, N)`: pieces of each part, and the number of its
        sentence in the row, from 0.
    """
    num_parts = tf.maximum(-(-lengths.flat_values // longest), 1)
    part, whole = count_off(tf.zeros_like(num_parts), num_parts)
    length, parts = (
        tf.gather(values, whole) for values in (lengths.flat_values, num_parts)
    )
    of_part = length // parts + tf.cast(part < length % parts, tf.int32)
    number = tf.ragged.range(tf.cast(lengths.row_lengths(), tf.int32)).flat_values
    row = tf.gather(lengths.value_rowids(), whole)

    def by_rows(values: tf.Tensor) -> tf.RaggedTensor:
        return tf.RaggedTensor.from_value_rowids(
            values, row, nrows=lengths.nrows(), validate=False
        )

    return by_rows(of_part), by_rows(tf.gather(number, whole))


def place_in_blocks(lengths: tf.Tensor, block_length: int) -> tf.Tensor:
    """As `block_placing.place_in_fewest_blocks`, for rows of lengths `(B, N)`."""
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

    _, _, starts = tf.while_loop(
        lambda number, *_: number < num_slots,
        place,
        (
            tf.constant(0),
            # As many blocks as sentences are always enough.
            tf.zeros([num_rows, num_slots], tf.int32),
            tf.TensorArray(tf.int32, size=num_slots, element_shape=[None]),
        ),
    )
    sorted_starts = tf.transpose(starts.stack())
    return tf.gather(sorted_starts, tf.argsort(order, axis=1), batch_dims=1)


def lay_out(
    *,
    pieces: tf.Tensor,
    lengths: tf.Tensor,
    starts: tf.Tensor,
    is_sentence: tf.Tensor,
    row_length: int | tf.Tensor,
    special_ids: SpecialIds,
) -> dict[str, tf.Tensor]:
    """Lays out `<SS> <Attn> words </s>` for every sentence.

    For example, sentences [7, 8] and [9] that begin at 5 and 0 become, with blocks of
    10:

      tokens           <SS> <Attn>  9 </s> [PAD] <SS> <Attn>  7  8 </s>
      position_index      0      1  2    3     0    0      1  2  3    4
      sentence_number     2      2  2    2     0    1      1  1  1    1
      is_piece                      x                         x  x

    Args:
        pieces: int32 tensor `(B, P)`, pieces of all sentences of a row, padded.
        lengths: int32 tensor `(B, N)`, pieces of each sentence, 0 where there is none.
        starts: int32 tensor `(B, N)`, position of each sentence.
        is_sentence: bool tensor `(B, N)`, True for the first ones of each row.
        row_length: L.
        special_ids: ids of the special tokens.

    Returns:
        `token_ids`, `padding_mask`, `position_index`, `sentence_number`, the sentence
        of each position in the row, from 1, and 0 at padding, and `is_piece`; each
        `(B, L)`.
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
    token = tf.where(offset == 0, special_ids.ss, token)
    token = tf.where(offset == 1, special_ids.attention, token)
    token = tf.where(offset == last, special_ids.end, token)
    return {
        "token_ids": tf.where(is_token, token, special_ids.pad),
        "padding_mask": is_token,
        "position_index": tf.where(is_token, offset, 0),
        "sentence_number": tf.where(is_token, sentence + 1, 0),
        "is_piece": is_piece,
    }


def one_text_rows(
    *, starts: tf.Tensor, is_sentence: tf.Tensor, **arguments: Any
) -> dict[str, tf.Tensor]:
    """Rows of one text each: features of `seg_tf.models.reat.ReAT`, and `padding_mask`.

    Arguments are those of `lay_out`.
    """
    row = lay_out(starts=starts, is_sentence=is_sentence, **arguments)
    del row["is_piece"]
    number = row["sentence_number"]
    return {
        **row,
        "text_number": tf.cast(number > 0, tf.int32),
        "sentence_position": tf.maximum(number - 1, 0),
        "sentence_starts": starts,
        "sentence_mask": is_sentence,
    }


def block_rows(
    trees: Trees, block_length: int, special_ids: SpecialIds
) -> dict[str, tf.Tensor]:
    """Rows of one text each, in as few blocks as the longest needs.

    The features are those of `one_text_rows`, and `given_text` `(B, N)`, the sentence
    of each part, from 1, and 0 where there is none.
    """
    parts, sentence = split_long(
        tf.RaggedTensor.from_tensor(trees.sentence_lengths, trees.num_sentences),
        block_length - NUM_SPECIAL_TOKENS,
    )
    num_parts = tf.cast(parts.row_lengths(), tf.int32)
    num_slots = tf.maximum(largest(num_parts), _FEWEST_SLOTS)
    mask = tf.sequence_mask(num_parts, num_slots)
    shape = [tf.size(num_parts), num_slots]
    lengths = parts.to_tensor(shape=shape)
    spans = tf.where(mask, lengths + NUM_SPECIAL_TOKENS, 0)
    starts = place_in_blocks(spans, block_length)
    rows = one_text_rows(
        pieces=trees.pieces,
        lengths=lengths,
        starts=starts,
        is_sentence=mask,
        row_length=(1 + largest(starts) // block_length) * block_length,
        special_ids=special_ids,
    )
    return {
        **rows,
        "given_text": tf.where(mask, sentence.to_tensor(shape=shape) + 1, 0),
    }
