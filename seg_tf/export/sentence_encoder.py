"""Vectors of texts and of their sentences, by a pretrained encoder."""

import pathlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from seg_tf.checkpoints.pretrained import MadeOfPretrained, Pretrained
from seg_tf.export import saved_model
from seg_tf.export.served_encoder import ServedEncoder
from seg_tf.inference.texts import check_texts
from seg_tf.preprocessing.text_preprocessor import DocumentPreprocessor


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

    def export(self, folder: str | pathlib.Path, overwrite: bool = False) -> None:
        """Writes a SavedModel.

        Args:
            folder: a new folder.
            overwrite: whether a SavedModel that is there is replaced.

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
                "sentence_parameters_sha256": (
                    self._pretrained.sentence_parameters.checksum
                ),
            },
            overwrite=overwrite,
        )
