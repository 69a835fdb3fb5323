"""Rows of texts as sentences in blocks, in the graph: those of `text_blocks` (ReAT).

Shape key: B rows, M sentences of a row, N parts of sentences of a row, L row length,
T block length.
"""

import tensorflow as tf

from seg_tf.text.marked_positions import count_off
from seg_tf.text.text_blocks import NUM_SPECIAL_TOKENS, SpecialIds

# Attention to a single place alone is nothing to Keras.
_FEWEST_SLOTS = 2


def split_long(lengths: tf.RaggedTensor, longest: int) -> tuple[tf.RaggedTensor, ...]:
    """Cuts sentences that are too long into even parts, as `text_blocks.split_long`.

    Args:
        lengths: ragged int32 `(B, M)`, pieces of each sentence.
        longest: the most pieces of a part.

    Returns:
        Two ragged int32 tensors `(B, N)`: pieces of each part, and which sentence of
        its row it belongs to, from 0.
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
    """First position of each sentence, as by `text_blocks.place_in_fewest_blocks`.

    First-fit decreasing: the longest first, each into the first block with room.

    Args:
        lengths: int32 `(B, N)`, positions of each sentence, none above T; 0 where there
            is none.
        block_length: T.

    Returns:
        int32 `(B, N)`, 0 where there is no sentence.
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

    _, _, starts = tf.while_loop(
        lambda number, *_: number < num_slots,
        place,
        (
            tf.constant(0),
            # As many blocks as sentences always do.
            tf.zeros([num_rows, num_slots], tf.int32),
            tf.TensorArray(tf.int32, size=num_slots, element_shape=[None]),
        ),
    )
    sorted_starts = tf.transpose(starts.stack())
    return tf.gather(sorted_starts, tf.argsort(order, axis=1), batch_dims=1)


def block_rows(
    pieces: tf.Tensor,
    sentence_lengths: tf.RaggedTensor,
    block_length: int,
    special_ids: SpecialIds,
) -> dict[str, tf.Tensor]:
    """Lays out sentences as `<SS> <Attn> words </s>`, those of a row as one text.

    Args:
        pieces: int32, the pieces of all sentences of all rows, in order.
        sentence_lengths: ragged int32 `(B, M)`, pieces of each; at least one sentence a
            row, which may have none.
        block_length: T.
        special_ids: ids of the special tokens.

    Returns:
        The features of `seg_tf.models.reat.ReAT`, in as few blocks as do for all rows;
        `padding_mask`, and `given_text` `(B, N)`, which sentence, from 1, a part
        belongs to, 0 where there is none.
    """
    parts, sentence = split_long(sentence_lengths, block_length - NUM_SPECIAL_TOKENS)
    num_parts = tf.cast(parts.row_lengths(), tf.int32)
    num_slots = tf.maximum(tf.reduce_max(num_parts), _FEWEST_SLOTS)
    mask = tf.sequence_mask(num_parts, num_slots)
    shape = [tf.size(num_parts), num_slots]
    spans = tf.cast(mask, tf.int32) * (
        parts.to_tensor(shape=shape) + NUM_SPECIAL_TOKENS
    )
    starts = place_in_blocks(spans, block_length)
    num_blocks = 1 + tf.reduce_max(starts) // block_length
    row_length = num_blocks * block_length

    # Positions of all parts, one behind the other.
    lengths = parts.flat_values
    row = tf.cast(parts.value_rowids(), tf.int32)
    begin = row * row_length + tf.boolean_mask(starts, mask)
    position, part = count_off(begin, lengths + NUM_SPECIAL_TOKENS)
    offset = position - tf.gather(begin, part)
    last = tf.gather(lengths, part) + NUM_SPECIAL_TOKENS - 1
    is_piece = (offset > 1) & (offset < last)
    rank = tf.cumsum(tf.cast(is_piece, tf.int32), exclusive=True)
    token = tf.gather(tf.pad(pieces, [[0, 1]]), rank)
    token = tf.where(offset == last, special_ids.end, token)
    token = tf.where(offset == 1, special_ids.attention, token)
    token = tf.where(offset == 0, special_ids.ss, token)
    number = tf.ragged.range(num_parts).flat_values + 1

    def scattered(values: tf.Tensor, fill: int = 0) -> tf.Tensor:
        flat = tf.tensor_scatter_nd_update(
            tf.fill([tf.size(num_parts) * row_length], fill),
            position[:, tf.newaxis],
            values,
        )
        return tf.reshape(flat, [-1, row_length])

    sentence_number = scattered(tf.gather(number, part))
    return {
        "token_ids": scattered(token, special_ids.pad),
        "padding_mask": sentence_number > 0,
        "position_index": scattered(offset),
        "sentence_number": sentence_number,
        "text_number": tf.cast(sentence_number > 0, tf.int32),
        "sentence_position": tf.maximum(sentence_number - 1, 0),
        "sentence_starts": starts,
        "sentence_mask": mask,
        "given_text": tf.cast(mask, tf.int32) * (sentence.to_tensor(shape=shape) + 1),
    }
