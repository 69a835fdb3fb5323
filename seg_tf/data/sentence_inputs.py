"""Reads rows of shuffled whole sentences, with or without `[SENT]` tokens (SLM).

Shape key: B rows, M maximum number of sentences of a row.
"""

from typing import Any

import tensorflow as tf

from seg_tf import features
from seg_tf.config import configured_by
from seg_tf.data import randomness
from seg_tf.data.configs import SentenceInputsConfig, ShuffledWindowInputsConfig
from seg_tf.data.window_inputs import WindowInputs
from seg_tf.data.window_records import Features, Rows, WindowRecords
from seg_tf.layouts.layout import Layout
from seg_tf.layouts.sentences import CANDIDATES, SentenceLayout, sentence_rows
from seg_tf.text.graph.trees import Trees


@configured_by(ShuffledWindowInputsConfig)
class ShuffledWindowInputs(WindowInputs):
    """`WindowInputs` whose rows contain whole sentences, which may be shuffled.

    Training merges and shuffles sentences anew in every epoch. Validation uses the
    order stored with each record. A shuffled row permutes all sentences. However, if a
    window begins inside a document, its first sentence is not a candidate for the
    pointers. It did not fit into the previous window, so it is longer on average, and
    its length would reveal its position.
    """

    row_features: tuple[str, ...] = ("is_shuffled",)
    has_sentence_tokens = False

    def __init__(self, *, max_sentences: int, shuffle_rate: float, **arguments: Any):
        super().__init__(**arguments)
        self._max_sentences = max_sentences
        self._shuffle_rate = shuffle_rate

    def build_rows(self, windows: WindowRecords) -> Rows:
        windows.check_whole_sentences()
        length, num_tokens = windows.window_length, windows.num_tokens
        sent_id = None
        if self.has_sentence_tokens:
            sent_id = windows.vocabulary().sent_id
            length += self._max_sentences
            # An upper bound, because merging sentences removes some `[SENT]` tokens.
            num_sentences = windows.manifest.count("sentences", windows.split)
            num_tokens += min(num_sentences, self._max_sentences * len(windows))

        def read(
            numbers: tf.Tensor, epoch_places: tf.Tensor, epoch_streams: tf.Tensor
        ) -> Features:
            streams = randomness.extend_key(epoch_streams, epoch_places)
            trees, first_index, stored_order = windows.read(numbers)
            firsts, counts = merge(
                trees.num_sentences,
                tf.shape(trees.sentence_lengths)[1],
                streams,
                self._max_sentences,
            )
            chances = _draws(streams, randomness.WHETHER_SHUFFLED, 1)
            is_shuffled = chances[:, 0] < self._shuffle_rate
            if windows.split == "validation":
                keys = _stored_keys(trees, stored_order, firsts)
            else:
                keys = _draws(streams, randomness.SENTENCE_ORDER, self._max_sentences)
            row = sentence_rows(
                _merged(trees, firsts, counts),
                places=_places(keys, counts, is_shuffled),
                row_length=length,
                special_ids=windows.special_ids,
                sent_id=sent_id,
                caps=windows.index_tables,
                first_is_context=tf.reduce_any(first_index > 0, axis=1),
            )
            masked = windows.masking(
                row["token_ids"], row.pop("sentence_number"), streams
            )
            return {**row, **masked, "is_shuffled": is_shuffled}

        return Rows(
            count=len(windows),
            length=length,
            num_tokens=num_tokens,
            read=read,
            prefetch=windows.prefetch,
        )


@configured_by(SentenceInputsConfig)
class SentenceInputs(ShuffledWindowInputs):
    """`ShuffledWindowInputs` with `[SENT]` before each sentence, and sentence ids.

    Rows are M positions longer than windows. Pointers point at `[SENT]` tokens.
    """

    layout: type[Layout] = SentenceLayout
    row_features = (*CANDIDATES, "is_shuffled")
    index_features = features.INDEX_FEATURES
    has_sentence_tokens = True


def merge(
    num_sentences: tf.Tensor,
    width: int | tf.Tensor,
    streams: tf.Tensor,
    max_sentences: int,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Draws merges of adjacent sentences that leave at most M (SLM, section 3.2).

    If a row has more sentences, M - 1 boundaries remain, and all sets of M - 1
    boundaries are equally likely. `num_sentences`, int32 `(B,)`, is at most `width`.
    Returns the first sentence of each merged sentence, int32 `(B, M)`, ascending and
    padded with the larger of `width` and M, and the number of sentences after merging,
    int32 `(B,)`.
    """
    width = tf.maximum(width, max_sentences)
    sentence = tf.range(width)[tf.newaxis, :]
    scores = _draws(streams, randomness.SENTENCE_MERGES, width)
    scores = tf.where(sentence == 0, 2.0, scores)
    scores = tf.where(sentence < num_sentences[:, tf.newaxis], scores, -1.0)
    _, firsts = tf.math.top_k(scores, max_sentences)
    counts = tf.minimum(num_sentences, max_sentences)
    is_first = tf.sequence_mask(counts, max_sentences)
    return tf.sort(tf.where(is_first, firsts, width), axis=1), counts


def _merged(trees: Trees, firsts: tf.Tensor, counts: tf.Tensor) -> Trees:
    bounds = tf.pad(tf.cumsum(trees.sentence_lengths, axis=1), [[0, 0], [1, 0]])
    # Padding ends where the last sentence ends.
    nexts = tf.concat([firsts[:, 1:], tf.fill(tf.shape(firsts[:, :1]), 1 << 30)], 1)
    end = tf.shape(trees.sentence_lengths)[1]
    ends = tf.gather(bounds, tf.minimum(nexts, end), batch_dims=1)
    starts = tf.gather(bounds, tf.minimum(firsts, end), batch_dims=1)
    sentence = tf.minimum(firsts, trees.num_sentences[:, tf.newaxis] - 1)
    return Trees(
        pieces=trees.pieces,
        sentence_lengths=ends - starts,
        num_sentences=counts,
        paragraphs=tf.gather(trees.paragraphs, sentence, batch_dims=1),
        sentences=tf.gather(trees.sentences, sentence, batch_dims=1),
        first_tokens=tf.gather(trees.first_tokens, sentence, batch_dims=1),
        texts=tf.zeros_like(firsts),
    )


def _stored_keys(trees: Trees, stored_order: tf.Tensor, firsts: tf.Tensor) -> tf.Tensor:
    """Returns sort keys for the stored order of the sentences, int32 `(B, M)`."""
    width = tf.shape(stored_order)[1]
    is_sentence = tf.range(width)[tf.newaxis, :] < trees.num_sentences[:, tf.newaxis]
    # The record stores the sentence at each position. Keys are the inverse permutation.
    places = tf.argsort(tf.where(is_sentence, stored_order, width), axis=1)
    return tf.gather(places, tf.minimum(firsts, width - 1), batch_dims=1)


def _places(keys: tf.Tensor, counts: tf.Tensor, is_shuffled: tf.Tensor) -> tf.Tensor:
    """Returns the position at which each sentence is presented, int32 `(B, M)`."""
    max_sentences = keys.shape[1]
    in_gold_order = tf.range(max_sentences)[tf.newaxis, :]
    keys = tf.where(tf.sequence_mask(counts, max_sentences), keys, keys.dtype.max)
    places = tf.argsort(tf.argsort(keys, axis=1, stable=True), axis=1)
    return tf.where(is_shuffled[:, tf.newaxis], places, in_gold_order)


def _draws(streams: tf.Tensor, purpose: int, count: int | tf.Tensor) -> tf.Tensor:
    streams = randomness.extend_key(streams, purpose)
    return randomness.uniform_floats(randomness.uniform_integers_like(streams, count))
