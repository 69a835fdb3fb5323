"""Questions about contexts as batches: where an answer may be, and where it is."""

from typing import Any

import numpy as np
import tensorflow as tf

from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.finetuning.row_batches import row_batches
from seg_tf.layouts.contexts import Contexts, Questions, WindowSizes, make_windows
from seg_tf.layouts.rows import NUM_SPECIAL_TOKENS, bucket_length
from seg_tf.layouts.spans import answer_labels, span_rows, span_trees


class SpanExamples:
    """The windows that questions are read in, for batches of any size and order.

    Rows are laid out batch by batch, in a graph on the CPU.

    Args:
        pretrained: a BERT, BERT with P.S., SegaBERT, SLM or a mixture.
        contexts: what is asked about.
        questions: what is asked, at least one; a window of each holds a piece.
        sizes: of the windows.
        answers: first and last piece of the answer to each question, int32 `(Q,)`
            each, counted through all contexts; the last is before the first where there
            is none. None has none.

    Attributes:
        contexts: as above.
        questions: likewise.
        answers: first and last piece of the answer to each, as above.
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
        """Numbers of the windows, such that those of rows of one shape are adjacent."""
        return np.lexsort(self._row_shapes.T[::-1])

    def batches(
        self,
        batch_size: int,
        *,
        with_labels: bool,
        seed: int | None = None,
        order: np.ndarray | None = None,
    ) -> tf.data.Dataset:
        """Batches for a `SpanExtractor`, in an order as that of `text_batches`.

        Args:
            batch_size: windows of a batch; the last one may have fewer.
            with_labels: whether the answers are given as well: positions `start` and
                `end` and, for a model of sentences, `sentence`, the candidate whose
                sentence the answer starts in. Where there is no answer, all are 0, as
                is the position of `[CLS]`.
            seed: of the order; None gives the windows in order.
            order: numbers of the windows that are given; None gives all.

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
            features = {name: values.numpy() for name, values in rows.items()}
            if not with_labels:
                return features
            return features, {name: values.numpy() for name, values in labels.items()}

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
        of_each = (tf.gather(values, shown.questions) for values in self.answers)
        return (
            self._layout.read_features(rows),
            answer_labels(rows, shown, *of_each),
        )

    def _shapes(self, sizes: WindowSizes) -> np.ndarray:
        """The smallest row that takes each window, `(W, R)`, as of `row_batches`."""
        num_asked = tf.gather(self.questions.num_pieces(), self.windows.questions)
        num_sentences = self.windows.num_sentences(self.contexts)
        num_tokens = sizes.num_tokens(num_asked, self.windows.lengths(), num_sentences)
        numbers, of_each = np.unique(num_tokens.numpy(), return_inverse=True)
        buckets = [
            bucket_length(number, sizes.max_length) for number in numbers.tolist()
        ]
        shapes = [np.array(buckets)[of_each]]
        if self._layout.sent_id is not None:
            # The question is a sentence.
            shapes.append(1 + num_sentences.numpy() + NUM_SPECIAL_TOKENS)
        return np.stack(shapes, axis=1)
