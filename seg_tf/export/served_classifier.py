"""A fine-tuned classifier, or a regression, as a signature of a SavedModel.

Shape key: B examples, C classes.
"""

from collections.abc import Mapping, Sequence

import keras
import tensorflow as tf

from seg_tf import features as batch_contract
from seg_tf.export.served_model import ServedModel, checked, text_specs
from seg_tf.preprocessing.text_preprocessor import TextPreprocessor


class ServedClassifier(ServedModel):
    """A classifier of texts or of pairs of texts.

    Signatures:
        serving_default: from `text`, string `(B,)`, and for pairs `second_text`. As in
            fine-tuning a text is one sentence, and the longest is cut to what a row
            takes.
        encode_ids: from the features of rows.

    Outputs:
        logits: float32 `(B, C)`.
        probabilities: float32 `(B, C)`, and `label`, string `(B,)`, the likeliest; of a
            regression, with one class, instead `value`, float32 `(B,)`.
        is_cut: bool `(B,)`, of `serving_default` alone.

    Args:
        classifier: a `TextClassifier`.
        preprocessor: what makes rows for it, of one text or two.
        labels: names of the classes, in the order of their numbers; none for a
            regression.
    """

    def __init__(
        self,
        classifier: keras.Model,
        preprocessor: TextPreprocessor,
        labels: Sequence[str],
    ):
        super().__init__()
        num_classes = classifier.num_classes
        self._preprocessor = preprocessor
        self.hold(classifier)
        names = list(labels) or [""]
        self.rows_of_texts = lambda texts: preprocessor.read(
            [texts] * preprocessor.num_texts
        )[1]

        def answer(features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            logits = tf.cast(classifier(features, training=False), tf.float32)
            if num_classes == 1:
                return {"logits": logits, "value": logits[:, 0]}
            return {
                "logits": logits,
                "probabilities": tf.nn.softmax(logits),
                "label": tf.gather(tf.constant(names), tf.argmax(logits, axis=1)),
            }

        specs = text_specs(preprocessor.num_texts)

        @tf.function(input_signature=specs, autograph=False)
        def classify(*texts: tf.Tensor) -> Mapping[str, tf.Tensor]:
            is_cut, features = preprocessor.read(texts)
            return {**answer(features), "is_cut": is_cut}

        @tf.function(autograph=False)
        def classify_ids(**features: tf.Tensor) -> Mapping[str, tf.Tensor]:
            return answer(checked(features, classifier.encoder))

        specs = batch_contract.tensor_specs(
            classifier.feature_names, dict.fromkeys(("B", "L", "C", "N"))
        )
        self.functions = {
            "serving_default": classify,
            "encode_ids": classify_ids.get_concrete_function(
                **{name: tf.TensorSpec(*spec, name) for name, spec in specs.items()}
            ),
        }
