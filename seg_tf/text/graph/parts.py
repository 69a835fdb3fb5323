"""Parts of paragraphs that end at marks which end a sentence wherever they stand.

A part is to the splitter what a paragraph is: a line feed is put after each, and taken
out of the sentences' places again.

Shape key: N characters, C line feeds put in, S sentences.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from seg_tf.text.graph.code_point_table import NUM_CODE_POINTS, CodePointTable
from seg_tf.text.marked_positions import MarkedPositions, shifted
from seg_tf.text.punkt_decision import PART_CLOSERS

LINE_FEED = ord("\n")
_TERMINATOR, _CLOSER = 1, 2


@dataclasses.dataclass(frozen=True)
class Sentences:
    """Sentences of paragraphs, in order: int32 tensors `(S,)`.

    Attributes:
        starts: the first character of each.
        stops: the character after each; some sentences may be empty.
        paragraphs: which paragraph each belongs to, from 0.
    """

    starts: tf.Tensor
    stops: tf.Tensor
    paragraphs: tf.Tensor


class ParagraphCutter(tf.Module):
    """Cuts paragraphs after terminators and the marks that follow them at once.

    Args:
        terminators: the characters, as of `PunktParameters`.
    """

    def __init__(self, terminators: str):
        super().__init__()
        flags = np.zeros(NUM_CODE_POINTS, np.int32)
        flags[[ord(character) for character in PART_CLOSERS]] = _CLOSER
        flags[[ord(character) for character in terminators]] = _TERMINATOR
        self._flags = CodePointTable(flags)

    def cut(self, code_points: tf.Tensor) -> tuple[tf.Tensor, MarkedPositions]:
        """The text with a line feed after each part.

        Args:
            code_points: int32 tensor `(N,)`: paragraphs, each with a line feed after
                it and none inside.

        Returns:
            The text, `(N + C,)`, and which of it are the line feeds put in.
        """
        flags = self._flags(code_points)
        position = tf.range(1, tf.size(flags) + 1)
        last_end = MarkedPositions(flags == _TERMINATOR).last_before(position)
        last_other = MarkedPositions(flags == 0).last_before(position)
        follows = shifted(flags, 1, 0) > 0
        # Where the paragraph ends too there is a line feed already.
        is_last = shifted(code_points, 1, LINE_FEED) == LINE_FEED
        is_cut = tf.cast((last_end > last_other) & ~follows & ~is_last, tf.int32)
        places = tf.range(tf.size(flags)) + tf.cumsum(is_cut, exclusive=True)
        size = tf.size(flags) + tf.reduce_sum(is_cut)
        is_kept = tf.scatter_nd(places[:, tf.newaxis], tf.ones_like(flags), [size]) > 0
        text = tf.scatter_nd(places[:, tf.newaxis], code_points, [size])
        return tf.where(is_kept, text, LINE_FEED), MarkedPositions(~is_kept)


def joined(sentences: Sentences, put_in: MarkedPositions) -> Sentences:
    """The sentences of parts as those of the paragraphs that were cut.

    Args:
        sentences: those of the text that `ParagraphCutter.cut` returned.
        put_in: which of its characters are not of the paragraphs.
    """
    before = put_in.count_before(sentences.starts)
    return Sentences(
        sentences.starts - before,
        sentences.stops - put_in.count_before(sentences.stops),
        sentences.paragraphs - before,
    )
