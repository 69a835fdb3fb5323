"""Defines the SavedModel signatures of encoders, classifiers and span extractors.

Shape key: B texts or questions, L row length, M sentences, D width, C classes, W
windows, N answers per question.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from seg_tf import features as batch_contract
from seg_tf.checkpoints.encoder_copies import copy_encoder
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.layouts.layout import Features
from seg_tf.layouts.spans import best_spans, check_answer_sizes
from seg_tf.preprocessing import (
    DocumentPreprocessor,
    SpanPreprocessor,
    TextPreprocessor,
)

Outputs = dict[str, tf.Tensor]

# Windows of long contexts are encoded in batches to limit memory use.
_WINDOWS_PER_BATCH = 32


class ServedModel(tf.Module):
    """Base class of the modules saved as SavedModels, with signatures and weights.

    A SavedModel contains all attributes, so the Keras model must not be one of them.

    Attributes:
        functions: dict. Signature functions by name. All models have `encode_ids`,
            which takes the features of rows.
        rows_of_texts: function from texts, string `(B,)`, to features of `encode_ids`.
    """

    functions: Mapping[str, Callable[..., Outputs]]
    rows_of_texts: Callable[[tf.Tensor], Features]

    def _serve_ids(
        self,
        model: keras.Model,
        encoder: keras.Model,
        names: Sequence[str],
        compute: Callable[[Features], Outputs],
    ) -> Any:
        """Adds the model's weights to the export. Returns the function `encode_ids`."""
        self.weights = [variable.value for variable in model.variables]

        # A signature has one named argument per feature.
        @tf.function(autograph=False)
        def encode_ids(**features: tf.Tensor) -> Outputs:
            return compute(_check_features(features, encoder))

        specs = batch_contract.tensor_specs(names, dict.fromkeys(("B", "L", "C", "N")))
        return encode_ids.get_concrete_function(
            **{name: tf.TensorSpec(*spec, name) for name, spec in specs.items()}
        )


def _text_specs(*names: str) -> list[tf.TensorSpec]:
    return [tf.TensorSpec([None], tf.string, name) for name in names]


def _check_features(features: Features, encoder: keras.Model) -> Features:
    """Returns the features, with checks that ids and indices are in their tables."""
    rows = {"token_ids": encoder.vocab_size, **getattr(encoder, "index_caps", {})}
    checks = []
    for name, values in features.items():
        if values.dtype.is_integer:
            message = f"`{name}` must be at least 0"
            checks.append(tf.debugging.assert_non_negative(values, message))
        if name in rows:
            message = f"`{name}` must be below {rows[name]}"
            checks.append(tf.debugging.assert_less(values, rows[name], message))
    with tf.control_dependencies([check for check in checks if check is not None]):
        return {name: tf.identity(values) for name, values in features.items()}


class ServedEncoder(ServedModel):
    """A pretrained encoder to serve. `docs/export.md` lists its outputs.

    Signatures:
        serving_default: takes `text`, string `(B,)`, one paragraph per line. Reads the
            sentences that fit into a row, or the beginning of a long first sentence.
        encode_pairs: takes `text` and `second_text`, string `(B,)`. As in fine-tuning,
            they share a row, each as one sentence. The longer is truncated to fit.
        encode_ids: takes the features of rows.
    """

    def __init__(self, pretrained: Pretrained, preprocessor: DocumentPreprocessor):
        super().__init__()
        self._preprocessor = preprocessor
        self._pairs = TextPreprocessor(pretrained, 2, preprocessor.layout.max_length)
        self.rows_of_texts = lambda texts: preprocessor.read(texts)[1]
        encoder, layout = copy_encoder(pretrained), preprocessor.layout

        def encode(features: Features) -> Outputs:
            sequence_output = tf.cast(encoder(features, training=False), tf.float32)
            vectors, mask = layout.sentence_vectors(encoder, sequence_output, features)
            return {
                "sequence_output": sequence_output,
                "pooled_output": layout.pooled_output(sequence_output, vectors, mask),
                "sentence_vectors": vectors,
                "sentence_mask": mask,
            }

        def encode_with_ids(features: Features) -> Outputs:
            names = ("token_ids", "padding_mask")
            return encode(features) | {name: features[name] for name in names}

        @tf.function(input_signature=_text_specs("text"), autograph=False)
        def encode_text(text: tf.Tensor) -> Outputs:
            trees, features = preprocessor.read(text)
            outputs = encode_with_ids(features)
            # The row of an empty text has a sentence, although the text has none.
            limit = tf.shape(outputs["sentence_mask"])[1]
            mask = tf.sequence_mask(trees.num_sentences, limit)
            sentences = tf.pad(trees.sentences, [[0, 0], [0, limit]])[:, :limit]
            return {
                **outputs,
                "sentence_vectors": tf.where(
                    mask[:, :, tf.newaxis], outputs["sentence_vectors"], 0
                ),
                "sentence_mask": mask,
                "sentences": sentences,
                "is_cut": trees.is_cut,
            }

        @tf.function(
            input_signature=_text_specs("text", "second_text"), autograph=False
        )
        def encode_pairs(text: tf.Tensor, second_text: tf.Tensor) -> Outputs:
            is_cut, features = self._pairs.read([text, second_text])
            return {**encode_with_ids(features), "is_cut": is_cut}

        names = (*encoder.feature_names, *layout.extra_features)
        self.functions = {
            "serving_default": encode_text,
            "encode_pairs": encode_pairs,
            "encode_ids": self._serve_ids(encoder, encoder, names, encode),
        }


class ServedClassifier(ServedModel):
    """A classifier or regressor to serve. `docs/export.md` lists its outputs.

    `serving_default` takes `text`, string `(B,)`, and for pairs also `second_text`. As
    in fine-tuning, each text is one sentence, and the longest is truncated to fit.
    `encode_ids` takes features of rows, and returns the same outputs except `is_cut`.

    Args:
        classifier: a `TextClassifier`.
        preprocessor: `TextPreprocessor` that converts texts to rows.
        labels: list of str. Names of the classes in order, empty for a regressor.
    """

    def __init__(
        self,
        classifier: keras.Model,
        preprocessor: TextPreprocessor,
        labels: Sequence[str],
    ):
        super().__init__()
        self._preprocessor = preprocessor
        labels = list(labels) or [""]
        num_texts = preprocessor.num_texts
        self.rows_of_texts = lambda texts: preprocessor.read([texts] * num_texts)[1]

        def classify_rows(features: Features) -> Outputs:
            logits = tf.cast(classifier(features, training=False), tf.float32)
            if classifier.num_classes == 1:
                return {"logits": logits, "value": logits[:, 0]}
            return {
                "logits": logits,
                "probabilities": tf.nn.softmax(logits),
                "label": tf.gather(tf.constant(labels), tf.argmax(logits, axis=1)),
            }

        names = ("text", "second_text", *(f"text_{n}" for n in range(3, num_texts + 1)))
        specs = _text_specs(*names[:num_texts])

        @tf.function(input_signature=specs, autograph=False)
        def classify(*texts: tf.Tensor) -> Outputs:
            is_cut, features = preprocessor.read(texts)
            return {**classify_rows(features), "is_cut": is_cut}

        self.functions = {
            "serving_default": classify,
            "encode_ids": self._serve_ids(
                classifier, classifier.encoder, classifier.feature_names, classify_rows
            ),
        }


class ServedExtractor(ServedModel):
    """A question answering model to serve. `docs/export.md` lists its outputs.

    `serving_default` takes `question` and `context`, string `(B,)`. It splits contexts
    into windows and selects answers as in fine-tuning on SQuAD. `encode_ids` returns
    the logits `start` and `end`, float32 `(B, L)`.

    Args:
        extractor: a `SpanExtractor`.
        preprocessor: `SpanPreprocessor` that converts questions and contexts to rows.
        max_answer_pieces: int. Maximum number of word pieces in an answer, at least 1.
        num_best: int. Number of answers per question, N, at least 1.
        null_threshold: float. The answer is empty if the output `null_odds` is above
            this threshold. If None, every question is answered (SQuAD 1.1).
    """

    def __init__(
        self,
        extractor: keras.Model,
        preprocessor: SpanPreprocessor,
        *,
        max_answer_pieces: int = 30,
        num_best: int = 1,
        null_threshold: float | None = None,
    ):
        super().__init__()
        check_answer_sizes(num_best, max_answer_pieces)
        self._preprocessor = preprocessor
        self.rows_of_texts = lambda texts: preprocessor.read(texts, texts).features

        @tf.function(
            input_signature=_text_specs("question", "context"), autograph=False
        )
        def answer(question: tf.Tensor, context: tf.Tensor) -> Outputs:
            rows = preprocessor.read(question, context)
            logits = _batched_logits(extractor, rows.features)
            at_cls = [logits[name][:, 0] for name in ("start", "end")]
            is_piece = rows.features["can_answer"][:, 1:]
            spans = best_spans(
                rows.contexts,
                rows.questions.contexts,
                rows.windows,
                *(
                    tf.boolean_mask(logits[name][:, 1:], is_piece)
                    for name in ("start", "end")
                ),
                tf.stack(at_cls, axis=1),
                num_best=num_best,
                max_answer_pieces=max_answer_pieces,
            )
            outputs = {
                "answer": spans.texts[:, 0],
                "start": spans.starts[:, 0],
                "end": spans.ends[:, 0],
                "score": tf.cast(spans.scores[:, 0], tf.float32),
                "is_cut": rows.questions.is_cut,
            }
            if null_threshold is not None:
                odds = spans.null_scores - spans.scores[:, 0]
                outputs["span"] = outputs["answer"]
                outputs["null_odds"] = tf.cast(odds, tf.float32)
                outputs["answer"] = tf.where(odds > null_threshold, "", outputs["span"])
            if num_best > 1:
                outputs["n_best_answers"] = spans.texts
                outputs["n_best_starts"] = spans.starts
                outputs["n_best_ends"] = spans.ends
                outputs["n_best_scores"] = tf.cast(spans.scores, tf.float32)
            return outputs

        self.functions = {
            "serving_default": answer,
            "encode_ids": self._serve_ids(
                extractor,
                extractor.encoder,
                _token_features(extractor),
                lambda features: _logits(extractor, features),
            ),
        }


def _token_features(extractor: keras.Model) -> list[str]:
    pointer = ("candidate_positions", "can_hold_answer")
    return [name for name in extractor.feature_names if name not in pointer]


def _logits(extractor: keras.Model, features: Features) -> Outputs:
    """Computes start and end logits, with dummy inputs for the sentence pointer."""
    features = {name: features[name] for name in _token_features(extractor)}
    if extractor.points_at_sentences:
        zeros = tf.zeros_like(features["token_ids"][:, :1])
        features |= {"candidate_positions": zeros, "can_hold_answer": zeros == 0}
    outputs = extractor(features, training=False)
    return {name: tf.cast(outputs[name], tf.float32) for name in ("start", "end")}


def _batched_logits(extractor: keras.Model, features: Features) -> Outputs:
    """Computes the start and end logits, float32 `(W, L)`, in batches of windows."""
    num_windows, row_length = tf.unstack(tf.shape(features["token_ids"]))

    def add_batch(begin: tf.Tensor, logits: Outputs) -> tuple[tf.Tensor, Outputs]:
        end = begin + _WINDOWS_PER_BATCH
        batch = {name: values[begin:end] for name, values in features.items()}
        new = _logits(extractor, batch)
        return end, {name: tf.concat([logits[name], new[name]], 0) for name in logits}

    any_rows = tf.TensorShape([None, None])
    _, logits = tf.while_loop(
        lambda begin, _: begin < num_windows,
        add_batch,
        (
            tf.constant(0),
            {name: tf.zeros([0, row_length]) for name in ("start", "end")},
        ),
        shape_invariants=(tf.TensorShape([]), {"start": any_rows, "end": any_rows}),
    )
    return logits
