"""Puts shuffled sentences in order, by what SLM was pretrained to do.

Shape key: B rows, C candidates, S steps of the pointer.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.inference.row_encoder import TOKENS_PER_BATCH, RowEncoder
from seg_tf.inference.sentence_encoder import make_row
from seg_tf.inference.texts import Sentence, sentences_of
from seg_tf.interop.presets import FromPreset
from seg_tf.layouts.rows import NUM_SPECIAL_TOKENS, Example
from seg_tf.objectives.sentence_unshuffling import SentenceUnshuffling
from seg_tf.ops.gathering import gather_vectors


@dataclasses.dataclass(frozen=True)
class OrderedGroup:
    """Consecutive sentences of a text, ordered on their own.

    Attributes:
        first: number, in the text from 0, of the first sentence as given.
        order: for each place of the order that was found, the sentence that comes
            there: its number in the text.
        confidences: for each place the probability, as the model has it, of this
            sentence among those that were not placed before.
        cut: numbers in the text of the sentences of which the model saw the beginning
            only, because they are longer than a row.
    """

    first: int
    order: tuple[int, ...]
    confidences: tuple[float, ...]
    cut: tuple[int, ...]

    @property
    def confidence(self) -> float:
        """Probability of the whole order: the product over its places."""
        return math.prod(self.confidences)


class SentenceOrderer(FromPreset):
    """Finds the order of sentences with the Sequence Reconstructor (SLM, 2.1).

    A text with more sentences than the model takes, or than fit into a row, is ordered
    in groups of consecutive sentences, as many as fit.

    Args:
        pretrained: an SLM.
        tokens_per_batch: approximate number of positions in a batch.

    Raises:
        ValueError: if the model was not pretrained to unshuffle sentences.

    Example:
    ```
    orderer = SentenceOrderer.from_preset("runs/slm_base")
    orderer.predict(["He sat down. He came in. He fell asleep."])
    ```
    """

    def __init__(
        self, pretrained: Pretrained, tokens_per_batch: int = TOKENS_PER_BATCH
    ):
        objective = pretrained.objective(
            SentenceUnshuffling,
            "a model that was pretrained to unshuffle sentences (SLM)",
        )

        def decode(
            encoder: Any, sequence_BLD: tf.Tensor, features: Mapping[str, tf.Tensor]
        ) -> tuple[tf.Tensor, tf.Tensor]:
            candidates = gather_vectors(sequence_BLD, features["candidate_positions"])
            dtype = objective.reconstructor.compute_dtype
            return objective.reconstructor.decode(
                tf.cast(candidates, dtype), features["candidate_mask"]
            )

        self._layout = pretrained.layout()
        if self._layout.sent_id is None:
            raise ValueError(
                "`checkpoint` must be of a model of sentences (SLM), trained with "
                f"inputs of SentenceInputsConfig. Received: {pretrained.folder}, the "
                f"run {pretrained.config.name!r}, whose inputs were of "
                f"{type(pretrained.config.inputs).__name__}"
            )
        self._rows = RowEncoder(
            pretrained.encoder,
            self._layout,
            decode,
            num_columns=self._layout.max_sentences,
            tokens_per_batch=tokens_per_batch,
        )
        self._encode_pieces = pretrained.text_encoder().encode
        self._splitter = pretrained.splitter()

    def predict(self, documents: Sequence[str]) -> list[list[str]]:
        """The sentences of each text, in the order that the model finds.

        Args:
            documents: any number; a line of a text is a paragraph.
        """
        sentences = [sentences_of(one, self._splitter) for one in documents]
        return [
            [given[number].text for group in groups for number in group.order]
            for given, groups in zip(sentences, self.order(sentences), strict=True)
        ]

    def order(
        self,
        texts: Sequence[Sequence[Sentence]],
        on_progress: Callable[[int], Any] = bool,
    ) -> list[list[OrderedGroup]]:
        """Orders the sentences of each text.

        Args:
            texts: the sentences of each, as given.
            on_progress: called with the number of groups of each batch that is done.

        Returns:
            The groups of each text, in the order of its sentences; none for a text
            without sentences.
        """
        ids, lengths = self._encode_pieces([one.text for text in texts for one in text])
        spelled = iter(np.split(ids, np.cumsum(lengths)[:-1]))
        longest = self._layout.max_length - NUM_SPECIAL_TOKENS - 1  # behind its [SENT]
        rows, places = [], []
        for text in texts:
            pieces = list(itertools.islice(spelled, len(text)))
            is_cut = [len(one) > longest for one in pieces]
            pieces = [one[:longest] for one in pieces]
            spans = list(self._spans(pieces))
            rows += [
                make_row(text[begin:end], pieces[begin:end]) for begin, end in spans
            ]
            places.append(
                [
                    (begin, [n for n in range(begin, end) if is_cut[n]])
                    for begin, end in spans
                ]
            )
        results = iter(self._rows(rows, on_progress) if rows else ())
        examples = iter(rows)
        return [
            [
                _group(begin, cut, next(examples), *next(results))
                for begin, cut in text_places
            ]
            for text_places in places
        ]

    def _spans(self, pieces: Sequence[np.ndarray]) -> Iterator[tuple[int, int]]:
        """Begin and end of each group."""
        begin, size = 0, 0
        for number, one in enumerate(pieces):
            needed = 1 + len(one)
            is_full = number - begin == self._layout.max_sentences
            if is_full or size + needed > self._layout.max_length - NUM_SPECIAL_TOKENS:
                yield begin, number
                begin, size = number, 0
            size += needed
        if begin < len(pieces):
            yield begin, len(pieces)


def _group(
    first: int,
    cut: Sequence[int],
    row: Example,
    slots: np.ndarray,
    probabilities: np.ndarray,
) -> OrderedGroup:
    count = len(row)
    # Slot 0 is `[CLS]`. The last step, which has `[SEP]` left alone, says nothing.
    return OrderedGroup(
        first,
        tuple(first + int(slot) - 1 for slot in slots[:count]),
        tuple(float(probability) for probability in probabilities[:count]),
        tuple(cut),
    )
