"""Fills in what is masked in texts, by what masked language models learn.

Shape key: B texts, P masks, V word pieces of the vocabulary, K the best of them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.inference.sentence_encoder import make_row
from seg_tf.inference.texts import Sentence, check_texts, sentences_of
from seg_tf.interop.presets import FromPreset
from seg_tf.layouts.rows import Example, num_pieces
from seg_tf.objectives.masked_lm import MaskedLM
from seg_tf.text.vocabulary import MASK


class Filling(NamedTuple):
    """A word piece for a mask.

    Attributes:
        piece: the piece.
        probability: as the model has it.
    """

    piece: str
    probability: float


class MaskFiller(FromPreset):
    """Predicts the word pieces behind each `[MASK]` of a text (Devlin et al., 2018).

    Args:
        pretrained: a model that was pretrained with `MaskedLM`.

    Raises:
        ValueError: if the model was pretrained otherwise, or reads no texts.

    Example:
    ```
    filler = MaskFiller.from_preset("runs/segabert_base")
    filler.predict(["He opened the [MASK] and went in."])
    ```
    """

    def __init__(self, pretrained: Pretrained):
        self._objective = pretrained.objective(
            MaskedLM, "a model that was pretrained to predict masked word pieces"
        )
        self._layout = pretrained.layout()
        self._encoder = pretrained.encoder
        self._vocabulary = pretrained.vocabulary
        self._splitter = pretrained.splitter()
        self._encode = pretrained.text_encoder().encode

    def predict(
        self, texts: Sequence[str], num_best: int = 5
    ) -> list[list[list[Filling]]]:
        """The most probable pieces for each mask of each text.

        Args:
            texts: at least one, run together; a line of a text is a paragraph.
            num_best: K, pieces for each mask.

        Returns:
            For each text and each `[MASK]` of it the best pieces, the best first.

        Raises:
            ValueError: if there is no text, or one has no `[MASK]` or does not fit into
                a row of the model.
        """
        examples = [self._example(text) for text in check_texts(texts, "texts")]
        shapes = zip(*map(self._layout.row_shape, examples), strict=True)
        batch = self._layout.lay_out(examples, tuple(map(max, shapes)))
        is_mask = batch["token_ids"] == self._vocabulary.mask_id
        positions = _positions(is_mask)
        features = {name: batch[name] for name in self._encoder.feature_names}
        sequence_output = self._encoder(features, training=False)
        logits = self._objective.logits(sequence_output, positions)
        found = tf.math.top_k(tf.nn.softmax(tf.cast(logits, tf.float32)), num_best)
        values, ids = found.values.numpy(), found.indices.numpy()
        return [
            [
                list(
                    map(
                        Filling,
                        self._vocabulary.tokens_of(ids[row, number]),
                        values[row, number].tolist(),
                    )
                )
                for number in range(count)
            ]
            for row, count in enumerate(is_mask.sum(axis=1))
        ]

    def _example(self, text: str) -> Example:
        if MASK not in text:
            raise ValueError(f"`texts` must each hold a {MASK}. Received: {text!r}")
        sentences = sentences_of(text, self._splitter)
        example = make_row(sentences, [self._pieces(one) for one in sentences])
        capacity = self._layout.text_capacity
        most = capacity.num_sentences or len(example)
        if num_pieces(example) > capacity.num_pieces or len(example) > most:
            raise ValueError(
                f"`texts` must each have at most {capacity.num_pieces} word pieces and "
                f"{most} sentences. Received: {num_pieces(example)} pieces in "
                f"{len(example)} sentences: {text[:60]!r}…"
            )
        return example

    def _pieces(self, sentence: Sentence) -> np.ndarray:
        ids, lengths = self._encode(sentence.text.split(MASK))
        between = np.cumsum(lengths)[:-1]
        return np.insert(ids, between, self._vocabulary.mask_id)


def _positions(is_mask: np.ndarray) -> np.ndarray:
    """Positions `(B, P)` of what is masked in rows, 0 behind them."""
    counts = is_mask.sum(axis=1)
    positions = np.zeros((len(counts), counts.max()), np.int32)
    positions[np.arange(positions.shape[1]) < counts[:, np.newaxis]] = np.nonzero(
        is_mask
    )[1]
    return positions
