"""Rows with a token before every sentence, and sentences in any order (SLM).

Shape key: B rows, P pieces, M sentences, L row length, C = M + 2 candidates.
"""

from collections.abc import Mapping

import tensorflow as tf

from seg_tf.text.index_caps import slide_below_cap


def sentence_rows(
    *,
    pieces: tf.Tensor,
    sentence_lengths: tf.Tensor,
    num_sentences: tf.Tensor,
    places: tf.Tensor,
    paragraphs: tf.Tensor,
    sentences: tf.Tensor,
    row_length: int,
    special_ids: Mapping[str, int],
    sent_id: int,
    caps: Mapping[str, int],
) -> dict[str, tf.Tensor]:
    """Lays out `[CLS] [SENT] s1 [SENT] s2 … [SEP]` (SLM, section 2.1 and figure 3).

    The tokens stay in gold order; where a sentence is presented shows in its indices
    alone. For example, sentences [7, 8] and [9], presented the other way round
    (`places` [1, 0]), become

      tokens                [CLS]  [SENT]  7  8  [SENT]  9  [SEP]
      position_index            0       3  4  5       1  2      6
      sentence_id               0       2  2  2       1  1      3
      token_index               0       0  1  2       0  1      3
      candidate_positions       0  4  1  6
      gold_candidates           2  1  3

    Paragraph and sentence index belong to the place, not to the sentence that is moved
    there: the structure of the text stays, its contents move. `[CLS]` takes those of
    the first place, `[SEP]` those of the last, with a token index of its own.

    Args:
        pieces: int32 tensor `(B, P)`, the pieces of a row's sentences in gold order,
            padded.
        sentence_lengths: int32 tensor `(B, M)`, pieces of each sentence; a sentence
            may have none.
        num_sentences: int32 tensor `(B,)`, at least 1.
        places: int32 tensor `(B, M)`, at which place, from 0, each is presented.
        paragraphs: int32 tensor `(B, M)`, paragraph index of each place, rising.
        sentences: int32 tensor `(B, M)`, sentence index of each place.
        row_length: L; the tokens have to fit.
        special_ids: ids of "cls", "sep" and "pad".
        sent_id: id of `[SENT]`.
        caps: rows of each index table; which indices are wanted.

    Returns:
        `token_ids`, `padding_mask`, the indices that `caps` names, and
        `candidate_positions`, `candidate_mask` and `gold_candidates` as in the batch
        contract; and `sentence_numbers`, int32 `(B, L)`, which sentence, from 1, a
        piece belongs to, 0 where no piece stands.
    """
    max_sentences = sentence_lengths.shape[1]
    is_sentence = tf.sequence_mask(num_sentences, max_sentences)
    lengths = tf.where(is_sentence, sentence_lengths + 1, 0)  # with their [SENT]
    starts = 1 + tf.cumsum(lengths, axis=1, exclusive=True)
    end = 1 + tf.reduce_sum(lengths, axis=1, keepdims=True)
    count = num_sentences[:, tf.newaxis]

    row = tf.range(row_length)[tf.newaxis, :]
    position = tf.broadcast_to(row, [tf.shape(end)[0], row_length])
    is_cls, is_sep = position == 0, position == end
    is_inside = (position > 0) & (position < end)
    # How many [SENT] stand up to here: the number of the sentence, from 1.
    number = tf.searchsorted(starts, position, side="right")
    sentence = tf.clip_by_value(number - 1, 0, count - 1)
    offset = position - tf.gather(starts, sentence, batch_dims=1)
    is_piece = is_inside & (offset > 0)

    piece = tf.clip_by_value(position - 1 - number, 0, tf.shape(pieces)[1] - 1)
    token_ids = tf.gather(pieces, piece, batch_dims=1)
    token_ids = tf.where(is_piece, token_ids, sent_id)
    token_ids = tf.where(is_cls, special_ids["cls"], token_ids)
    token_ids = tf.where(is_sep, special_ids["sep"], token_ids)
    padding_mask = position <= end
    token_ids = tf.where(padding_mask, token_ids, special_ids["pad"])

    places = tf.where(is_sentence, places, tf.range(max_sentences)[tf.newaxis, :])
    order = tf.argsort(places, axis=1)
    presented_lengths = tf.gather(lengths, order, batch_dims=1)
    presented_starts = 1 + tf.cumsum(presented_lengths, axis=1, exclusive=True)
    place = tf.gather(places, sentence, batch_dims=1)
    # Of special tokens: the first place and the last.
    place = tf.where(is_cls, 0, tf.where(is_sep, count - 1, place))
    start = tf.gather(presented_starts, place, batch_dims=1)
    last_length = tf.gather(presented_lengths, count - 1, batch_dims=1)
    indices = {
        "position_index": tf.where(is_inside, start + offset, position),
        "sentence_id": tf.where(is_inside, place + 1, tf.where(is_sep, count + 1, 0)),
        "token_index": tf.where(is_inside, offset, tf.where(is_sep, last_length, 0)),
        "paragraph_index": tf.gather(
            _capped_paragraphs(paragraphs, is_sentence, caps), place, batch_dims=1
        ),
        "sentence_index": tf.gather(sentences, place, batch_dims=1),
    }

    slot = tf.range(max_sentences + 2)[tf.newaxis, :]
    candidate_mask = slot <= count + 1
    presented = tf.pad(tf.gather(starts, order, batch_dims=1), [[0, 0], [1, 1]])
    candidate_positions = tf.where(slot == count + 1, end, presented)
    step = slot[:, :-1]
    gold = tf.where(step < count, tf.pad(places + 1, [[0, 0], [0, 1]]), 0)
    return {
        "token_ids": token_ids,
        "padding_mask": padding_mask,
        **{
            name: tf.where(padding_mask, tf.minimum(indices[name], cap - 1), 0)
            for name, cap in caps.items()
        },
        "candidate_positions": tf.where(candidate_mask, candidate_positions, 0),
        "candidate_mask": candidate_mask,
        "gold_candidates": tf.where(step == count, count + 1, gold),
        "sentence_numbers": tf.where(is_piece, number, 0),
    }


def _capped_paragraphs(
    paragraphs: tf.Tensor, is_sentence: tf.Tensor, caps: Mapping[str, int]
) -> tf.Tensor:
    """The paragraph of each place, slid below the rows of its table, if it has one."""
    if "paragraph_index" not in caps:
        return paragraphs
    # What sliding takes for the last has to be the last that is one.
    last = tf.reduce_max(tf.where(is_sentence, paragraphs, 0), axis=1, keepdims=True)
    paragraphs = tf.where(is_sentence, paragraphs, last)
    return slide_below_cap(paragraphs, caps["paragraph_index"])
