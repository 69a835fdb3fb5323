"""Classification of texts and pairs of texts, regression, and multiple choice."""

# Shape key: B batch, V vectors that the head reads, D width of the encoder.

import functools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from seg_tf.checkpoints.encoder_copies import copy_encoder, seeded
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.export.served_classifier import ServedClassifier
from seg_tf.finetuning.classification.text_batches import text_batches
from seg_tf.finetuning.optimizer import (
    DEFAULT_LEARNING_RATE,
    LinearWarmupDecay,
    scheduled_optimizer,
)
from seg_tf.finetuning.segments import is_text
from seg_tf.finetuning.text_task import TextTask
from seg_tf.interop import pooler_file
from seg_tf.layers.common import Dropout, checked_names, feature_inputs
from seg_tf.layouts.layout import TextReadout
from seg_tf.preprocessing.text_preprocessor import TextPreprocessor
from seg_tf.training import devices

_BATCH_SIZE = 32


@keras.saving.register_keras_serializable(package="seg_tf")
class TextClassifier(TextTask):
    """An encoder, dropout and an affine layer on the vectors that stand for the texts.

    What these are depends on the encoder (see `seg_tf.layouts.layout`): the
    pooled `[CLS]` (BERT, SegaBERT), `[CLS]` and `[SENT]`s (SLM, section 2.2 and figure
    4), the pooled `<SS>`s (ReAT, section III), one behind the other.

    A Keras model like any other, that takes texts as well as batches of features. With
    one class it is a regression: train it with a squared error.

    Example:
    ```
    classifier = TextClassifier.from_preset("runs/segabert_base", num_classes=2)
    classifier.fit(texts, labels, epochs=3)
    classifier.save_to_preset("reviews")
    classifier.export("served")
    ```

    Args:
        encoder: from features to a sequence `(B, L, D)`. It becomes part of the model
            and is trained with it.
        readout: which vectors the head reads.
        num_classes: int. Outputs.
        dropout: float. Rate before the affine layer.
        freeze_encoder: bool. Whether the encoder keeps its weights; then there is no
            dropout in it either.
        multiple_choice: bool. Whether the classes are answers, each of which has a row
            and one score by the same weights: a batch has `B * num_classes` rows, those
            of an example one after another.
        name: str. Name of the model.
        trainable: bool. Whether its weights are trained; None leaves that to its parts.

    Call arguments:
        inputs: dict of the features that `feature_names` names. Others are left alone.

    Returns:
        Logits, or the numbers of a regression: float32 tensor `(B, num_classes)`
        whatever the dtype policy.

    Raises:
        ValueError: if there is no class.
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
        if num_classes < 1:
            raise ValueError(
                "`num_classes` must be at least 1, which is a regression. Received: "
                f"num_classes={num_classes}"
            )
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
        if freeze_encoder:
            # Afterwards: what `trainable` sets, it sets in all parts.
            self.encoder.trainable = False

        # === Config ===
        self.readout = readout
        self.num_classes = num_classes
        self.dropout = dropout
        self.freeze_encoder = freeze_encoder
        self.multiple_choice = multiple_choice

    @classmethod
    @checked_names
    def from_preset(
        cls,
        folder: str | pathlib.Path,
        num_classes: int | None = None,
        num_texts: int | None = None,
        *,
        num_choices: int | None = None,
        labels: Sequence[str] | None = None,
        max_length: int | None = None,
        dropout: float | None = None,
        freeze_encoder: bool | None = None,
        randomly_initialized: bool | None = None,
        keep_pooler: bool | None = None,
        seed: int | None = None,
        name: str | None = None,
        sentence_function: str | None = None,
    ) -> Self:
        """A classifier of a folder.

        Args:
            folder: a run or a checkpoint, whose encoder gets a new head, or what
                `save_to_preset` wrote.
            num_classes: as for `from_pretrained`, whose defaults hold for None. A saved
                classifier has its own settings; any that are given must be equal to
                them.
            num_texts: as for `num_classes`.
            num_choices: as for `num_classes`.
            labels: as for `num_classes`.
            max_length: as for `num_classes`.
            dropout: as for `num_classes`.
            freeze_encoder: as for `num_classes`.
            randomly_initialized: as for `num_classes`; not for a saved classifier.
            keep_pooler: as for `num_classes`; a saved classifier keeps its own.
            seed: as for `num_classes`.
            name: as for `num_classes`.
            sentence_function: as for `load_pretrained`.

        Raises:
            CheckpointError: if there is no checkpoint, or it is damaged.
            ValueError: if an argument is unknown, a saved task is of another class or
                has other settings, or as `from_pretrained` does.
        """
        settings = {
            "num_classes": num_classes,
            "num_texts": num_texts,
            "num_choices": num_choices,
            "labels": labels,
            "max_length": max_length,
            "dropout": dropout,
            "freeze_encoder": freeze_encoder,
            "randomly_initialized": randomly_initialized,
            "keep_pooler": keep_pooler,
            "seed": seed,
            "name": name,
        }
        return cls._from_folder(folder, sentence_function, settings)

    @classmethod
    def from_pretrained(
        cls,
        pretrained: Pretrained,
        num_classes: int | None = None,
        num_texts: int = 1,
        *,
        num_choices: int = 1,
        labels: Sequence[str] = (),
        max_length: int | None = None,
        dropout: float = 0.1,
        freeze_encoder: bool = False,
        randomly_initialized: bool = False,
        keep_pooler: bool = True,
        seed: int | None = None,
        name: str | None = None,
    ) -> Self:
        """A classifier on a copy of a checkpoint's encoder.

        Args:
            pretrained: what `load_pretrained` returned. It is left as it is.
            num_classes: outputs; 1 is a regression. None is one for each of `labels`.
            num_texts: texts of an example: 2 for pairs.
            num_choices: of a multiple choice, its answers; each is a row of two texts,
                the one that all share and its own.
            labels: names of the classes, in the order of their numbers.
            max_length: the most positions of an example; None takes those of
                pretraining.
            dropout: as for the class.
            freeze_encoder: likewise.
            randomly_initialized: whether the encoder starts from new weights, for a
                baseline.
            keep_pooler: whether the pooler of `[CLS]` starts from the weights of an
                imported checkpoint that has one, as in transformers, and not anew.
            seed: of the new weights and of dropout; None draws from Python's
                generator, as Keras does.
            name: of the model.

        Raises:
            ValueError: if the checkpoint is of no encoder, it cannot read so many
                texts at once, or there are not as many labels as classes.
        """
        num_classes = len(labels) if num_classes is None else num_classes
        _check_labels(labels, num_classes)
        is_choice = num_choices > 1
        of_row = 2 if is_choice else num_texts
        readout = pretrained.layout(max_length).readout(of_row)
        with seeded(seed):
            encoder = copy_encoder(
                pretrained, randomly_initialized=randomly_initialized
            )
            made = cls(
                encoder, readout, num_classes, dropout, freeze_encoder, is_choice, name
            )
        if keep_pooler and not randomly_initialized:
            made._restore_pooler(pretrained.folder)
        return made._made_of(
            pretrained,
            {
                "num_classes": num_classes,
                "num_texts": num_texts,
                "labels": list(labels),
                "max_length": max_length,
                "dropout": dropout,
                "freeze_encoder": freeze_encoder,
                **({"num_choices": num_choices} if is_choice else {}),
            },
        )

    def _restore_pooler(self, folder: pathlib.Path) -> None:
        """Takes the weights of the pooler in a checkpoint, if both have one."""
        weights = pooler_file.read(folder)
        if self.pooler is None or weights is None:
            return
        if weights.kernel.shape != tuple(self.pooler.kernel.shape):
            raise ValueError(
                f"{folder / pooler_file.POOLER_FILE}: the pooler must have a kernel of "
                f"shape {tuple(self.pooler.kernel.shape)}. Received: "
                f"{weights.kernel.shape}. `keep_pooler=False` starts a new one"
            )
        self.pooler.kernel.assign(weights.kernel)
        self.pooler.bias.assign(weights.bias)

    # === Text ===

    @functools.cached_property
    def preprocessor(self) -> TextPreprocessor:
        """Makes rows of texts in a graph: `dataset.map(classifier.preprocessor)`."""
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
        seed: int = 0,
        learning_rate: float | None = None,
        **arguments: Any,
    ) -> keras.callbacks.History:
        """As of every Keras model, and on texts.

        Unless you called `compile`, every call trains as BERT is fine-tuned: a new
        AdamW, whose learning rate rises over a tenth of the updates and falls to 0.

        Args:
            x: texts, or tuples of texts, which are spelled once, before; a
                `tf.data.Dataset` of batches of texts and labels, whose rows are made in
                its graph (`preprocessor`); or batches of features with labels.
            y: of texts: their labels, as numbers or names.
            batch_size: texts of an update; None takes 32.
            epochs: passes over the texts.
            validation_data: texts and labels, or batches.
            seed: of the order of texts.
            learning_rate: the highest one. None takes that of the previous call, or
                else the one that the checkpoint names, or else 3e-5.
            **arguments: further ones of `keras.Model.fit`.

        Raises:
            ValueError: if `learning_rate` is not positive and finite, or is given for
                a model that you compiled; or if the learning rate of such a model has
                already fallen to 0.
        """
        if is_text(x):
            x, y = self._labelled_batches(x, y, batch_size, seed), None
            batch_size = None
        x = self._with_rows(x)
        validation_data = self._with_rows(validation_data)
        if isinstance(validation_data, tuple | list) and is_text(validation_data[0]):
            try:
                validation_data = self._labelled_batches(*validation_data)
            except ValueError as error:
                raise ValueError(f"`validation_data`: {error}") from error
        schedule = self._schedule()
        if not self.compiled or (schedule is not None and schedule.for_one_fit):
            if learning_rate is None:
                learning_rate = self._default_learning_rate(schedule)
            if not 0 < learning_rate < float("inf"):
                raise ValueError(
                    "`learning_rate` must be positive and finite. Received: "
                    f"learning_rate={learning_rate}"
                )
            num_epochs = epochs - arguments.get("initial_epoch", 0)
            num_updates = num_epochs * _num_batches(x, arguments.get("steps_per_epoch"))
            schedule = LinearWarmupDecay(learning_rate, num_updates, for_one_fit=True)
            # Not by its name: Keras would make its variables while the step is traced,
            # and trace the step again.
            accuracy = keras.metrics.SparseCategoricalAccuracy("accuracy")
            self.compile(
                scheduled_optimizer(schedule),
                self.loss_of_labels(),
                metrics=[accuracy] if self.num_classes > 1 else [],
                jit_compile=devices.has_gpu(),
            )
        elif learning_rate is not None:
            raise ValueError(
                "`learning_rate` must be left out for a model that you compiled, whose "
                f"optimizer has its own. Received: learning_rate={learning_rate}"
            )
        return super().fit(
            x,
            y,
            batch_size=batch_size,
            epochs=epochs,
            validation_data=validation_data,
            **arguments,
        )

    def _default_learning_rate(self, schedule: LinearWarmupDecay | None) -> float:
        """That of the previous `fit`, of the checkpoint, or BERT's."""
        if schedule is not None:
            return schedule.get_config()["learning_rate"]
        named = self.pretrained and self.pretrained.finetuning_learning_rate
        return named or DEFAULT_LEARNING_RATE

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        **arguments: Any,
    ) -> Any:
        """As of every Keras model, and on texts with their labels."""
        if is_text(x):
            x, y, batch_size = self._labelled_batches(x, y, batch_size), None, None
        x = self._with_rows(x)
        return super().evaluate(x, y, batch_size=batch_size, **arguments)

    def predict(
        self, x: Any, batch_size: int | None = None, **arguments: Any
    ) -> np.ndarray:
        """Logits `(E, num_classes)`, as of every Keras model, and of texts."""
        if is_text(x):
            x, batch_size = self._batches(x, None, batch_size), None
        x = self._with_rows(x)
        return super().predict(x, batch_size=batch_size, **arguments)

    def _served(self) -> ServedClassifier:
        if self.multiple_choice:
            raise ValueError(
                "`export` takes classifiers of texts. Received: a multiple choice"
            )
        names = self.settings["labels"] or map(str, range(self.num_classes))
        of_classes = list(names) if self.num_classes > 1 else []
        return ServedClassifier(self, self.preprocessor, of_classes)

    def _with_rows(self, batches: Any) -> Any:
        """Batches of texts as rows; whatever else it is stays as it is."""
        if not isinstance(batches, tf.data.Dataset):
            return batches
        texts, labels, _ = keras.utils.unpack_x_y_sample_weight(batches.element_spec)
        if any(spec.dtype != tf.string for spec in keras.tree.flatten(texts)):
            return batches
        if labels is not None and labels.dtype == tf.string:
            raise ValueError(
                "Labels of a dataset of texts must be numbers. Received: strings"
            )
        rows = batches.map(self.preprocessor, num_parallel_calls=tf.data.AUTOTUNE)
        return rows.prefetch(tf.data.AUTOTUNE)

    def _labelled_batches(
        self, texts: Any, labels: Any = None, *arguments: Any
    ) -> tf.data.Dataset:
        if labels is None:
            raise ValueError("`labels` must be given with `texts`. Received: None")
        return self._batches(texts, labels, *arguments)

    def _batches(
        self,
        texts: Any,
        labels: Any,
        batch_size: int | None = None,
        seed: int | None = None,
    ) -> tf.data.Dataset:
        pretrained = self.prepared()
        if labels is not None and len(labels) and isinstance(labels[0], str):
            labels = [self._number_of(one) for one in labels]
        if self.num_classes == 1 and np.asarray(labels).dtype.kind in "iu":
            # Scores, if whole ones, and no classes.
            labels = np.asarray(labels, np.float32)
        num_choices = self.settings.get("num_choices", 1)
        return text_batches(
            pretrained,
            texts,
            labels,
            batch_size=batch_size or _BATCH_SIZE,
            seed=seed,
            max_length=self.settings["max_length"],
            num_choices=num_choices,
            num_texts=self.settings["num_texts"] if num_choices == 1 else None,
            num_classes=self.num_classes if self.num_classes > 1 else None,
        )

    def _number_of(self, label: str) -> int:
        names = self.settings["labels"]
        if label not in names:
            raise ValueError(
                "`labels` must be among those of the model, "
                f"{', '.join(names) or 'none'}. Received: {label!r}"
            )
        return names.index(label)

    def loss_of_labels(self) -> keras.losses.Loss:
        """The loss for `compile`: cross-entropy, or for one class the squared error."""
        if self.num_classes == 1:
            return keras.losses.MeanSquaredError()
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def get_config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "trainable": self.trainable,
            "encoder": keras.saving.serialize_keras_object(self.encoder),
            "readout": keras.saving.serialize_keras_object(self.readout),
            "num_classes": self.num_classes,
            "dropout": self.dropout,
            "freeze_encoder": self.freeze_encoder,
            "multiple_choice": self.multiple_choice,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects: Any = None) -> Self:
        made = {
            name: keras.saving.deserialize_keras_object(config[name], custom_objects)
            for name in ("encoder", "readout")
        }
        return cls(**{**config, **made})


class _WithoutDropout(keras.layers.Layer):
    """Calls a model as in inference, whatever the model around it is doing.

    A functional model hands its own `training` to all of its layers.

    Args:
        model: what is called, with weights that are not trained.
        **kwargs: arguments of `keras.layers.Layer`.
    """

    def __init__(self, model: keras.Model, **kwargs: Any):
        super().__init__(autocast=False, **kwargs)
        self.model = model

    def call(self, inputs: Mapping[str, Any]) -> Any:
        return self.model(inputs, training=False)


def _check_labels(labels: Sequence[str], num_classes: int) -> None:
    if num_classes == 1 and labels:
        raise ValueError(
            "`labels` must be empty for a regression, which gives a value. Received: "
            f"{', '.join(labels)}"
        )
    if labels and (len(set(labels)), len(labels)) != (num_classes, num_classes):
        raise ValueError(
            "`labels` must name every class of the model, in order and each once. "
            f"Received: {len(labels)} labels ({', '.join(labels)}), {num_classes} "
            "classes"
        )


def _num_batches(batches: Any, steps_per_epoch: int | None) -> int:
    """Updates of an epoch, for the schedule of a model that was not compiled."""
    if steps_per_epoch is not None:
        return steps_per_epoch
    number = int(batches.cardinality())
    if number < 1:
        raise ValueError(
            "`x` must have a known number of batches, for the learning rate to fall "
            "to 0; `steps_per_epoch` gives one, and `compile` another schedule. "
            f"Received: a dataset of the cardinality {number}"
        )
    return number
