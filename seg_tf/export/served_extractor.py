"""A fine-tuned span extractor as a signature of a SavedModel.

Shape key: B questions, W windows, L row length, N answers of a question.
"""

from collections.abc import Mapping

import keras
import tensorflow as tf

from seg_tf import features as batch_contract
from seg_tf.export.served_model import ServedModel, checked
from seg_tf.layouts.spans import (
    best_spans,
    best_window_per_question,
    check_answer_sizes,
)
from seg_tf.preprocessing.span_preprocessor import QuestionRows, SpanPreprocessor

# Of a long context not all windows are in memory.
_WINDOWS_AT_ONCE = 32


class ServedExtractor(ServedModel):
    """A model that answers questions by spans of contexts.

    Signatures:
        serving_default: from `question` and `context`, string `(B,)`. Windows of the
            context are read, and the answer chosen, as in fine-tuning on SQuAD.
        encode_ids: from the features of rows: the logits `start` and `end`, float32
            `(B, L)`.

    Outputs:
        answer: string `(B,)`, characters of the context as they stand there; with a
            `null_threshold` "" where the odds of no answer are above it.
        start: int32 `(B,)`, the first character of the best span, in Unicode code
            points of the context, and `end`, the one after its last. Both are 0 where
            a context has no word piece.
        score: float32 `(B,)`, the sum of its two logits.
        is_cut: bool `(B,)`, whether not all of the question was read.
        span: string `(B,)`, the best span, whatever the odds; with a `null_threshold`
            alone.
        null_odds: float32 `(B,)`, the score of no answer less that of the best span;
            likewise.
        n_best_answers, n_best_starts, n_best_ends, n_best_scores: `(B, N)`, the best
            spans with texts of their own, if more than one is wanted.

    Args:
        extractor: a `SpanExtractor`.
        preprocessor: what makes rows for it.
        max_answer_pieces: the longest answer.
        num_best: N.
        null_threshold: odds above which there is no answer; None where there always is
            one (SQuAD 1.1).

    Raises:
        ValueError: if the longest answer, or N, is none.
    """

    def __init__(
        self,
        extractor: keras.Model,
        preprocessor: SpanPreprocessor,
        *,
        max_answer_pieces: int = 30,
        num_best: int = 1,
        null_threshold: float | None = None,
    ):
        super().__init__()
        check_answer_sizes(num_best, max_answer_pieces)
        self.hold(extractor)
        self._preprocessor = preprocessor
        self._num_best = num_best
        self._max_answer_pieces = max_answer_pieces
        self._null_threshold = null_threshold
        texts = [
            tf.TensorSpec([None], tf.string, name) for name in ("question", "context")
        ]
        self.rows_of_texts = lambda asked: preprocessor.read(asked, asked).features

        # Not a method: a SavedModel would take all of the model along.
        @tf.function(input_signature=texts, autograph=False)
        def answer(question: tf.Tensor, context: tf.Tensor) -> Mapping[str, tf.Tensor]:
            read = self._preprocessor.read(question, context)
            return self._answers(read, _logits(extractor, read.features))

        @tf.function(autograph=False)
        def point(**features: tf.Tensor) -> Mapping[str, tf.Tensor]:
            return _pointers(extractor, checked(features, extractor.encoder))

        specs = batch_contract.tensor_specs(
            _names(extractor), dict.fromkeys(("B", "L"))
        )
        self.functions = {
            "serving_default": answer,
            "encode_ids": point.get_concrete_function(
                **{name: tf.TensorSpec(*spec, name) for name, spec in specs.items()}
            ),
        }

    def _answers(
        self, read: QuestionRows, logits: Mapping[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        """The outputs of `serving_default`."""
        is_piece = read.features["can_answer"][:, 1:]
        found = best_spans(
            read.contexts,
            read.questions.contexts,
            read.windows,
            *(
                tf.boolean_mask(logits[name][:, 1:], is_piece)
                for name in ("start", "end")
            ),
            num_best=self._num_best,
            max_answer_pieces=self._max_answer_pieces,
        )
        outputs = {
            "answer": found.texts[:, 0],
            "start": found.starts[:, 0],
            "end": found.ends[:, 0],
            "score": tf.cast(found.scores[:, 0], tf.float32),
            "is_cut": read.questions.is_cut,
        }
        if self._null_threshold is not None:
            of_cls = [
                tf.cast(logits[name][:, 0], tf.float64) for name in ("start", "end")
            ]
            nulls = tf.add_n(of_cls)
            surest = best_window_per_question(
                read.windows, nulls, tf.size(found.counts)
            )
            odds = tf.gather(nulls, surest) - found.scores[:, 0]
            is_null = odds > self._null_threshold
            outputs["span"] = outputs["answer"]
            outputs["null_odds"] = tf.cast(odds, tf.float32)
            outputs["answer"] = tf.where(is_null, "", outputs["span"])
        if self._num_best > 1:
            outputs["n_best_answers"] = found.texts
            outputs["n_best_starts"] = found.starts
            outputs["n_best_ends"] = found.ends
            outputs["n_best_scores"] = tf.cast(found.scores, tf.float32)
        return outputs


def _names(extractor: keras.Model) -> list[str]:
    """Features that the answer depends on."""
    of_sentences = ("candidate_positions", "can_hold_answer")
    return [name for name in extractor.feature_names if name not in of_sentences]


def _pointers(
    extractor: keras.Model, features: Mapping[str, tf.Tensor]
) -> dict[str, tf.Tensor]:
    """Logits of rows.

    A pointer to sentences is there for what the encoder learns by it, and has no say
    in answers: it is given `[CLS]` alone.
    """
    features = {name: features[name] for name in _names(extractor)}
    if extractor.points_at_sentences:
        none = tf.zeros_like(features["token_ids"][:, :1])
        features |= {"candidate_positions": none, "can_hold_answer": none == 0}
    outputs = extractor(features, training=False)
    return {name: tf.cast(outputs[name], tf.float32) for name in ("start", "end")}


def _logits(
    extractor: keras.Model, features: Mapping[str, tf.Tensor]
) -> dict[str, tf.Tensor]:
    """Float32 `(W, L)`: logits of all rows, some at a time."""
    num_windows, row_length = tf.unstack(tf.shape(features["token_ids"]))

    def add_some(
        begin: tf.Tensor, found: dict[str, tf.Tensor]
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        end = begin + _WINDOWS_AT_ONCE
        some = {name: values[begin:end] for name, values in features.items()}
        added = _pointers(extractor, some)
        return end, {name: tf.concat([found[name], added[name]], 0) for name in found}

    of_rows = tf.TensorShape([None, None])
    _, logits = tf.while_loop(
        lambda begin, _: begin < num_windows,
        add_some,
        (
            tf.constant(0),
            {name: tf.zeros([0, row_length]) for name in ("start", "end")},
        ),
        shape_invariants=(tf.TensorShape([]), {"start": of_rows, "end": of_rows}),
    )
    return logits
