"""Batches windows of contexts with their questions, and ranks predicted answers.

Shape key: B windows of a batch, W windows, Q questions, K word pieces, N positions or
candidates of a pointer.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.finetuning.batches import row_batches, utf8
from seg_tf.finetuning.trials import check_finite
from seg_tf.layouts.contexts import Contexts, Questions, Windows, make_windows
from seg_tf.layouts.rows import NUM_SPECIAL_TOKENS, bucket_length
from seg_tf.layouts.spans import (
    answer_labels,
    best_spans,
    check_answer_sizes,
    span_rows,
    span_trees,
)
from seg_tf.preprocessing import SpanPreprocessor, window_sizes
from seg_tf.tasks.squad import Answer, Candidate, RankedAnswers, SquadFile

_CONTEXTS_AT_ONCE = 256
_QUESTIONS_AT_ONCE = 32
_NUMBERS = tf.TensorSpec([None], tf.int32)
_LOGITS = tf.TensorSpec([None], tf.float64)
_PAIRS = tf.TensorSpec([None, 2], tf.float64)


class SpanExamples:
    """Questions with windows of their contexts, batched for a `SpanExtractor`.

    Texts are encoded once. Rows are laid out batch by batch, in a graph on the CPU.
    `len` returns the number of windows. Raises a ValueError if the model cannot read
    spans, if a size is invalid, or if a context has no word pieces.

    Args:
        pretrained: `Pretrained` that can read spans: a BERT, SegaBERT or SLM.
        data: `SquadFile`. The label of a question is the first of its answers.
        **sizes: keyword arguments of `window_sizes`.

    Attributes:
        windows: `Windows` of all questions, ordered by question and position.
        answers: two int32 tensors `(Q,)`, the indices of the first and last word piece
            of each answer in the pieces of all contexts. If there is no answer, the
            last index is less than the first.
    """

    def __init__(self, pretrained: Pretrained, data: SquadFile, **sizes: int | None):
        self.data = data
        preprocessor = SpanPreprocessor(pretrained, window_sizes(pretrained, **sizes))
        self.sizes, self._layout = preprocessor.sizes, preprocessor.layout
        passages = [passage for passage in data.passages if passage.questions]
        contexts, questions = [], []
        with tf.device("CPU"):
            for begin in range(0, len(passages), _CONTEXTS_AT_ONCE):
                some = passages[begin : begin + _CONTEXTS_AT_ONCE]
                texts = [utf8(passage.context) for passage in some]
                contexts.append(preprocessor.contexts(tf.constant(texts)))
                texts = [
                    utf8(question.text)
                    for passage in some
                    for question in passage.questions
                ]
                questions.append(preprocessor.questions(tf.constant(texts)))
            self.contexts = Contexts.joined(contexts)
            counts = [len(passage.questions) for passage in passages]
            self.questions = Questions(
                tf.concat([chunk.pieces for chunk in questions], axis=0),
                tf.constant(np.repeat(np.arange(len(passages)), counts), tf.int32),
                tf.concat([chunk.is_cut for chunk in questions], axis=0),
            )
            for number in np.flatnonzero(self.contexts.num_pieces() == 0):
                raise ValueError(
                    "A context must have a word piece. Received: that of question "
                    f"{passages[number].questions[0].identifier!r}"
                )
            answers = [
                (*question.answers, Answer("", 0))[0] for question in data.questions()
            ]
            self.answers = self.contexts.spans(
                self.questions.contexts,
                tf.constant([answer.start for answer in answers], tf.int32),
                tf.constant([answer.stop for answer in answers], tf.int32),
            )
            self.windows = make_windows(self.contexts, self.questions, self.sizes)
            num_asked = tf.gather(self.questions.num_pieces(), self.windows.questions)
            num_sentences = self.windows.num_sentences(self.contexts)
            num_tokens = self.sizes.num_tokens(
                num_asked, self.windows.lengths(), num_sentences
            )
        # The smallest row that holds each window.
        most = self.sizes.max_length
        row_shapes = [
            [bucket_length(size, most) for size in num_tokens.numpy().tolist()]
        ]
        if self._layout.sent_id is not None:
            # The question is a sentence.
            row_shapes.append(1 + num_sentences.numpy() + NUM_SPECIAL_TOKENS)
        self._row_shapes = np.stack(row_shapes, axis=1).astype(np.int64)
        self._make_rows = tf.function(
            self._rows, input_signature=[_NUMBERS, _NUMBERS], autograph=False
        )

    def __len__(self) -> int:
        return len(self.windows.questions)

    def batches(self, batch_size: int, seed: int | None = None) -> tf.data.Dataset:
        """Returns a finite dataset of features and labels. With a seed, it is shuffled.

        The labels are int32 `(B,)`: the positions `start` and `end` and, for SLM, the
        candidate number `sentence` of the sentence in which the answer starts. Unless
        the window contains the whole answer, they are 0, which means `[CLS]`.
        """
        return row_batches(self.make_batch, self._row_shapes, batch_size, seed)

    def make_batch(
        self, numbers: np.ndarray, row_shape: tuple[int, ...] | None = None
    ) -> Any:
        """Returns the features and labels of windows, as two dicts of arrays.

        `numbers` are window indices `(B,)`. `row_shape` is the row length and, for SLM,
        the number of candidates per row. By default, they are chosen to fit.
        """
        if row_shape is None:
            row_shape = tuple(self._row_shapes[numbers].max(axis=0))
        with tf.device("CPU"):
            batch = self._make_rows(
                tf.constant(numbers, tf.int32), tf.constant(row_shape, tf.int32)
            )
        return keras.tree.map_structure(lambda values: values.numpy(), batch)

    def _rows(
        self, numbers: tf.Tensor, row_shape: tf.Tensor
    ) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
        windows = self.windows.take(numbers)
        num_columns = None
        if self._layout.sent_id is not None:
            num_columns = row_shape[1] - NUM_SPECIAL_TOKENS
        trees = span_trees(self.contexts, self.questions, windows, num_columns)
        rows = span_rows(trees, self._layout, row_shape[0])
        answers = (tf.gather(pieces, windows.questions) for pieces in self.answers)
        return self._layout.read_features(rows), answer_labels(rows, windows, *answers)


class AnswerRanker:
    """Predicts answers to the questions of `SpanExamples` with a `SpanExtractor`.

    A call with a model returns a list of `RankedAnswers`, one per question, and the
    loss, summed over pointers and averaged over windows. It raises `TrainingDiverged`
    if logits are not finite. The pointer to sentences, an auxiliary task (SLM, section
    2.2), affects only the loss. A question has at most `num_best` answers, of at most
    `max_answer_pieces` word pieces. Raises a ValueError if either is less than 1.
    """

    def __init__(
        self, examples: SpanExamples, *, num_best: int = 20, max_answer_pieces: int = 30
    ):
        check_answer_sizes(num_best, max_answer_pieces)
        self._examples = examples

        @tf.function(
            input_signature=[*[_NUMBERS] * 4, *[_LOGITS] * 2, _PAIRS], autograph=False
        )
        def best(contexts: tf.Tensor, *tensors: tf.Tensor) -> dict[str, tf.Tensor]:
            spans = best_spans(
                examples.contexts,
                contexts,
                Windows(*tensors[:3]),
                *tensors[3:],
                num_best=num_best,
                max_answer_pieces=max_answer_pieces,
            )
            return vars(spans)

        self._best = best

    def __call__(self, model: keras.Model) -> tuple[list[RankedAnswers], float]:
        identifiers = [
            question.identifier for question in self._examples.data.questions()
        ]
        questions = self._examples.windows.questions.numpy()
        ranked, loss = [], 0.0
        for begin in range(0, len(identifiers), _QUESTIONS_AT_ONCE):
            some = identifiers[begin : begin + _QUESTIONS_AT_ONCE]
            rows = np.flatnonzero(
                (questions >= begin) & (questions < begin + len(some))
            )
            features, labels = self._examples.make_batch(rows)
            outputs = model.predict_on_batch(features)
            for name, places_W in labels.items():
                logits_WN = outputs[name].astype(np.float64)
                check_finite(logits_WN, "windows of SQuAD")
                at_W = np.take_along_axis(logits_WN, places_W[:, None], axis=1)[:, 0]
                loss += float(np.sum(np.logaddexp.reduce(logits_WN, axis=1) - at_W))
            is_piece = features["can_answer"][:, 1:]
            logits = [outputs[name].astype(np.float64) for name in ("start", "end")]
            starts, ends = (values[:, 1:][is_piece] for values in logits)
            nulls = np.stack([values[:, 0] for values in logits], axis=1)
            ranked += self.rank(some, begin, rows, starts, ends, nulls)
        return ranked, loss / len(questions)

    def rank(
        self,
        identifiers: list[str],
        begin: int,
        rows: np.ndarray,
        starts: np.ndarray,
        ends: np.ndarray,
        nulls: np.ndarray,
    ) -> list[RankedAnswers]:
        """Returns the best answers to consecutive questions, from question `begin`.

        `identifiers` are the ids of the questions. `rows` are the indices of their W
        windows. `starts` and `ends`, float64 `(K,)`, are the logits of the windows'
        context pieces. `nulls`, float64 `(W, 2)`, are the logits of `[CLS]`.
        """
        windows = self._examples.windows.take(tf.constant(rows, tf.int32))
        with tf.device("CPU"):
            spans = self._best(
                self._examples.questions.contexts[begin : begin + len(identifiers)],
                windows.questions - begin,
                windows.starts,
                windows.stops,
                *map(tf.constant, (starts, ends, nulls)),
            )
        names = ("texts", "start_logits", "end_logits", "counts", "null_logits")
        columns = (spans[name].numpy() for name in names)
        ranked = []
        for identifier, texts, *logits, count, null in zip(
            identifiers, *columns, strict=True
        ):
            candidates = [
                Candidate(text.decode(), float(start), float(end))
                for text, start, end in zip(texts[:count], *logits, strict=False)
            ]
            no_answer = None
            if self._examples.data.has_impossible:
                no_answer = Candidate("", *null.tolist())
            ranked.append(RankedAnswers(identifier, tuple(candidates), no_answer))
        return ranked
