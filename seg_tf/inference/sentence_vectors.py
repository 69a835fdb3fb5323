"""Vectors of sentences in context: the normalised output at their `[SENT]`.

Shape key: B rows, C candidates, D hidden size.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.inference import rows
from seg_tf.inference.row_runner import RowRunner, sentence_layout
from seg_tf.inference.texts import Sentence
from seg_tf.ops.gathering import gather_vectors


class SentenceVectors:
    """Encodes sentences together with the sentences before them (SLM, section 5.3).

    The vector of a sentence is the encoder's output at its `[SENT]`, of length 1 and in
    float32, so that inner products of vectors are cosines. Of a sentence that does not
    fit into a row the beginning counts, and sentences before it are left out, the
    farthest first, until the others fit.

    Args:
        pretrained: an SLM.
        context_sentences: the most sentences before the one whose vector is taken.
        **arguments: further arguments of `RowRunner`.

    Raises:
        ValueError: if the model was not trained on rows of sentences, or on so many.
    """

    def __init__(
        self, pretrained: Pretrained, context_sentences: int, **arguments: Any
    ):
        most = sentence_layout(pretrained).max_sentences
        if not 0 <= context_sentences < most:
            raise ValueError(
                f"`context_sentences` must be at least 0 and at most {most - 1}, since "
                f"the model takes {most} sentences at once. Received: "
                f"context_sentences={context_sentences}"
            )
        self._run = RowRunner(
            pretrained,
            _last_sentence,
            max_sentences=context_sentences + 1,
            **arguments,
        )

    def encode(
        self,
        in_context: Sequence[Sequence[Sentence]],
        on_progress: Callable[[int], Any] = bool,
    ) -> tuple[np.ndarray, int]:
        """Vectors of sentences.

        Args:
            in_context: at least one sentence, each last, behind those before it.
            on_progress: called with the number of sentences of each batch.

        Returns:
            float32 array `(number of sentences, D)`, and how many sentences were cut.
        """
        # Neighbours share sentences, each of which is spelled once.
        unique = {id(one): one for group in in_context for one in group}
        spelled = self._run.encode_text([one.text for one in unique.values()])
        pieces = dict(zip(unique, spelled, strict=True))
        num_cut = 0
        of_groups = []
        for group in in_context:
            of_group = [pieces[id(one)] for one in group]
            whole = of_group[-1]
            of_group[-1] = rows.cut(whole, self._run.row_length)
            num_cut += of_group[-1] is not whole
            kept = self._num_that_fit(of_group)
            of_groups.append(rows.make_row(group[-kept:], of_group[-kept:]))
        (vectors,) = self._run(of_groups, on_progress)
        return vectors, num_cut

    def _num_that_fit(self, pieces: Sequence[np.ndarray]) -> int:
        """How many sentences, counted from the last, go into a row; at least 1."""
        lengths = [rows.num_tokens(one) for one in reversed(pieces)]
        fits = np.cumsum(lengths) <= rows.capacity(self._run.row_length)
        return int(np.count_nonzero(fits))


def _last_sentence(
    sequence_output: tf.Tensor, features: Mapping[str, tf.Tensor]
) -> tuple[tf.Tensor]:
    """The normalised vectors `(B, D)` of the last sentences of rows."""
    # `[SEP]` is the last candidate, and what comes before it the last sentence.
    mask = tf.cast(features["candidate_mask"], tf.int32)
    last = tf.reduce_sum(mask, axis=1, keepdims=True) - 2
    positions = tf.gather(features["candidate_positions"], last, batch_dims=1)
    vectors = gather_vectors(sequence_output, positions)[:, 0]
    return (tf.math.l2_normalize(tf.cast(vectors, tf.float32), axis=1),)
