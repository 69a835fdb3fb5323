"""Questions about contexts as batches: where an answer may stand, and where it does."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.finetuning.row_batches import row_batches
from seg_tf.layouts.layout import Layout
from seg_tf.layouts.segments import Segment


@dataclasses.dataclass(frozen=True, slots=True)
class SpanExample:
    """A question, a context or a window of it, and the answer.

    Attributes:
        segments: the question, text 0, and the sentences of the context, text 1.
        answer: the first and the last piece of the answer, counted through the pieces
            of the context from 0; None if it is not there.
    """

    segments: Sequence[Segment]
    answer: tuple[int, int] | None = None


def context_positions(layout: Layout, segments: Sequence[Segment]) -> np.ndarray:
    """At which position of its row each piece of the context stands."""
    starts = layout.piece_starts(segments)
    return np.concatenate(
        [
            np.arange(start, start + len(segment.pieces))
            for start, segment in zip(starts, segments, strict=True)
            if segment.text
        ]
    )


def span_batches(
    pretrained: Pretrained,
    examples: Sequence[SpanExample],
    *,
    batch_size: int,
    with_labels: bool,
    seed: int | None = None,
    max_length: int | None = None,
) -> tf.data.Dataset:
    """Batches for a `SpanExtractor`, in an order as that of `text_batches`.

    Args:
        pretrained: a BERT, BERT with P.S., SegaBERT, SLM or a mixture.
        examples: at least one; each has to fit into a row.
        batch_size: examples of a batch; the last one may have fewer.
        with_labels: whether the answers are given as well: positions `start` and `end`
            and, for a model of sentences, `sentence`, the candidate whose sentence
            the answer starts in. Where there is no answer, all are 0, as is the
            position of `[CLS]`.
        seed: of the order; None gives the examples in order.
        max_length: the most positions of a row; None takes those of pretraining.

    Returns:
        Finite dataset of features, or of pairs of features and labels.

    Raises:
        ValueError: if there is no example, the model is another one, or it embeds fewer
            positions.
    """
    if not examples or batch_size < 1:
        raise ValueError(
            "`examples` must not be empty, and `batch_size` at least 1. Received: "
            f"{len(examples)} examples, batch_size={batch_size}"
        )
    layout = pretrained.layout(max_length, for_spans=True)
    row_shapes = np.array([layout.row_shape(example.segments) for example in examples])

    def lay_out(
        numbers: np.ndarray, row_shape: tuple[int, ...]
    ) -> Mapping[str, np.ndarray]:
        rows = [examples[number].segments for number in numbers]
        features = layout.lay_out(rows, row_shape)
        return {**features, **_places(layout, rows, row_shape)}

    labels = None
    if with_labels:
        of_each = [_label(layout, example) for example in examples]
        labels = {
            name: np.array([label[name] for label in of_each], np.int32)
            for name in of_each[0]
        }
    return row_batches(lay_out, row_shapes, labels, batch_size, seed)


def _places(
    layout: Layout, rows: Sequence[Sequence[Segment]], row_shape: tuple[int, ...]
) -> dict[str, np.ndarray]:
    """Masks of possible answers: in the context, or at `[CLS]` for none."""
    can_answer = np.zeros((len(rows), row_shape[0]), bool)
    can_answer[:, 0] = True
    for row, segments in enumerate(rows):
        can_answer[row, context_positions(layout, segments)] = True
    if layout.sent_id is None:
        return {"can_answer": can_answer}
    can_hold_answer = np.zeros((len(rows), row_shape[1]), bool)
    can_hold_answer[:, 0] = True
    for row, segments in enumerate(rows):
        is_context = [segment.text > 0 for segment in segments]
        can_hold_answer[row, 1 : 1 + len(segments)] = is_context
    return {"can_answer": can_answer, "can_hold_answer": can_hold_answer}


def _label(layout: Layout, example: SpanExample) -> dict[str, int]:
    names = ["start", "end"]
    names += ["sentence"] if layout.sent_id is not None else []
    if example.answer is None:
        return dict.fromkeys(names, 0)
    positions = context_positions(layout, example.segments)
    start, end = (int(positions[piece]) for piece in example.answer)
    # Candidate 0 is [CLS], so the first segment, the question, is candidate 1.
    starts = layout.piece_starts(example.segments)
    lengths = np.array([len(segment.pieces) for segment in example.segments])
    inside = (starts <= start) & (start < starts + lengths)
    values = (start, end, 1 + int(inside.argmax()))
    return dict(zip(names, values, strict=False))
