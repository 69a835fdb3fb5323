"""Paragraph, sentence and token index of every position of a row, in the graph.

Shape key: B batch, L row length, S sentences, G paragraphs (padded with 0).
"""

from collections.abc import Mapping

import tensorflow as tf

from seg_tf.text.index_caps import slide_below_cap

# Indices of plain windows.
WINDOW_INDICES = ("position_index", "paragraph_index", "sentence_index", "token_index")


def add_indices(
    *,
    num_pieces: tf.Tensor,
    sentence_lengths: tf.Tensor,
    paragraph_lengths: tf.Tensor,
    first_index: tf.Tensor,
    row_length: int,
    caps: Mapping[str, int],
) -> dict[str, tf.Tensor]:
    """Gives each position of `[CLS] pieces [SEP]` its indices.

    For example, two paragraphs of sentences [[7, 8], [9]] and [[5]] become

      tokens           [CLS]  7  8  9  5  [SEP]
      position_index      0   1  2  3  4     5
      paragraph_index     0   0  0  0  1     1
      sentence_index      0   0  0  1  0     0
      token_index         0   0  1  0  0     1

    `[CLS]` takes the indices of the first piece; `[SEP]` those of the last piece,
    its token index one higher. The sentence index restarts in each paragraph, the
    token index in each sentence (Segatron, section 3.2).

    Args:
        num_pieces: int32 tensor `(B,)`, at most `row_length - 2` and at least 1.
        sentence_lengths: int32 tensor `(B, S)`.
        paragraph_lengths: int32 tensor `(B, G)`.
        first_index: int tensor `(B, 3)`: paragraph, sentence and token index, in
            the document, of the first piece.
        row_length: L.
        caps: rows of each table; which indices are wanted.

    Returns:
        `{name of caps: int32 tensor (B, L)}`, below the cap, 0 at padding.
    """
    first_paragraph, first_sentence, first_token = tf.unstack(
        tf.cast(first_index, tf.int32)[:, :, tf.newaxis], axis=1
    )
    position = tf.range(row_length)[tf.newaxis, :]
    num_pieces = num_pieces[:, tf.newaxis]
    # Specials look up the piece beside them.
    piece = tf.minimum(tf.maximum(position - 1, 0), num_pieces - 1)
    sentence, token = locate(piece, sentence_lengths, first_token)
    paragraph, sentence = locate(sentence, paragraph_lengths, first_sentence)
    paragraph += first_paragraph
    token += tf.cast(position == num_pieces + 1, tf.int32)

    indices = {
        "position_index": tf.broadcast_to(position, tf.shape(piece)),
        "paragraph_index": paragraph,
        "sentence_index": sentence,
        "token_index": token,
    }
    padding = position > num_pieces + 1
    capped = {}
    for name, cap in caps.items():
        index = indices[name]
        if name == "paragraph_index":
            index = slide_below_cap(index, cap)
        capped[name] = tf.where(padding, 0, tf.minimum(index, cap - 1))
    return capped


def sentence_numbers(
    *, num_pieces: tf.Tensor, sentence_lengths: tf.Tensor, row_length: int
) -> tf.Tensor:
    """Number of the window's sentence for each piece of `[CLS] pieces [SEP]`.

    Args:
        num_pieces: int32 tensor `(B,)`.
        sentence_lengths: int32 tensor `(B, S)`.
        row_length: L.

    Returns:
        int32 tensor `(B, L)`, from 1; 0 at special tokens and padding.
    """
    position = tf.range(row_length)[tf.newaxis, :]
    num_pieces = num_pieces[:, tf.newaxis]
    piece = tf.minimum(tf.maximum(position - 1, 0), num_pieces - 1)
    ends = tf.cumsum(sentence_lengths, axis=1)
    number = 1 + tf.searchsorted(ends, piece, side="right")
    return tf.where((position >= 1) & (position <= num_pieces), number, 0)


def locate(
    item: tf.Tensor, lengths: tf.Tensor, first: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Number of the run of `lengths` that each item lies in, and its place there.

    Args:
        item: int32 tensor `(B, N)`, counted through all runs.
        lengths: int32 tensor `(B, S)`, padded with 0.
        first: int32 tensor `(B, 1)`. The numbers of the first run start there, those
            of the others at 0.

    Returns:
        Two int32 tensors `(B, N)`.
    """
    ends = tf.cumsum(lengths, axis=1)
    run = tf.searchsorted(ends, item, side="right")
    # What an item's number is counted from: the start of its run.
    origins = ends - lengths
    origins -= tf.pad(first, [[0, 0], [0, tf.shape(lengths)[1] - 1]])
    return run, item - tf.gather(origins, run, batch_dims=1)
