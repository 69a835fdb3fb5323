"""An encoder and all that leads to it, as signatures of a SavedModel.

Shape key: B texts, L row length, M sentences, D width.
"""

from collections.abc import Callable, Mapping

import keras
import tensorflow as tf

from seg_tf import features as batch_contract
from seg_tf.checkpoints.encoder_copies import copy_encoder
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.export.served_model import ServedModel, checked, text_specs
from seg_tf.layouts.layout import Features, Layout
from seg_tf.preprocessing.text_preprocessor import (
    DocumentPreprocessor,
    TextPreprocessor,
)


class ServedEncoder(ServedModel):
    """A pretrained encoder.

    Signatures:
        serving_default: from `text`, string `(B,)`. The lines of a text are its
            paragraphs; it is read up to the last sentence that fits into a row of
            pretraining, or up to a part of the first one.
        encode_pairs: from `text` and `second_text`, string `(B,)`, in one row as in
            fine-tuning: each is one paragraph of one sentence. Where they do not fit,
            the longer one is cut.
        encode_ids: from the features of rows.

    Outputs:
        sequence_output: float32 `(B, L, D)`, and `padding_mask`, bool `(B, L)`: where
            it means something.
        pooled_output: float32 `(B, D)`, the vector of `[CLS]`, or of a ReAT the mean of
            the sentence vectors.
        sentence_vectors: float32 `(B, M, D)`, and `sentence_mask`, bool `(B, M)`: where
            there is a sentence.
        token_ids: int32 `(B, L)`, what was read.
        is_cut: bool `(B,)`, whether the text goes on.
        sentences: string `(B, M)`, for `serving_default` alone.

    Args:
        pretrained: the model. Its encoder is copied.
        preprocessor: what makes rows of documents for it.
    """

    def __init__(self, pretrained: Pretrained, preprocessor: DocumentPreprocessor):
        super().__init__()
        self._preprocessor = preprocessor
        self._pairs = TextPreprocessor(pretrained, num_texts=2)
        encoder = copy_encoder(pretrained)
        self.hold(encoder)
        # Not an attribute: a SavedModel would take all of the model along.
        self._encode_rows = _encoding(encoder, preprocessor.layout)
        self.rows_of_texts = lambda texts: preprocessor.read(texts)[1]

        @tf.function(input_signature=text_specs(1), autograph=False)
        def encode_text(text: tf.Tensor) -> Mapping[str, tf.Tensor]:
            trees, features = preprocessor.read(text)
            encoded = self._encode_rows(features)
            # What an empty text has is no sentence.
            most = tf.shape(encoded["sentence_mask"])[1]
            mask = tf.sequence_mask(trees.num_sentences, most)
            sentences = tf.pad(trees.sentences, [[0, 0], [0, most]])[:, :most]
            return {
                **encoded,
                **_what_was_read(features),
                "sentence_vectors": tf.where(
                    mask[:, :, tf.newaxis], encoded["sentence_vectors"], 0
                ),
                "sentence_mask": mask,
                "sentences": sentences,
                "is_cut": trees.is_cut,
            }

        @tf.function(input_signature=text_specs(2), autograph=False)
        def encode_pairs(
            text: tf.Tensor, second_text: tf.Tensor
        ) -> Mapping[str, tf.Tensor]:
            is_cut, features = self._pairs.read([text, second_text])
            return {
                **self._encode_rows(features),
                **_what_was_read(features),
                "is_cut": is_cut,
            }

        names = (*encoder.feature_names, *preprocessor.layout.extra_features)
        specs = batch_contract.tensor_specs(names, dict.fromkeys(("B", "L", "C", "N")))

        # A signature has named arguments, one for each feature.
        @tf.function(autograph=False)
        def encode_ids(**features: tf.Tensor) -> Mapping[str, tf.Tensor]:
            return self._encode_rows(checked(features, encoder))

        self.functions = {
            "serving_default": encode_text,
            "encode_pairs": encode_pairs,
            "encode_ids": encode_ids.get_concrete_function(
                **{name: tf.TensorSpec(*specs[name], name) for name in names}
            ),
        }


def _encoding(
    encoder: keras.Model, layout: Layout
) -> Callable[[Features], dict[str, tf.Tensor]]:
    def encode(features: Features) -> dict[str, tf.Tensor]:
        sequence_output = tf.cast(encoder(features, training=False), tf.float32)
        vectors, mask = layout.sentence_vectors(encoder, sequence_output, features)
        return {
            "sequence_output": sequence_output,
            "pooled_output": layout.pooled_output(sequence_output, vectors, mask),
            "sentence_vectors": vectors,
            "sentence_mask": mask,
        }

    return encode


def _what_was_read(features: Features) -> dict[str, tf.Tensor]:
    return {name: features[name] for name in ("token_ids", "padding_mask")}
