"""Vectors of the sentences of a long text, all in the context of all (ReAT).

Shape key: S sentences, N parts of them, L row length, D width of the vectors.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from seg_tf import features
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.layouts import block_placing
from seg_tf.layouts.blocks import BlockLayout
from seg_tf.layouts.segments import Example, Segment


@dataclasses.dataclass(frozen=True)
class EncodedText:
    """The sentences of a text, encoded.

    Attributes:
        vectors: float32 array `(S, D)`.
        num_parts: sentences, those that are too long counted by their parts.
        num_positions: positions that they take, special tokens included, padding left
            out.
        num_passes: how many times the model ran: stretches that do not see each other.
    """

    vectors: np.ndarray
    num_parts: int
    num_positions: int
    num_passes: int


class LongTexts:
    """Encodes texts of as many sentences as the model has places for, in one pass.

    The vector of a sentence is its pooled `<SS>`. A sentence that is too long for the
    model is encoded in parts, whose vectors are averaged: no word is left out. A text
    of more sentences, or parts, than the model has places for is encoded in stretches
    that do not see each other.

    Args:
        pretrained: a ReAT.

    Raises:
        ValueError: if it is another model.
    """

    def __init__(self, pretrained: Pretrained):
        self._layout = pretrained.layout()
        if not isinstance(self._layout, BlockLayout):
            raise ValueError(
                "`checkpoint` must be of a ReAT. Received: "
                f"{pretrained.folder}, the run {pretrained.config.name!r}, whose model "
                f"was of {type(pretrained.config.model).__name__}"
            )
        self._encoder = pretrained.encoder
        self._word_pieces = pretrained.text_encoder()
        specs = features.tensor_specs(
            self._encoder.feature_names, {"B": 1, "L": None, "N": None}
        )
        # One graph for texts of all lengths.
        self._function = tf.function(
            self._pooled,
            input_signature=[
                {name: tf.TensorSpec(*spec) for name, spec in specs.items()}
            ],
            autograph=False,
        )

    @property
    def max_sentences(self) -> int:
        """Sentences, or parts of long ones, that see each other."""
        return self._encoder.max_sentences

    def encode(self, sentences: Sequence[str]) -> EncodedText:
        """Encodes the sentences of a text.

        Args:
            sentences: at least one, in order.
        """
        pieces, lengths = self._word_pieces.encode(sentences)
        parts, number = block_placing.split_long(
            np.asarray(lengths), self._layout.longest_part
        )
        segments = [Segment(one) for one in np.split(pieces, np.cumsum(parts)[:-1])]
        vectors = []
        for begin, end in _stretches(number == 0, self.max_sentences):
            found = self._function(self._lay_out(segments[begin:end]))
            vectors.append(found.numpy()[0, : end - begin])
        firsts = np.flatnonzero(number == 0)
        sums = np.add.reduceat(np.concatenate(vectors), firsts, axis=0)
        counts = np.diff(np.append(firsts, len(parts)))
        return EncodedText(
            vectors=sums / counts[:, np.newaxis].astype(np.float32),
            num_parts=len(parts),
            num_positions=int((parts + block_placing.NUM_SPECIAL_TOKENS).sum()),
            num_passes=len(vectors),
        )

    def _pooled(self, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        sequence_output = self._encoder(batch, training=False)
        vectors = self._encoder.pool(sequence_output, batch["sentence_starts"])
        return tf.cast(vectors, tf.float32)

    def _lay_out(self, example: Example) -> dict[str, np.ndarray]:
        """One text as a batch, in as few blocks as it takes."""
        rows = self._layout.lay_out([example], self._layout.exact_shape(example))
        return {name: rows[name] for name in self._encoder.feature_names}


def _stretches(is_begin: np.ndarray, longest: int) -> list[tuple[int, int]]:
    """Few stretches of sentences, about equally long, so that none lacks context.

    Where it can be, a stretch ends with a sentence, not with a part of one.
    """
    begins = np.append(np.flatnonzero(is_begin), len(is_begin))
    stretches, begin = [], 0
    while begin < len(is_begin):
        left = len(is_begin) - begin
        num_left = -(-left // longest)
        # From an equal share on, the first end of a sentence; or the last before, but
        # no orphan; or the share.
        share = begin - (-left // num_left)
        after = int(begins[np.searchsorted(begins, share)])
        before = int(begins[np.searchsorted(begins, share, side="right") - 1])
        if after <= begin + longest:
            end = after
        else:
            end = before if 2 * before >= begin + share else share
        stretches.append((begin, end))
        begin = end
    return stretches
