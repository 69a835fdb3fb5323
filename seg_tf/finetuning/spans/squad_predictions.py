"""Logits of windows' pieces, and the answers that they rank best.

Shape key: B batch, N positions or candidates that a pointer may point at, W windows,
K pieces of all windows.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from seg_tf.finetuning.spans.span_batches import SpanExamples
from seg_tf.finetuning.trials.divergence import check_finite
from seg_tf.layouts.contexts import Windows
from seg_tf.layouts.spans import (
    best_spans,
    best_window_per_question,
    check_answer_sizes,
)
from seg_tf.tasks.squad.answers import Candidate, RankedAnswers

# No gradients, so that twice the rows of training fit.
_BATCH_SIZE = 64
# Spans of so many questions are compared at once.
_QUESTIONS_AT_ONCE = 256
_NUMBERS, _LOGITS = (tf.TensorSpec([None], dtype) for dtype in (tf.int32, tf.float64))
# Contexts of questions, fields of windows, logits for start and end.
_SPAN_SPECS = (_NUMBERS, (_NUMBERS, _NUMBERS, _NUMBERS), _LOGITS, _LOGITS)
# Fields of the best spans, the number of them first.
_COLUMNS = ("counts", "starts", "ends", "start_logits", "end_logits")


@dataclasses.dataclass(frozen=True, eq=False)
class Predictions:
    """Logits of windows, and the loss.

    Attributes:
        start: float array `(K,)`, logit of each piece of the windows, in their order,
            to be the first of the answer; `end`, likewise to be the last.
        null: float array `(W, 2)`, start and end logit of there being no answer, those
            of `[CLS]`.
        loss: mean over the windows of what training makes small, the sum of the
            losses of all pointers.
    """

    start: np.ndarray
    end: np.ndarray
    null: np.ndarray
    loss: float


class WindowPredictor:
    """Asks models about the same windows; those of about one length share a batch.

    Args:
        examples: the windows.
    """

    def __init__(self, examples: SpanExamples):
        lengths = examples.windows.lengths().numpy()
        self._order = examples.in_order_of_length()
        # The pieces of all windows, in the order in which models are asked.
        begins = np.cumsum(lengths) - lengths
        of_window = zip(begins[self._order], lengths[self._order], strict=True)
        self._pieces = np.concatenate(
            [np.arange(begin, begin + length) for begin, length in of_window]
        )
        self._batches = examples.batches(
            _BATCH_SIZE, with_labels=True, order=self._order
        )

    def __call__(self, model: keras.Model) -> Predictions:
        """Asks a model about all windows.

        A pointer to sentences counts in the loss alone: it is there for what the
        encoder learns by it, and the paper has no use of it for answers (SLM, section
        2.2).

        Args:
            model: a `SpanExtractor`.

        Raises:
            TrainingDiverged: if logits are not finite.
        """
        found: dict[str, list[np.ndarray]] = {"start": [], "end": [], "null": []}
        loss = 0.0
        for batch, labels in self._batches:
            outputs = model.predict_on_batch(batch)
            are_finite = [np.isfinite(one).all(axis=1) for one in outputs.values()]
            check_finite(np.all(are_finite, axis=0), "windows of a batch of SQuAD")
            loss += _sum_of_losses(outputs, labels)
            is_piece = batch["can_answer"].numpy()[:, 1:]
            for name in ("start", "end"):
                found[name].append(outputs[name][:, 1:][is_piece])
            found["null"].append(
                np.stack([outputs[name][:, 0] for name in ("start", "end")], axis=1)
            )
        logits = {name: np.concatenate(parts) for name, parts in found.items()}
        in_order = {name: np.empty_like(values) for name, values in logits.items()}
        for name, values in logits.items():
            places = self._order if name == "null" else self._pieces
            in_order[name][places] = values
        return Predictions(**in_order, loss=loss / len(self._order))


class AnswerRanker:
    """Finds the best answers to the same questions, in the words of their contexts.

    Args:
        examples: the windows of all questions.
        identifiers: of the questions.
        contexts: the texts of `examples.contexts`.
        has_null: whether there may be no answer (version 2.0).
        num_best: how many answers are wanted; there are fewer if the windows do not
            have as many.
        max_answer_pieces: the longest answer.

    Raises:
        ValueError: if no answer is wanted, or the longest has no piece.
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
        self._asked = examples.questions.contexts.numpy().tolist()
        self._contexts = contexts
        self._has_null = has_null

        @tf.function(input_signature=_SPAN_SPECS, autograph=False)
        def best(
            asked: tf.Tensor,
            windows: Sequence[tf.Tensor],
            start_logits: tf.Tensor,
            end_logits: tf.Tensor,
        ) -> dict[str, tf.Tensor]:
            found = best_spans(
                examples.contexts,
                asked,
                Windows(*windows),
                start_logits,
                end_logits,
                num_best=num_best,
                max_answer_pieces=max_answer_pieces,
            )
            return vars(found)

        self._best = best

    def __call__(self, predictions: Predictions) -> list[RankedAnswers]:
        """The best answers to each question.

        Args:
            predictions: the logits of the windows.
        """
        windows, num_questions = self._examples.windows, len(self._identifiers)
        nulls = predictions.null.astype(np.float64)
        scores = nulls.sum(axis=1)
        surest = best_window_per_question(windows, scores, num_questions).numpy()
        first_windows = np.searchsorted(windows.questions, np.arange(num_questions + 1))
        first_pieces = np.append(0, np.cumsum(windows.lengths()))
        ranked = []
        for begin in range(0, num_questions, _QUESTIONS_AT_ONCE):
            end = min(begin + _QUESTIONS_AT_ONCE, num_questions)
            shown = slice(*first_windows[[begin, end]].tolist())
            pieces = slice(*first_pieces[[shown.start, shown.stop]].tolist())
            with tf.device("CPU"):
                found = self._best(
                    self._examples.questions.contexts[begin:end],
                    (
                        windows.questions[shown] - begin,
                        windows.starts[shown],
                        windows.stops[shown],
                    ),
                    tf.constant(predictions.start[pieces], tf.float64),
                    tf.constant(predictions.end[pieces], tf.float64),
                )
            columns = [found[name].numpy().tolist() for name in _COLUMNS]
            for number, *of_question in zip(range(begin, end), *columns, strict=True):
                null = Candidate("", *nulls[surest[number]].tolist())
                ranked.append(self._ranked(number, null, *of_question))
        return ranked

    def _ranked(
        self, number: int, null: Candidate, count: int, *columns: Sequence[float]
    ) -> RankedAnswers:
        text = self._contexts[self._asked[number]]
        best = itertools.islice(zip(*columns, strict=True), count)
        return RankedAnswers(
            self._identifiers[number],
            tuple(Candidate(text[begin:end], *logits) for begin, end, *logits in best),
            null if self._has_null else None,
        )


def _sum_of_losses(
    outputs: Mapping[str, np.ndarray], labels: Mapping[str, tf.Tensor]
) -> float:
    """Cross-entropy of each pointer, summed over pointers and windows."""
    total = 0.0
    for name, places_B in labels.items():
        logits_BN = outputs[name].astype(np.float64)
        right_B = np.take_along_axis(logits_BN, places_B.numpy()[:, None], axis=1)[:, 0]
        total += float((np.logaddexp.reduce(logits_BN, axis=1) - right_B).sum())
    return total
