"""A model for text classification, regression and multiple choice."""

# Shape key: B batch, L row length, V input vectors of the head, D encoder width.

import functools
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras
import numpy as np
import scipy.special
import tensorflow as tf
from keras import ops

from seg_tf.checkpoints.encoder_copies import copy_encoder
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.export.served import ServedClassifier
from seg_tf.finetuning.batches import TextExamples, is_text, to_tuples
from seg_tf.finetuning.optimizer import (
    DEFAULT_LEARNING_RATE,
    LinearWarmupDecay,
    scheduled_optimizer,
)
from seg_tf.finetuning.text_task import TextTask
from seg_tf.interop import weights as foreign_weights
from seg_tf.layers.common import Dropout, feature_inputs
from seg_tf.layouts.layout import TextReadout
from seg_tf.preprocessing import TextPreprocessor
from seg_tf.training.tensorflow_engine import TensorFlowEngine

_BATCH_SIZE = 32


@keras.saving.register_keras_serializable(package="seg_tf")
class TextClassifier(TextTask):
    """An encoder with dropout and a dense layer on the vectors of the texts.

    The vectors depend on the encoder (see `seg_tf.layouts.layout`) and are
    concatenated: the pooled `[CLS]` (BERT, SegaBERT), `[CLS]` and all `[SENT]` (SLM,
    section 2.2 and figure 4), or all pooled `<SS>` (ReAT, section III).

    `fit`, `evaluate` and `predict` accept texts as well as batches of features. A model
    with one class is a regression model.

    Example:
    ```
    classifier = TextClassifier.from_preset("runs/segabert_base", num_classes=2)
    classifier.fit(texts, labels, epochs=3)
    classifier.save_to_preset("reviews")
    classifier.export("served")
    ```

    Args:
        encoder: `keras.Model` that maps features to a sequence `(B, L, D)`. It becomes
            part of the model and is trained with it.
        readout: `TextReadout` that selects the input vectors of the head.
        num_classes: int. Number of classes or answers. 1 means regression.
        dropout: float. Dropout rate before the dense layer.
        freeze_encoder: bool. Whether to freeze the encoder's weights and to run it in
            inference mode, without dropout.
        multiple_choice: bool. Whether the classes are answers. Each answer has a
            separate row and is scored by the same weights. A batch has
            `B * num_classes` rows, in the order of the examples.

    Call arguments:
        inputs: dict of the features in `feature_names`. Other entries are ignored.

    Returns:
        Logits, or the predicted values of a regression: float32 tensor
        `(B, num_classes)` for any dtype policy.
    """

    def __init__(
        self,
        encoder: keras.Model,
        readout: TextReadout,
        num_classes: int,
        dropout: float = 0.1,
        freeze_encoder: bool = False,
        multiple_choice: bool = False,
        name: str | None = None,
        trainable: bool | None = None,
    ):
        # === Layers ===
        policy = encoder.dtype_policy
        initializer = keras.initializers.TruncatedNormal(
            stddev=encoder.initializer_range
        )
        self.encoder = encoder
        self.pooler = None
        if readout.needs_pooler:
            self.pooler = keras.layers.Dense(
                encoder.hidden_size,
                activation="tanh",
                kernel_initializer=initializer.clone(),
                dtype=policy,
                name="pooler",
            )
        self.head_dropout = Dropout(dropout, dtype=policy, name="head_dropout")
        self.classifier = keras.layers.Dense(
            1 if multiple_choice else num_classes,
            kernel_initializer=initializer.clone(),
            dtype="float32",
            name="classifier",
        )

        # === Functional model ===
        inputs = feature_inputs((*encoder.feature_names, *readout.feature_names))
        encode = _WithoutDropout(encoder) if freeze_encoder else encoder
        sequence_BLD = encode(inputs)
        vectors_BVD = readout.head_vectors(encoder, sequence_BLD, inputs)
        width = readout.num_vectors * sequence_BLD.shape[-1]
        hidden = ops.reshape(vectors_BVD, (-1, width))
        if self.pooler is not None:
            hidden = self.pooler(hidden)
        logits = self.classifier(self.head_dropout(hidden))
        if multiple_choice:
            logits = ops.reshape(logits, (-1, num_classes))
        super().__init__(inputs=inputs, outputs=logits, name=name, trainable=trainable)
        self.dtype_policy = policy  # determines the loss scaling
        if freeze_encoder:
            # Last, because setting `trainable` of the model sets it in all layers.
            self.encoder.trainable = False

        # === Config ===
        self.readout = readout
        self.num_classes = num_classes
        self.dropout = dropout
        self.freeze_encoder = freeze_encoder
        self.multiple_choice = multiple_choice

    @classmethod
    def from_preset(
        cls,
        folder: str | pathlib.Path | Pretrained,
        num_classes: int | None = None,
        num_texts: int | None = None,
        *,
        num_choices: int | None = None,
        labels: Sequence[str] | None = None,
        max_length: int | None = None,
        dropout: float | None = None,
        freeze_encoder: bool | None = None,
        randomly_initialized: bool | None = None,
        seed: int | None = None,
        name: str | None = None,
        sentence_function: str | None = None,
    ) -> Self:
        """Creates a classifier from a pretrained encoder, or loads a saved classifier.

        Settings of a saved classifier can be omitted and must not be changed.

        Args:
            folder: str, path or result of `load_pretrained`. A folder written by
                `save_to_preset` is loaded with its head. Any other encoder (a run, a
                checkpoint, an included model, `hf://organization/name`, the folder of a
                Hugging Face or keras-hub BERT) is copied and gets a new head.
            num_classes: int. Number of classes. 1 means regression. Defaults to the
                number of `labels` or `num_choices`.
            num_texts: int. Number of texts per example: 2 for pairs. Defaults to 1.
            num_choices: int. Number of answers in multiple choice, which must equal
                `num_classes`. Each is read with the shared text. Defaults to 1.
            labels: sequence of str. Class names, in the order of their indices.
            max_length: int. Maximum row length. If None, the length in pretraining.
            dropout: float. Dropout rate before the dense layer. Defaults to 0.1.
            freeze_encoder: bool. Whether to train only the head.
            randomly_initialized: bool. Whether the encoder has random weights.
            seed: int. Seed of new weights and dropout. Defaults to a random seed.
            name: str. Name of the model.
            sentence_function: str. See `load_pretrained`.

        Raises:
            CheckpointError: if there is no checkpoint, or it is damaged.
            ValueError: if an argument is invalid or does not match the checkpoint.
        """
        settings = {
            "num_classes": num_classes,
            "num_texts": num_texts,
            "num_choices": num_choices,
            "labels": None if labels is None else list(map(str, labels)),
            "max_length": max_length,
            "dropout": dropout,
            "freeze_encoder": freeze_encoder,
            "randomly_initialized": randomly_initialized,
            "name": name,
        }
        return cls._load(folder, sentence_function, seed, settings)

    @classmethod
    def _create(
        cls,
        pretrained: Pretrained,
        num_classes: int | None = None,
        num_texts: int = 1,
        num_choices: int = 1,
        labels: Sequence[str] = (),
        max_length: int | None = None,
        dropout: float = 0.1,
        freeze_encoder: bool = False,
        randomly_initialized: bool = False,
        name: str | None = None,
    ) -> Self:
        is_choice = num_choices > 1
        if num_classes is None:
            num_classes = num_choices if is_choice else len(labels)
        is_complete = len({*labels}) == len(labels) == num_classes > 1
        if num_classes < 1 or (labels and not is_complete):
            raise ValueError(
                "`labels` must name every class, in order and each once; without them, "
                "`num_classes` must be given, 1 for a regression. Received: "
                f"{len(labels)} labels ({', '.join(labels)}), {num_classes} classes"
            )
        readout = pretrained.layout(max_length).readout(2 if is_choice else num_texts)
        encoder = copy_encoder(pretrained, randomly_initialized=randomly_initialized)
        task = cls(
            encoder, readout, num_classes, dropout, freeze_encoder, is_choice, name
        )
        # Use the pooler of an imported BERT, as transformers does.
        pooler = foreign_weights.read_pooler(pretrained.folder)
        if pooler and task.pooler and not randomly_initialized:
            task.pooler.set_weights([pooler["pooler/kernel"], pooler["pooler/bias"]])
        settings = {
            "num_classes": num_classes,
            "num_texts": num_texts,
            "labels": list(labels),
            "max_length": max_length,
            "dropout": dropout,
            "freeze_encoder": freeze_encoder,
        }
        if is_choice:
            settings["num_choices"] = num_choices
        return task._set_origin(pretrained, settings)

    # === Training and prediction ===

    @functools.cached_property
    def preprocessor(self) -> TextPreprocessor:
        """`TextPreprocessor` of the model, also for `dataset.map(preprocessor)`."""
        return TextPreprocessor(
            self.prepared(),
            num_texts=self.settings["num_texts"],
            max_length=self.settings["max_length"],
            num_choices=self.settings.get("num_choices", 1),
        )

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        *,
        validation_data: Any = None,
        validation_split: float = 0.0,
        sample_weight: Any = None,
        seed: int = 0,
        learning_rate: float | None = None,
        **arguments: Any,
    ) -> keras.callbacks.History:
        """Like `keras.Model.fit`, but also accepts texts.

        Unless you called `compile`, every call creates a new AdamW with BERT's
        settings. Its rate rises over the first tenth of the updates, then falls to 0.

        Args:
            x: a sequence, array or tensor of texts, or of tuples of texts; for
                `num_texts=2` also a tuple of all first and all second texts; a
                `tf.data.Dataset` of batches of texts and labels; or features.
            y: array-like `(E,)`. Class indices or names, or regression values.
            batch_size: int. Number of examples per update. Defaults to 32.
            epochs: int. Number of epochs. Defaults to 1.
            validation_data: `(texts, labels)`, `(texts, labels, weights)` or batches.
            validation_split: float. Fraction of the texts, at the end, to validate on.
            sample_weight: array-like `(E,)`. Weights of the examples in the loss.
            seed: int. Seed for shuffling the texts.
            learning_rate: float. Peak learning rate. Defaults to the rate of the
                previous call, otherwise to the checkpoint's rate, otherwise to 3e-5.
            **arguments: other arguments of `keras.Model.fit`.

        Raises:
            ValueError: if an argument is invalid, if `learning_rate` is given for a
                model that you compiled, or if the number of batches is unknown.
        """
        if is_text(x) and validation_split:
            texts = to_tuples(x, self.preprocessor.num_texts)
            num_train = math.floor(len(texts) * (1 - validation_split))
            columns = (texts, y, sample_weight)
            validation_data = [
                None if values is None else values[num_train:] for values in columns
            ]
            x, y, sample_weight = (
                None if values is None else values[:num_train] for values in columns
            )
            validation_split = 0.0
        if isinstance(validation_data, tuple | list) and is_text(validation_data[0]):
            validation_data = self._keras_data(*validation_data)["x"]
        else:
            validation_data = self._with_rows(_with_cardinality(validation_data))
        if "steps_per_epoch" not in arguments:
            x = _with_cardinality(x)  # before texts become rows
        order = seed if arguments.get("shuffle", True) else None
        data = self._keras_data(x, y, sample_weight, batch_size, order)
        schedule = self._schedule()
        if not self.compiled or (schedule is not None and schedule.for_one_fit):
            share = 1 - validation_split
            num_batches = arguments.get("steps_per_epoch") or _num_batches(data, share)
            num_epochs = epochs - arguments.get("initial_epoch", 0)
            self._compile(learning_rate, num_epochs * num_batches)
        elif learning_rate is not None:
            raise ValueError(
                "`learning_rate` must be left out for a model that you compiled, whose "
                f"optimizer has its own. Received: learning_rate={learning_rate}"
            )
        return super().fit(
            **data,
            epochs=epochs,
            validation_data=validation_data,
            validation_split=validation_split,
            **arguments,
        )

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        *,
        sample_weight: Any = None,
        **arguments: Any,
    ) -> Any:
        """Like `keras.Model.evaluate`, but also accepts texts and labels, as in `fit`.

        A model that is not compiled is compiled as in `fit`.
        """
        if not self.compiled:
            self._compile(None, 1)
        data = self._keras_data(x, y, sample_weight, batch_size)
        return super().evaluate(**data, **arguments)

    def predict(
        self, x: Any, batch_size: int | None = None, **arguments: Any
    ) -> np.ndarray:
        """Like `keras.Model.predict`, but also accepts texts, as in `fit`.

        Returns logits or regression values, a float32 array `(E, num_classes)`.
        """
        if is_text(x):
            examples = TextExamples(self.preprocessor, x)
            x, batch_size = examples.batches(batch_size or _BATCH_SIZE), None
        return super().predict(self._with_rows(x), batch_size=batch_size, **arguments)

    def predict_labels(
        self, x: Any, batch_size: int | None = None, **arguments: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Predicts the class of each example. Arguments are as for `predict`.

        Returns:
            Class names `(E,)`, or class indices for a model without `labels`, and the
            probabilities of all classes, float `(E, num_classes)`.

        Raises:
            ValueError: if the model is for regression, or the texts are invalid.
        """
        if self.num_classes == 1:
            raise ValueError(
                "`predict_labels` needs classes; `predict` gives the values of a "
                "regression. Received: a model with num_classes=1"
            )
        logits = self.predict(x, batch_size, **arguments)
        names = np.array(self._label_names() or range(self.num_classes))
        return names[logits.argmax(axis=1)], scipy.special.softmax(logits, axis=1)

    def _label_names(self) -> Sequence[str]:
        return self.settings["labels"] if self.pretrained else ()

    def _served(self) -> ServedClassifier:
        if self.multiple_choice:
            raise ValueError("A multiple choice cannot be exported")
        names = self._label_names() or list(map(str, range(self.num_classes)))
        return ServedClassifier(
            self, self.preprocessor, names if self.num_classes > 1 else []
        )

    def _keras_data(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        batch_size: int | None = None,
        seed: int | None = None,
    ) -> dict[str, Any]:
        """Returns arguments for Keras's methods, with texts converted to batches."""
        if not is_text(x):
            data = {"y": y, "sample_weight": sample_weight, "batch_size": batch_size}
            data = {name: value for name, value in data.items() if value is not None}
            return {"x": self._with_rows(x), **data}
        labels = y.numpy() if tf.is_tensor(y) else np.asarray(y)
        if labels.size and isinstance(labels.flat[0], str | bytes):
            names = {name: number for number, name in enumerate(self._label_names())}
            words = [
                word.decode() if isinstance(word, bytes) else str(word)
                for word in labels.flat
            ]
            if unknown := {*words} - names.keys():
                raise ValueError(
                    "`labels` must be labels of the model, "
                    f"{', '.join(names) or 'none'}. Received: {min(unknown)!r}"
                )
            labels = np.array([names[word] for word in words])
        elif self.num_classes == 1 and labels.dtype.kind in "iu":
            labels = labels.astype(np.float32)  # integer scores are not classes
        num_classes = self.num_classes if self.num_classes > 1 else None
        examples = TextExamples(
            self.preprocessor, x, labels, sample_weight, num_classes=num_classes
        )
        return {"x": examples.batches(batch_size or _BATCH_SIZE, seed)}

    def _with_rows(self, batches: Any) -> Any:
        """Converts a dataset of texts to features. Returns other values unchanged."""
        if not isinstance(batches, tf.data.Dataset):
            return batches
        texts, labels, _ = keras.utils.unpack_x_y_sample_weight(batches.element_spec)
        if any(spec.dtype != tf.string for spec in keras.tree.flatten(texts)):
            return batches
        if labels is not None and (
            labels.dtype == tf.string
            or (labels.shape.rank == 2 and labels.shape[1] != 1)
        ):
            raise ValueError(
                "Labels of a dataset of texts must be numbers of classes, not names or "
                f"one-hot rows. Received: labels of the shape {labels.shape} and the "
                f"type {labels.dtype.name}"
            )

        def rows(x: Any, y: Any = None, sample_weight: Any = None) -> Any:
            if y is not None and y.shape.rank == 2:
                y = y[:, 0]
            return self.preprocessor(x, y, sample_weight)

        mapped = batches.map(rows, num_parallel_calls=tf.data.AUTOTUNE)
        return mapped.prefetch(tf.data.AUTOTUNE)

    def _schedule(self) -> LinearWarmupDecay | None:
        # In float16, the optimizer is wrapped in a loss-scaling optimizer.
        optimizer = getattr(self, "optimizer", None)
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        schedule = getattr(optimizer, "_learning_rate", None)
        return schedule if isinstance(schedule, LinearWarmupDecay) else None

    def _compile(self, learning_rate: float | None, num_updates: int) -> None:
        if learning_rate is None:
            schedule = self._schedule()
            learning_rate = DEFAULT_LEARNING_RATE
            if schedule is not None:
                learning_rate = schedule.get_config()["learning_rate"]
            elif self.pretrained and self.pretrained.finetuning_learning_rate:
                learning_rate = self.pretrained.finetuning_learning_rate
        if not 0 < learning_rate < float("inf"):
            raise ValueError(
                "`learning_rate` must be positive and finite. Received: "
                f"learning_rate={learning_rate}"
            )
        schedule = LinearWarmupDecay(learning_rate, num_updates, for_one_fit=True)
        # For a metric given by name, Keras would create variables while it traces the
        # step, and trace the step again.
        accuracy = keras.metrics.SparseCategoricalAccuracy("accuracy")
        self.compile(
            scheduled_optimizer(schedule),
            self.loss_of_labels(),
            metrics=[accuracy] if self.num_classes > 1 else [],
            jit_compile=TensorFlowEngine().has_gpu(),
        )

    def loss_of_labels(self) -> keras.losses.Loss:
        """Returns the cross-entropy loss or, for regression, mean squared error."""
        if self.num_classes == 1:
            return keras.losses.MeanSquaredError()
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


class _WithoutDropout(keras.layers.Layer):
    def __init__(self, model: keras.Model, **kwargs: Any):
        super().__init__(autocast=False, **kwargs)
        self.model = model

    def call(self, inputs: Mapping[str, Any]) -> Any:
        return self.model(inputs, training=False)


def _with_cardinality(batches: Any) -> Any:
    if (
        isinstance(batches, tf.data.Dataset)
        and int(batches.cardinality()) == tf.data.UNKNOWN_CARDINALITY
    ):
        number = batches.reduce(np.int64(0), lambda count, *_: count + 1)
        return batches.apply(tf.data.experimental.assert_cardinality(number))
    return batches


def _num_batches(data: Mapping[str, Any], share: float) -> int:
    """Returns the number of batches per epoch. Raises a ValueError if it is unknown.

    `data` are arguments of `keras.Model.fit`. If its features are arrays, `share` is
    the fraction of them that is used for training.
    """
    number, x = tf.data.INFINITE_CARDINALITY, data["x"]
    if isinstance(x, tf.data.Dataset):
        number = int(x.cardinality())
    elif hasattr(features := (keras.tree.flatten(x) or [x])[0], "shape"):
        examples = math.floor(len(features) * share)
        number = math.ceil(examples / data.get("batch_size", _BATCH_SIZE))
    if number < 1:
        raise ValueError(
            "`x` must have a known number of batches, for the learning rate to fall "
            "to 0; `steps_per_epoch` gives one, and `compile` another schedule. "
            f"Received: {type(x).__name__} of the cardinality {number}"
        )
    return number
