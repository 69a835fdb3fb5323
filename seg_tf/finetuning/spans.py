"""Questions about contexts as batches of windows, and the answers of a model.

Shape key: W windows, L row length, N positions or candidates that a pointer may point
at, K pieces of all windows.
"""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.finetuning.batches import row_batches
from seg_tf.finetuning.trials import check_finite
from seg_tf.layouts.contexts import (
    Contexts,
    Questions,
    Windows,
    WindowSizes,
    make_windows,
)
from seg_tf.layouts.rows import NUM_SPECIAL_TOKENS, bucket_length
from seg_tf.layouts.spans import (
    answer_labels,
    best_spans,
    check_answer_sizes,
    span_rows,
    span_trees,
)
from seg_tf.tasks.squad import Candidate, RankedAnswers

# Without gradients, twice the rows of training fit into memory.
_BATCH_SIZE = 64
# Spans of this many questions are compared at once.
_QUESTIONS_AT_ONCE = 256
_NUMBERS = tf.TensorSpec([None], tf.int32)
_LOGITS = tf.TensorSpec([None], tf.float64)
_PAIRS = tf.TensorSpec([None, 2], tf.float64)


class SpanExamples:
    """The windows in which questions are read, for batches of any size and order.

    Rows are laid out batch by batch, in a graph on the CPU.

    Args:
        pretrained: a BERT, BERT with P.S., SegaBERT, SLM or a mixture.
        contexts: the texts that the questions are about.
        questions: at least one; a window of each holds a piece.
        sizes: sizes of the windows.
        answers: first and last piece of the answer to each question, int32 `(Q,)`
            each, counted through all contexts; the last is before the first where there
            is none. None if there are no answers.

    Attributes:
        windows: the windows of a question are adjacent, in the order of the context.

    Raises:
        ValueError: if there is no question, the model is another one, or it embeds
            fewer positions.
    """

    def __init__(
        self,
        pretrained: Pretrained,
        contexts: Contexts,
        questions: Questions,
        sizes: WindowSizes,
        answers: tuple[np.ndarray, np.ndarray] | None = None,
    ):
        if not len(questions.contexts):
            raise ValueError("`questions` must not be empty. Received: no question")
        self._layout = pretrained.layout(sizes.max_length, for_spans=True)
        self.contexts = contexts
        self.questions = questions
        if answers is None:
            none = np.zeros(len(questions.contexts), np.int32)
            answers = (none, none - 1)
        with tf.device("CPU"):
            self.answers = tuple(tf.constant(pieces, tf.int32) for pieces in answers)
            self.windows = make_windows(contexts, questions, sizes)
            num_asked = tf.gather(questions.num_pieces(), self.windows.questions)
            num_sentences = self.windows.num_sentences(contexts)
            num_tokens = sizes.num_tokens(
                num_asked, self.windows.lengths(), num_sentences
            )
        # The smallest row that holds each window.
        lengths = num_tokens.numpy().tolist()
        row_shapes = [[bucket_length(length, sizes.max_length) for length in lengths]]
        if self._layout.sent_id is not None:
            # The question is a sentence.
            row_shapes.append(1 + num_sentences.numpy() + NUM_SPECIAL_TOKENS)
        self._row_shapes = np.stack(row_shapes, axis=1).astype(np.int64)
        self._make_rows = tf.function(
            self._rows, input_signature=[_NUMBERS, _NUMBERS], autograph=False
        )

    def __len__(self) -> int:
        return len(self.windows.questions)

    def in_order_of_length(self) -> np.ndarray:
        """Numbers of the windows, those with rows of one shape adjacent."""
        return np.lexsort(self._row_shapes.T[::-1])

    def batches(
        self,
        batch_size: int,
        *,
        with_labels: bool,
        seed: int | None = None,
        order: np.ndarray | None = None,
    ) -> tf.data.Dataset:
        """Batches for a `SpanExtractor`, in random order as for `TextExamples`.

        Args:
            batch_size: windows per batch; the last one may have fewer.
            with_labels: whether to add the labels: positions `start` and `end` and, for
                a model of sentences, `sentence`, the candidate whose sentence the
                answer starts in. Without an answer all are 0, the position of `[CLS]`.
            seed: seed of the order; None keeps the order of the windows.
            order: numbers of the windows to use; None uses all.

        Returns:
            Finite dataset of features, or of pairs of features and labels.
        """
        order = np.arange(len(self)) if order is None else order

        def make_batch(numbers: np.ndarray, row_shape: tuple[int, ...]) -> Any:
            with tf.device("CPU"):
                rows, labels = self._make_rows(
                    tf.constant(order[numbers], tf.int32),
                    tf.constant(row_shape, tf.int32),
                )
            batch = (rows, labels) if with_labels else rows
            return keras.tree.map_structure(lambda values: values.numpy(), batch)

        return row_batches(make_batch, self._row_shapes[order], batch_size, seed)

    def _rows(
        self, numbers: tf.Tensor, row_shape: tf.Tensor
    ) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
        """Features and labels of windows in rows of a given shape."""
        windows = self.windows.take(numbers)
        num_columns = None
        if self._layout.sent_id is not None:
            num_columns = row_shape[1] - NUM_SPECIAL_TOKENS
        trees = span_trees(self.contexts, self.questions, windows, num_columns)
        rows = span_rows(trees, self._layout, row_shape[0])
        answers = (tf.gather(pieces, windows.questions) for pieces in self.answers)
        return self._layout.read_features(rows), answer_labels(rows, windows, *answers)


class AnswerRanker:
    """Predicts answers to the questions of `SpanExamples`, with any model.

    Call arguments:
        model: a `SpanExtractor`.

    Returns:
        The best answers to each question; and the loss, the mean over the windows of
        the sum over all pointers.

    Raises:
        ValueError: if `num_best` or `max_answer_pieces` is not positive.
        TrainingDiverged: if logits are not finite.
    """

    def __init__(
        self,
        examples: SpanExamples,
        identifiers: Sequence[str],
        *,
        has_null: bool,
        num_best: int = 20,
        max_answer_pieces: int = 30,
    ):
        check_answer_sizes(num_best, max_answer_pieces)
        self._examples = examples
        self._identifiers = identifiers
        self._has_null = has_null
        # Windows of similar length share a batch.
        self._order = examples.in_order_of_length()
        self._batches = examples.batches(
            _BATCH_SIZE, with_labels=True, order=self._order
        )

        @tf.function(
            input_signature=[*[_NUMBERS] * 4, *[_LOGITS] * 2, _PAIRS], autograph=False
        )
        def rank(contexts: tf.Tensor, *tensors: tf.Tensor) -> dict[str, tf.Tensor]:
            spans = best_spans(
                examples.contexts,
                contexts,
                Windows(*tensors[:3]),
                *tensors[3:],
                num_best=num_best,
                max_answer_pieces=max_answer_pieces,
            )
            return vars(spans)

        self._rank = rank

    def __call__(self, model: keras.Model) -> tuple[list[RankedAnswers], float]:
        logits, loss = self.predict(model)
        return self.rank(*logits), loss

    def predict(self, model: keras.Model) -> tuple[tuple[np.ndarray, ...], float]:
        """Logits of all windows, and the loss.

        A pointer to sentences counts only in the loss: it is there for what the encoder
        learns from it, and the paper does not use it for answers (SLM, section 2.2).

        Returns:
            Start and end logits of pieces, float64 `(K,)` each, and of `[CLS]`, float64
            `(W, 2)`, in the order of the windows; and the loss.
        """
        lengths = self._examples.windows.lengths().numpy()
        ends = np.cumsum(lengths)
        piece_logits = np.zeros((2, ends[-1]))
        null_logits = np.zeros((len(lengths), 2))
        loss, num_done = 0.0, 0
        for batch, labels in self._batches:
            outputs = model.predict_on_batch(batch)
            are_finite = [
                np.isfinite(logits).all(axis=1) for logits in outputs.values()
            ]
            check_finite(np.all(are_finite, axis=0), "windows of a batch of SQuAD")
            for name, places_W in labels.items():
                logits_WN = outputs[name].astype(np.float64)
                at_W = np.take_along_axis(logits_WN, places_W.numpy()[:, None], axis=1)
                loss += float(
                    np.sum(np.logaddexp.reduce(logits_WN, axis=1) - at_W[:, 0])
                )
            is_piece = batch["can_answer"].numpy()[:, 1:]
            windows = self._order[num_done : num_done + len(is_piece)]
            num_done += len(windows)
            pieces = np.concatenate(
                [
                    np.arange(ends[window] - lengths[window], ends[window])
                    for window in windows
                ]
            )
            for number, name in enumerate(("start", "end")):
                piece_logits[number, pieces] = outputs[name][:, 1:][is_piece]
                null_logits[windows, number] = outputs[name][:, 0]
        return (*piece_logits, null_logits), loss / len(lengths)

    def rank(
        self, starts: np.ndarray, ends: np.ndarray, nulls: np.ndarray
    ) -> list[RankedAnswers]:
        """The best answers to each question, from the logits of `predict`."""
        windows, num_questions = self._examples.windows, len(self._identifiers)
        first_windows = np.searchsorted(windows.questions, np.arange(num_questions + 1))
        first_pieces = np.append(0, np.cumsum(windows.lengths()))
        ranked = []
        for begin in range(0, num_questions, _QUESTIONS_AT_ONCE):
            end = min(begin + _QUESTIONS_AT_ONCE, num_questions)
            rows = slice(*first_windows[[begin, end]].tolist())
            pieces = slice(*first_pieces[[rows.start, rows.stop]].tolist())
            with tf.device("CPU"):
                spans = self._rank(
                    self._examples.questions.contexts[begin:end],
                    windows.questions[rows] - begin,
                    windows.starts[rows],
                    windows.stops[rows],
                    tf.constant(starts[pieces]),
                    tf.constant(ends[pieces]),
                    tf.constant(nulls[rows]),
                )
            spans = {name: values.numpy() for name, values in spans.items()}
            for row, identifier in enumerate(self._identifiers[begin:end]):
                count = spans["counts"][row]
                texts, *logits = (
                    spans[name][row, :count].tolist()
                    for name in ("texts", "start_logits", "end_logits")
                )
                candidates = (
                    Candidate(text.decode(), *pair)
                    for text, *pair in zip(texts, *logits, strict=True)
                )
                null = Candidate("", *spans["null_logits"][row].tolist())
                ranked.append(
                    RankedAnswers(
                        identifier, tuple(candidates), null if self._has_null else None
                    )
                )
        return ranked
