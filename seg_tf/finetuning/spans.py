"""Questions about contexts as batches of windows, and the answers that a model ranks.

Shape key: W windows, L row length, N positions or candidates that a pointer may point
at, K pieces of all windows.
"""

import itertools
from collections.abc import Mapping, Sequence
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
    best_window_per_question,
    check_answer_sizes,
    span_rows,
    span_trees,
)
from seg_tf.tasks.squad import Candidate, RankedAnswers

# Without gradients, twice the rows of training fit into memory.
_BATCH_SIZE = 64
# Spans of this many questions are compared at once.
_QUESTIONS_AT_ONCE = 256
_NUMBERS, _LOGITS = (tf.TensorSpec([None], dtype) for dtype in (tf.int32, tf.float64))


class SpanExamples:
    """The windows in which questions are read, for batches of any size and order.

    Rows are laid out batch by batch, in a graph on the CPU.

    Args:
        pretrained: a BERT, BERT with P.S., SegaBERT, SLM or a mixture.
        contexts: the texts that the questions are about.
        questions: at least one; a window of each holds a piece.
        sizes: of the windows.
        answers: first and last piece of the answer to each question, int32 `(Q,)`
            each, counted through all contexts; the last is before the first where there
            is none. None if there are no answers.

    Attributes:
        windows: those of a question are adjacent, in the order of the context.

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
            self.answers = tuple(tf.constant(of_each, tf.int32) for of_each in answers)
            self.windows = make_windows(contexts, questions, sizes)
            self._row_shapes = self._shapes(sizes)
        self._make_rows = tf.function(
            self._rows,
            input_signature=[tf.TensorSpec([None], tf.int32)] * 2,
            autograph=False,
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
            batch_size: windows of a batch; the last one may have fewer.
            with_labels: whether to add the labels: positions `start` and `end` and, for
                a model of sentences, `sentence`, the candidate whose sentence the
                answer starts in. Without an answer all are 0, as is the position of
                `[CLS]`.
            seed: of the order; None keeps the order of the windows.
            order: numbers of the windows to take; None takes all.

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
        shown = self.windows.take(numbers)
        num_columns = None
        if self._layout.sent_id is not None:
            num_columns = row_shape[1] - NUM_SPECIAL_TOKENS
        trees = span_trees(self.contexts, self.questions, shown, num_columns)
        rows = span_rows(trees, self._layout, row_shape[0])
        answers = (tf.gather(values, shown.questions) for values in self.answers)
        return self._layout.read_features(rows), answer_labels(rows, shown, *answers)

    def _shapes(self, sizes: WindowSizes) -> np.ndarray:
        """The smallest row that holds each window, `(W, R)`, as for `row_batches`."""
        num_asked = tf.gather(self.questions.num_pieces(), self.windows.questions)
        num_sentences = self.windows.num_sentences(self.contexts)
        num_tokens = sizes.num_tokens(num_asked, self.windows.lengths(), num_sentences)
        buckets = [
            bucket_length(one, sizes.max_length) for one in num_tokens.numpy().tolist()
        ]
        shapes = [np.array(buckets)]
        if self._layout.sent_id is not None:
            # The question is a sentence.
            shapes.append(1 + num_sentences.numpy() + NUM_SPECIAL_TOKENS)
        return np.stack(shapes, axis=1)


class AnswerRanker:
    """Asks models about the same windows, and ranks spans of the contexts as answers.

    Args:
        examples: the windows of all questions.
        identifiers: of the questions.
        contexts: the texts of `examples.contexts`, from which answers are cut.
        has_null: whether there may be no answer (version 2.0).
        num_best: answers to a question; fewer if the windows have fewer.
        max_answer_pieces: the longest answer.

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
        contexts: Sequence[str],
        *,
        has_null: bool,
        num_best: int = 20,
        max_answer_pieces: int = 30,
    ):
        check_answer_sizes(num_best, max_answer_pieces)
        self._examples = examples
        self._identifiers = identifiers
        self._texts = [contexts[one] for one in examples.questions.contexts.numpy()]
        self._has_null = has_null
        # Windows of about one length share a batch.
        self._order = examples.in_order_of_length()
        self._batches = examples.batches(
            _BATCH_SIZE, with_labels=True, order=self._order
        )
        lengths = examples.windows.lengths().numpy()
        begins = np.cumsum(lengths) - lengths
        # The pieces of all windows, in the order in which models are asked.
        self._pieces = np.concatenate(
            [np.arange(begins[one], begins[one] + lengths[one]) for one in self._order]
        )

        @tf.function(
            input_signature=(_NUMBERS, (_NUMBERS,) * 3, _LOGITS, _LOGITS),
            autograph=False,
        )
        def best(
            asked: tf.Tensor,
            windows: Sequence[tf.Tensor],
            start_logits: tf.Tensor,
            end_logits: tf.Tensor,
        ) -> dict[str, tf.Tensor]:
            spans = best_spans(
                examples.contexts,
                asked,
                Windows(*windows),
                start_logits,
                end_logits,
                num_best=num_best,
                max_answer_pieces=max_answer_pieces,
            )
            return vars(spans)

        self._best = best

    def __call__(self, model: keras.Model) -> tuple[list[RankedAnswers], float]:
        logits, loss = self.predict(model)
        return self.rank(logits), loss

    def rank(self, logits: Mapping[str, np.ndarray]) -> list[RankedAnswers]:
        """The best answers to each question, from what `predict` returned."""
        windows, num_questions = self._examples.windows, len(self._identifiers)
        nulls = logits["null"].astype(np.float64)
        surest = best_window_per_question(
            windows, nulls.sum(axis=1), num_questions
        ).numpy()
        first_windows = np.searchsorted(windows.questions, np.arange(num_questions + 1))
        first_pieces = np.append(0, np.cumsum(windows.lengths()))
        ranked = []
        for begin in range(0, num_questions, _QUESTIONS_AT_ONCE):
            end = min(begin + _QUESTIONS_AT_ONCE, num_questions)
            shown = slice(*first_windows[[begin, end]].tolist())
            pieces = slice(*first_pieces[[shown.start, shown.stop]].tolist())
            with tf.device("CPU"):
                spans = self._best(
                    self._examples.questions.contexts[begin:end],
                    (
                        windows.questions[shown] - begin,
                        windows.starts[shown],
                        windows.stops[shown],
                    ),
                    tf.constant(logits["start"][pieces], tf.float64),
                    tf.constant(logits["end"][pieces], tf.float64),
                )
            counts, *columns = (
                spans[name].numpy().tolist()
                for name in ("counts", "starts", "ends", "start_logits", "end_logits")
            )
            for number, count, *of_question in zip(
                range(begin, end), counts, *columns, strict=True
            ):
                text = self._texts[number]
                best = itertools.islice(zip(*of_question, strict=True), count)
                null = Candidate("", *nulls[surest[number]].tolist())
                ranked.append(
                    RankedAnswers(
                        self._identifiers[number],
                        tuple(
                            Candidate(text[one:two], *rest) for one, two, *rest in best
                        ),
                        null if self._has_null else None,
                    )
                )
        return ranked

    def predict(self, model: keras.Model) -> tuple[dict[str, np.ndarray], float]:
        """Logits of all windows, in their order, and the loss.

        A pointer to sentences counts only in the loss: it is there for what the encoder
        learns from it, and the paper does not use it for answers (SLM, section 2.2).

        Returns:
            `start` and `end`, float arrays `(K,)`; `null`, float array `(W, 2)`, start
            and end logit of `[CLS]`; and the loss.
        """
        parts: dict[str, list[np.ndarray]] = {"start": [], "end": [], "null": []}
        loss = 0.0
        for batch, labels in self._batches:
            outputs = model.predict_on_batch(batch)
            are_finite = [np.isfinite(one).all(axis=1) for one in outputs.values()]
            check_finite(np.all(are_finite, axis=0), "windows of a batch of SQuAD")
            for name, places_W in labels.items():
                logits_WN = outputs[name].astype(np.float64)
                at_W = np.take_along_axis(logits_WN, places_W.numpy()[:, None], axis=1)
                loss += float(
                    np.sum(np.logaddexp.reduce(logits_WN, axis=1) - at_W[:, 0])
                )
            is_piece = batch["can_answer"].numpy()[:, 1:]
            for name in ("start", "end"):
                parts[name].append(outputs[name][:, 1:][is_piece])
            parts["null"].append(
                np.stack([outputs[name][:, 0] for name in ("start", "end")], axis=1)
            )
        logits = {}
        for name, values in parts.items():
            joined = np.concatenate(values)
            logits[name] = np.empty_like(joined)
            logits[name][self._order if name == "null" else self._pieces] = joined
        return logits, loss / len(self._order)
