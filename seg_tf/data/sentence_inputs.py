"""Inputs of rows of whole sentences in any order, with `[SENT]` or without (SLM).

Sentences are merged where a window has too many, shuffled, laid out and masked.

Shape key: B rows, S sentences of a record, M sentences of a row.
"""

from typing import Any

import tensorflow as tf

from seg_tf import features
from seg_tf.config import configured_by
from seg_tf.data import randomness
from seg_tf.data.configs import SentenceInputsConfig, ShuffledWindowInputsConfig
from seg_tf.data.window_inputs import WindowInputs
from seg_tf.data.window_records import (
    DecodedWindows,
    OneWindowRows,
    RowReader,
    WindowRecords,
)
from seg_tf.layouts.layout import Layout
from seg_tf.layouts.sentences import CANDIDATES, SentenceLayout, sentence_rows
from seg_tf.text.graph.trees import Trees


@configured_by(ShuffledWindowInputsConfig)
class ShuffledWindowInputs(WindowInputs):
    """`WindowInputs` whose rows are made of whole sentences in any order.

    Training merges and shuffles anew in every epoch, as functions of (seed, epoch,
    sample). Validation takes the order that is stored with each record.

    All sentences are shuffled, but pointers cannot point at the first sentence of a
    window that begins inside a document: it did not fit into the window before, so it
    is longer than others, and its length would give its place away.

    Args:
        max_sentences: M.
        shuffle_rate: probability that a row is shuffled.
        **arguments: the other arguments of `WindowInputs`.

    Raises:
        ValueError: if the records do not fit the settings, or have sentences cut to
            fill windows.
    """

    row_features: tuple[str, ...] = ("is_shuffled",)
    sentence_tokens = False

    def __init__(self, *, max_sentences: int, shuffle_rate: float, **arguments: Any):
        super().__init__(**arguments)
        self._max_sentences = max_sentences
        self._shuffle_rate = shuffle_rate

    def read_rows(self, windows: WindowRecords) -> RowReader:
        windows.check_whole_sentences()
        return SentenceRows(
            windows,
            max_sentences=self._max_sentences,
            shuffle_rate=self._shuffle_rate,
            sentence_tokens=self.sentence_tokens,
        )


@configured_by(SentenceInputsConfig)
class SentenceInputs(ShuffledWindowInputs):
    """`ShuffledWindowInputs` with `[SENT]` before each sentence, and sentence ids.

    Rows are M positions longer than windows; pointers point at `[SENT]`.
    """

    layout: type[Layout] = SentenceLayout
    row_features = (*CANDIDATES, "is_shuffled")
    index_features = features.INDEX_FEATURES
    sentence_tokens = True


class SentenceRows(OneWindowRows):
    """Reads rows of sentences."""

    def __init__(
        self,
        windows: WindowRecords,
        *,
        max_sentences: int,
        shuffle_rate: float,
        sentence_tokens: bool,
    ):
        super().__init__(windows)
        self._max_sentences = max_sentences
        self._shuffle_rate = shuffle_rate
        self._sent_id = windows.vocabulary().sent_id if sentence_tokens else None
        self._stored_orders = windows.split == "validation"
        if not sentence_tokens:
            return
        self.row_length += max_sentences
        # Not counting that merging takes some [SENT] from windows with many.
        num_sentences = windows.manifest.count("sentences", windows.split)
        self.num_tokens += min(num_sentences, max_sentences * len(windows))

    def __call__(
        self, numbers: tf.Tensor, epoch_places: tf.Tensor, epoch_streams: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        streams = randomness.extend_key(epoch_streams, epoch_places)
        windows = self._windows.read(numbers)
        firsts, counts = merge(
            windows.num_sentences,
            tf.shape(windows.sentence_lengths)[1],
            streams,
            self._max_sentences,
        )
        chances = _draws(streams, randomness.WHETHER_SHUFFLED, 1)
        is_shuffled = chances[:, 0] < self._shuffle_rate
        keys = (
            _stored_keys(windows, firsts)
            if self._stored_orders
            else _draws(streams, randomness.SENTENCE_ORDER, self._max_sentences)
        )
        row = sentence_rows(
            _merged(windows, firsts, counts),
            places=_places(keys, counts, is_shuffled),
            row_length=self.row_length,
            special_ids=self._windows.special_ids,
            sent_id=self._sent_id,
            caps=self._windows.index_tables,
            first_is_context=tf.reduce_any(windows.first_index > 0, axis=1),
        )
        masked = self._windows.masking(
            row["token_ids"], row.pop("sentence_number"), streams
        )
        return {**row, **masked, "is_shuffled": is_shuffled}


def merge(
    num_sentences: tf.Tensor,
    width: int | tf.Tensor,
    streams: tf.Tensor,
    max_sentences: int,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Draws the sentences that start one of a row; others merge with those before.

    Merging adjacent sentences, a pair drawn at a time, until M are left (SLM, section
    3.2) removes all but M - 1 of the boundaries between them, any choice being as
    likely as any other; so those that stay are drawn.

    Args:
        num_sentences: int32 tensor `(B,)`, sentences of each window.
        width: S, of the window with the most sentences, or more.
        streams: uint64 tensor `(B,)`, the random stream of each row.
        max_sentences: M.

    Returns:
        The first sentences, int32 `(B, M)`, rising, padded with S; and how many `(B,)`.
    """
    width = tf.maximum(width, max_sentences)
    sentence = tf.range(width)[tf.newaxis, :]
    scores = _draws(streams, randomness.SENTENCE_MERGES, width)
    scores = tf.where(sentence == 0, 2.0, scores)
    scores = tf.where(sentence < num_sentences[:, tf.newaxis], scores, -1.0)
    _, kept = tf.math.top_k(scores, max_sentences)
    counts = tf.minimum(num_sentences, max_sentences)
    is_kept = tf.sequence_mask(counts, max_sentences)
    return tf.sort(tf.where(is_kept, kept, width), axis=1), counts


def _merged_lengths(lengths: tf.Tensor, firsts: tf.Tensor) -> tf.Tensor:
    """Pieces of each sentence of a row, int32 `(B, M)`; 0 at padding."""
    bounds = tf.pad(tf.cumsum(lengths, axis=1), [[0, 0], [1, 0]])
    # All padding ends where the last sentence does.
    nexts = tf.concat([firsts[:, 1:], tf.fill(tf.shape(firsts[:, :1]), 1 << 30)], 1)
    last = tf.shape(lengths)[1]
    ends = tf.gather(bounds, tf.minimum(nexts, last), batch_dims=1)
    return ends - tf.gather(bounds, tf.minimum(firsts, last), batch_dims=1)


def _merged(windows: DecodedWindows, firsts: tf.Tensor, counts: tf.Tensor) -> Trees:
    """Windows with sentences merged, as `merge` says."""
    trees = windows.trees()
    sentence = tf.minimum(firsts, windows.num_sentences[:, tf.newaxis] - 1)
    nothing = tf.zeros_like(firsts)
    return Trees(
        pieces=windows.pieces,
        sentence_lengths=_merged_lengths(windows.sentence_lengths, firsts),
        num_sentences=counts,
        paragraphs=tf.gather(trees.paragraphs, sentence, batch_dims=1),
        sentences=tf.gather(trees.sentences, sentence, batch_dims=1),
        first_tokens=nothing,
        texts=nothing,
    )


def _stored_keys(windows: DecodedWindows, firsts: tf.Tensor) -> tf.Tensor:
    """Sort keys of sentences by the order stored with each record, int32 `(B, M)`."""
    stored = windows.shuffled_sentence_indices
    sentence = tf.range(tf.shape(stored)[1])[tf.newaxis, :]
    is_sentence = sentence < windows.num_sentences[:, tf.newaxis]
    # Which sentence comes at a place is stored; asked is at which place one comes.
    places = tf.argsort(tf.where(is_sentence, stored, tf.shape(stored)[1]), axis=1)
    last = tf.shape(stored)[1] - 1
    return tf.gather(places, tf.minimum(firsts, last), batch_dims=1)


def _places(keys: tf.Tensor, counts: tf.Tensor, is_shuffled: tf.Tensor) -> tf.Tensor:
    """At which place each sentence of a row comes, int32 `(B, M)`."""
    max_sentences = keys.shape[1]
    in_gold_order = tf.range(max_sentences)[tf.newaxis, :]
    is_sentence = tf.sequence_mask(counts, max_sentences)
    keys = tf.where(is_sentence, keys, keys.dtype.max)
    order = tf.argsort(keys, axis=1, stable=True)
    places = tf.argsort(order, axis=1)
    return tf.where(is_shuffled[:, tf.newaxis], places, in_gold_order)


def _draws(streams: tf.Tensor, purpose: int, count: int | tf.Tensor) -> tf.Tensor:
    streams = randomness.extend_key(streams, purpose)
    return randomness.uniform_floats(randomness.uniform_integers_like(streams, count))
