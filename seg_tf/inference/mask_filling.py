"""Fills masks in texts, as masked language models were pretrained to do."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.inference.row_encoder import make_row
from seg_tf.inference.texts import check_texts, split_text
from seg_tf.interop.presets import FromPreset
from seg_tf.layouts.rows import Example, num_pieces
from seg_tf.objectives.masked_lm import MaskedLM
from seg_tf.text.vocabulary import MASK


class Filling(NamedTuple):
    """A word piece for a mask, and its predicted probability."""

    piece: str
    probability: float


class MaskFiller(FromPreset):
    """Predicts the word pieces behind each `[MASK]` of a text (Devlin et al., 2018).

    Args:
        pretrained: a model pretrained with `MaskedLM`; any other is a ValueError.

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
        """Returns the `num_best` most probable pieces for each mask of each text.

        Texts are encoded in one batch; a line is a paragraph. There must be one at
        least, each with a `[MASK]` and no longer than a row of the model.
        """
        examples = [self._example(text) for text in check_texts(texts, "texts")]
        shapes = zip(*map(self._layout.row_shape, examples), strict=True)
        batch = self._layout.lay_out(examples, tuple(map(max, shapes)))
        is_mask = batch["token_ids"] == self._vocabulary.mask_id
        # Masked positions first, in order.
        counts = is_mask.sum(axis=1)
        positions = np.argsort(~is_mask, axis=1, kind="stable")[:, : counts.max()]
        features = {name: batch[name] for name in self._encoder.feature_names}
        logits = self._objective.logits(
            self._encoder(features, training=False), positions.astype(np.int32)
        )
        best = tf.math.top_k(tf.nn.softmax(tf.cast(logits, tf.float32)), num_best)
        values, ids = best.values.numpy(), best.indices.numpy()
        tokens_of = self._vocabulary.tokens_of
        return [
            [
                list(
                    map(Filling, tokens_of(ids[row, mask]), values[row, mask].tolist())
                )
                for mask in range(count)
            ]
            for row, count in enumerate(counts)
        ]

    def _example(self, text: str) -> Example:
        if MASK not in text:
            raise ValueError(f"`texts` must each hold a {MASK}. Received: {text!r}")
        sentences = split_text(text, self._splitter)
        pieces = []
        for sentence in sentences:
            ids, lengths = self._encode(sentence.text.split(MASK))
            masks = np.cumsum(lengths)[:-1]
            pieces.append(np.insert(ids, masks, self._vocabulary.mask_id))
        example = make_row(pieces, [sentence.paragraph for sentence in sentences])
        capacity = self._layout.text_capacity
        most = capacity.num_sentences or len(example)
        if num_pieces(example) > capacity.num_pieces or len(example) > most:
            raise ValueError(
                f"`texts` must each have at most {capacity.num_pieces} word pieces and "
                f"{most} sentences. Received: {num_pieces(example)} pieces in "
                f"{len(example)} sentences: {text[:60]!r}…"
            )
        return example
