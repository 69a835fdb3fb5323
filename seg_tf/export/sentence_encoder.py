"""Vectors of texts and of their sentences, by a pretrained encoder."""

import dataclasses
import pathlib
import warnings
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from seg_tf.checkpoints.pretrained import MadeOfPretrained, Pretrained
from seg_tf.export import saved_model
from seg_tf.export.served_encoder import ServedEncoder
from seg_tf.inference.sentence_vectors import (
    cosine_warning,
    mean_cosine,
    of_length_one,
)
from seg_tf.inference.texts import check_texts
from seg_tf.preprocessing.text_preprocessor import DocumentPreprocessor

_TEXTS_PER_BATCH = 32


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedSentences:
    """The sentences of a text, each in the context of all.

    Attributes:
        sentences: S sentences, unchanged, as many as the model reads of the text.
        vectors: float32 array `(S, D)`.
        is_cut: whether the text goes on.
    """

    sentences: tuple[str, ...]
    vectors: np.ndarray
    is_cut: bool


class SentenceEncoder(MadeOfPretrained):
    """Encodes documents as in pretraining, all sentences in the context of the others.

    Args:
        pretrained: what `load_pretrained` returned.

    Attributes:
        preprocessor: makes rows of documents in a graph, for `tf.data` too.

    Example:
    ```
    encoder = SentenceEncoder.from_preset("runs/segabert_base")
    found = encoder.predict(["One sentence. Another."])
    found["sentence_vectors"][0], found["sentences"][0], found["pooled_output"][0]

    encoder.encode(["One text.", "Another."])  # (2, D)
    encoder.encode_sentences(["One sentence. Another."])[0].vectors  # (2, D)
    ```
    """

    def __init__(self, pretrained: Pretrained):
        self._pretrained = pretrained
        self.preprocessor = DocumentPreprocessor(pretrained)
        self._served = ServedEncoder(pretrained, self.preprocessor)

    def predict(self, texts: Sequence[str]) -> dict[str, np.ndarray]:
        """The outputs of `seg_tf.export.served_encoder.ServedEncoder`.

        Args:
            texts: at least one, run together; a line of a text is a paragraph.

        Raises:
            ValueError: if there is none, or one is no text.
        """
        texts = check_texts(texts, "texts")
        found = self._served.functions["serving_default"](tf.constant(texts))
        return {name: values.numpy() for name, values in found.items()}

    def encode(
        self,
        texts: Sequence[str],
        vectors: str = "mean",
        batch_size: int = _TEXTS_PER_BATCH,
    ) -> np.ndarray:
        """A vector for each text.

        Args:
            texts: at least one; a line of a text is a paragraph. What is longer than a
                row of pretraining is read up to the last sentence that fits.
            vectors: "mean", that of the outputs at the word pieces; "cls", the output
                at `[CLS]`; "sent", the mean of the sentences' own vectors, at `[SENT]`
                (SLM) or pooled at `<SS>` (ReAT). A ReAT's "mean" is its "sent". A
                warning says if the cosines of the vectors hardly distinguish the texts.
            batch_size: texts that are encoded at once.

        Returns:
            float32 array `(number of texts, D)`; 0 for the mean of a text without a
            word piece.

        Raises:
            ValueError: if there is no text, or the model has no such vectors.
        """
        texts = check_texts(texts, "texts")
        layout = self.preprocessor.layout
        has_pieces = layout.holds_spans
        known = {
            "mean": True,
            "cls": has_pieces,
            "sent": layout.sent_id is not None or not has_pieces,
        }
        if not known.get(vectors):
            names = ", ".join(name for name, is_known in known.items() if is_known)
            raise ValueError(
                f"`vectors` of this model must be one of {names}. Received: {vectors!r}"
            )
        found = None
        for numbers, batch in self._batches(texts, batch_size):
            if vectors == "cls" or not has_pieces:
                some = batch["pooled_output"]
            elif vectors == "sent":
                some = _mean(batch["sentence_vectors"], batch["sentence_mask"])
            else:
                some = _mean(batch["sequence_output"], self._is_piece(batch))
            if found is None:
                found = np.zeros((len(texts), some.shape[1]), np.float32)
            found[numbers] = some
        _warn_of_equal_directions(found)
        return found

    def encode_sentences(
        self, texts: Sequence[str], batch_size: int = _TEXTS_PER_BATCH
    ) -> list[EncodedSentences]:
        """The sentences of each text and their vectors.

        Args:
            texts: as for `encode`.
            batch_size: texts that are encoded at once.

        Raises:
            ValueError: if there is no text.
        """
        texts = check_texts(texts, "texts")
        found: dict[int, EncodedSentences] = {}
        for numbers, batch in self._batches(texts, batch_size):
            for row, number in enumerate(numbers):
                mask = batch["sentence_mask"][row]
                sentences = batch["sentences"][row][mask]
                found[number] = EncodedSentences(
                    tuple(one.decode() for one in sentences),
                    batch["sentence_vectors"][row][mask],
                    bool(batch["is_cut"][row]),
                )
        encoded = [found[number] for number in range(len(texts))]
        _warn_of_equal_directions(np.concatenate([one.vectors for one in encoded]))
        return encoded

    def _batches(
        self, texts: list[str], batch_size: int
    ) -> Iterator[tuple[list[int], dict[str, np.ndarray]]]:
        """Numbers of texts of about one length, and what `predict` gives for them."""
        if batch_size < 1:
            raise ValueError(
                f"`batch_size` must be at least 1. Received: batch_size={batch_size}"
            )
        order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
        for begin in range(0, len(order), batch_size):
            numbers = order[begin : begin + batch_size]
            yield numbers, self.predict([texts[number] for number in numbers])

    def _is_piece(self, batch: dict[str, np.ndarray]) -> np.ndarray:
        """Bool `(B, L)`, False at special tokens and padding."""
        vocabulary = self._pretrained.vocabulary
        specials = {
            vocabulary.cls_id,
            vocabulary.sep_id,
            self.preprocessor.layout.sent_id,
        }
        is_special = np.isin(batch["token_ids"], list(specials - {None}))
        return batch["padding_mask"] & ~is_special

    def export(
        self,
        folder: str | pathlib.Path,
        overwrite: bool = False,
        formats: Sequence[str] = (saved_model.SAVED_MODEL,),
    ) -> None:
        """Writes a SavedModel.

        Args:
            folder: a new folder.
            overwrite: whether an exported model that is there is replaced.
            formats: "saved_model", "onnx" (`seg_tf.export.onnx_file`) or both.

        Raises:
            ValueError: if something else is there.
        """
        capacity = self.preprocessor.layout.text_capacity
        saved_model.write(
            self._served,
            pathlib.Path(folder),
            self._pretrained,
            {
                "most_pieces": capacity.num_pieces,
                "most_sentences": capacity.num_sentences,
            },
            overwrite=overwrite,
            formats=formats,
        )


def _mean(vectors: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Means `(B, D)` of the vectors `(B, N, D)` where `mask` is True; 0 of none."""
    counts = np.maximum(mask.sum(axis=1, keepdims=True), 1)
    return np.einsum("bnd,bn->bd", vectors, mask.astype(np.float32)) / counts


def _warn_of_equal_directions(vectors: np.ndarray) -> None:
    if warning := cosine_warning(mean_cosine([of_length_one(vectors)])):
        warnings.warn(warning, stacklevel=3)
