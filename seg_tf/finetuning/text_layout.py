"""From texts to the features that the encoder of a checkpoint reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from seg_tf import configuration
from seg_tf.finetuning.block_layout import BlockLayout
from seg_tf.finetuning.segments import Segment
from seg_tf.finetuning.sentence_layout import SentenceLayout
from seg_tf.finetuning.window_layout import WindowLayout

if TYPE_CHECKING:
    from seg_tf.checkpoints.pretrained import Pretrained

# Static sizes of a batch's rows: of few values, each of which is compiled once.
RowShape = tuple[int, ...]


class TextLayout(Protocol):
    """How examples become rows.

    Attributes:
        max_length: the most positions that an example takes.
        vectors_per_text: whether a row of several texts has a vector for each, so that
            texts can be encoded jointly; if not, each has to have a row of its own.
    """

    max_length: int
    vectors_per_text: bool

    def room(self, num_texts: int) -> int:
        """The most word pieces of an example of so many texts.

        Raises:
            ValueError: if not even empty texts fit.
        """

    def row_shape(self, example: Sequence[Segment]) -> RowShape:
        """The smallest sizes of a row that take it; larger ones do as well."""

    def lay_out(
        self, examples: Sequence[Sequence[Segment]], row_shape: RowShape
    ) -> Mapping[str, np.ndarray]:
        """Features of one row for each example, which do not hang on one another."""


def text_layout(pretrained: Pretrained, **arguments: Any) -> TextLayout:
    """The layout for the encoder of a checkpoint.

    Args:
        pretrained: a BERT, BERT with P.S., SegaBERT, SLM, a mixture, or a ReAT.
        **arguments: those of `WindowLayout`, `SentenceLayout` or `BlockLayout`, such
            as `max_length`.

    Raises:
        ValueError: if it is another model.
    """
    model, inputs = pretrained.config.model, pretrained.config.inputs
    if isinstance(model, configuration.ReATConfig):
        return BlockLayout(pretrained, **arguments)
    if not isinstance(model, configuration.EncoderConfig):
        raise ValueError(
            "`pretrained` must be of an encoder (BERT, SegaBERT, SLM, ReAT). Received: "
            f"{pretrained.folder}, the run {pretrained.config.name!r}, whose model was "
            f"of {type(model).__name__}"
        )
    if isinstance(inputs, configuration.SentenceInputsConfig):
        return SentenceLayout(pretrained, **arguments)
    return WindowLayout(pretrained, **arguments)
