"""Logits of windows' pieces, by which answers are ranked.

Shape key: B batch, N positions or candidates that a pointer may point at.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.finetuning.spans.span_batches import (
    context_positions,
    span_batches,
)
from seg_tf.finetuning.spans.squad_examples import SpanExamples
from seg_tf.finetuning.trials.divergence import check_finite
from seg_tf.tasks.squad.answers import WindowLogits
from seg_tf.tasks.squad.windows import SpanWindow

# No gradients, and twice the room of training.
_BATCH_SIZE = 64
# Both pointers point at [CLS] where there is no answer.
_CLS_POSITION = 0


@dataclasses.dataclass(frozen=True, eq=False)
class Predictions:
    """Logits of windows, and the loss.

    Attributes:
        logits: of every window, in the order of the windows.
        loss: mean over the windows of what training makes small, the sum of the
            losses of all pointers.
    """

    logits: Sequence[WindowLogits]
    loss: float


class WindowPredictor:
    """Asks models about the same windows; those of about one length share a batch.

    Args:
        pretrained: the checkpoint that the models start from.
        windows: at least one.
        max_length: the most positions of a row, as they were cut for.
        has_null: whether there may be no answer (version 2.0), for which `[CLS]`
            stands.
    """

    def __init__(
        self,
        pretrained: Pretrained,
        windows: Sequence[SpanWindow],
        max_length: int,
        has_null: bool,
    ):
        layout = pretrained.layout(max_length, for_spans=True)
        examples = SpanExamples(windows)
        row_shapes = [layout.row_shape(one.segments) for one in examples]
        self._order = sorted(range(len(windows)), key=row_shapes.__getitem__)
        examples = SpanExamples([windows[number] for number in self._order])
        self._positions = [context_positions(layout, one.segments) for one in examples]
        self._batches = span_batches(
            pretrained,
            examples,
            batch_size=_BATCH_SIZE,
            with_labels=True,
            max_length=max_length,
        )
        self._has_null = has_null

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
        found: list[WindowLogits] = [None] * len(self._order)
        number = 0
        loss = 0.0
        for batch, labels in self._batches:
            outputs = model.predict_on_batch(batch)
            are_finite = [np.isfinite(one).all(axis=1) for one in outputs.values()]
            check_finite(np.all(are_finite, axis=0), "windows of a batch of SQuAD")
            loss += _sum_of_losses(outputs, labels)
            for start, end in zip(outputs["start"], outputs["end"], strict=True):
                found[self._order[number]] = self._logits(number, start, end)
                number += 1
        return Predictions(found, loss / number)

    def _logits(self, number: int, start: np.ndarray, end: np.ndarray) -> WindowLogits:
        positions = self._positions[number]
        null = None
        if self._has_null:
            null = (float(start[_CLS_POSITION]), float(end[_CLS_POSITION]))
        return WindowLogits(start[positions], end[positions], null)


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
