"""Restores the order of shuffled sentences with a pretrained SLM."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.inference.row_encoder import RowEncoder, make_row
from seg_tf.inference.texts import Sentence, check_texts, split_text
from seg_tf.interop import FromPreset
from seg_tf.layouts.rows import Segment
from seg_tf.objectives.sentence_unshuffling import SentenceUnshuffling
from seg_tf.ops.attention import gather_vectors


@dataclasses.dataclass(frozen=True)
class OrderedGroup:
    """The predicted order of a group of consecutive sentences.

    Attributes:
        first: index of the group's first sentence in the input text.
        order: indices of the sentences in the input text, in the predicted order.
        confidences: probability of each sentence in `order` among those not yet placed.
        cut: indices in the input text of sentences that were truncated to fit in a row.
    """

    first: int
    order: tuple[int, ...]
    confidences: tuple[float, ...]
    cut: tuple[int, ...]

    @property
    def confidence(self) -> float:
        """Probability of the whole order, the product of `confidences`."""
        return math.prod(self.confidences)


class SentenceOrderer(FromPreset):
    """Predicts sentence orders with the Sequence Reconstructor (SLM, section 2.1).

    A text that does not fit in a row is ordered in groups of consecutive sentences.

    Args:
        pretrained: an SLM. Other models raise a ValueError.

    Example:
    ```
    orderer = SentenceOrderer.from_preset("runs/slm_base")
    orderer.predict(["He sat down. He came in. He fell asleep."])
    ```
    """

    def __init__(self, pretrained: Pretrained):
        objective = pretrained.objective(
            SentenceUnshuffling,
            "a model that was pretrained to unshuffle sentences (SLM)",
        )
        self._layout = pretrained.layout()

        def order(
            encoder: Any, sequence_output: tf.Tensor, features: Mapping[str, tf.Tensor]
        ) -> tuple[tf.Tensor, tf.Tensor]:
            positions = features["candidate_positions"]
            candidates = gather_vectors(sequence_output, positions)
            return objective.reconstructor.decode(
                candidates, features["candidate_mask"]
            )

        most = self._layout.max_sentences
        self._order = RowEncoder(pretrained.encoder, self._layout, order, most)
        self._encode = pretrained.text_encoder().encode
        self._splitter = pretrained.splitter()

    def predict(self, documents: Sequence[str]) -> list[list[str]]:
        """Returns each text's sentences in predicted order. A line is a paragraph."""
        documents = check_texts(documents, "documents")
        sentences = [split_text(document, self._splitter) for document in documents]
        return [
            [text[number].text for group in groups for number in group.order]
            for text, groups in zip(sentences, self.order(sentences), strict=True)
        ]

    def order(self, texts: Sequence[Sequence[Sentence]]) -> list[list[OrderedGroup]]:
        """Returns each text's ordered groups, an empty list if it has no sentences."""
        longest, rows, places = self._layout.capacity(1), [], []
        for number, text in enumerate(texts):
            ids, counts = self._encode([sentence.text for sentence in text])
            spelled = np.split(ids, np.cumsum(counts)[:-1]) if text else []
            pieces = [ids[:longest] for ids in spelled]
            for begin, end in self._groups(pieces):
                paragraphs = [sentence.paragraph for sentence in text[begin:end]]
                rows.append(make_row(pieces[begin:end], paragraphs))
                cut = tuple(at for at in range(begin, end) if counts[at] > longest)
                places.append((number, begin, cut))
        ordered: list[list[OrderedGroup]] = [[] for _ in texts]
        for row, (number, begin, cut), (slots, probabilities) in zip(
            rows, places, self._order(rows), strict=True
        ):
            # Slot 0 is `[CLS]`. The last step, at which only `[SEP]` is left, is
            # skipped.
            order = tuple(begin + int(slot) - 1 for slot in slots[: len(row)])
            confidences = tuple(map(float, probabilities[: len(row)]))
            ordered[number].append(OrderedGroup(begin, order, confidences, cut))
        return ordered

    def _groups(self, pieces: Sequence[np.ndarray]) -> Iterator[tuple[int, int]]:
        """Splits sentences into groups that fit in a row. Yields starts and stops."""
        begin = 0
        for end in range(1, 1 + len(pieces)):
            if end == len(pieces) or not self._layout.fits(
                [Segment(ids) for ids in pieces[begin : end + 1]]
            ):
                yield begin, end
                begin = end
