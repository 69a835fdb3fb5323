"""Classification of texts and pairs of texts, and regression."""

# Shape key: B batch, V vectors that the head reads, D width of the encoder.

import pathlib
from collections.abc import Mapping
from typing import Any, Self

import keras
from keras import ops

from seg_tf.checkpoints.encoder_copies import copy_encoder, seeded
from seg_tf.checkpoints.pretrained import Pretrained, load_pretrained
from seg_tf.finetuning.feature_model import (
    FeatureModel,
    WithoutDropout,
    feature_inputs,
)
from seg_tf.layouts.readouts import TextReadout


@keras.saving.register_keras_serializable(package="seg_tf")
class TextClassifier(FeatureModel):
    """An encoder, dropout and an affine layer on the vectors that stand for the texts.

    What these are depends on the encoder (see `seg_tf.layouts.readouts`): the
    pooled `[CLS]` (BERT, SegaBERT), `[CLS]` and `[SENT]`s (SLM, section 2.2 and figure
    4), the pooled `<SS>`s (ReAT, section III), one behind the other.

    A Keras model like any other: `compile`, `fit`, `evaluate`, `predict`, `save`. With
    one class it is a regression: train it with a squared error.

    Args:
        encoder: from features to a sequence `(B, L, D)`. It becomes part of the model
            and is trained with it.
        readout: which vectors the head reads.
        num_classes: int. Outputs.
        dropout: float. Rate before the affine layer.
        freeze_encoder: bool. Whether the encoder keeps its weights; then there is no
            dropout in it either.
        **kwargs: `name` and `trainable`.

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
        **kwargs: Any,
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
        self.head_dropout = keras.layers.Dropout(
            dropout, dtype=policy, name="head_dropout"
        )
        self.classifier = keras.layers.Dense(
            num_classes,
            kernel_initializer=initializer.clone(),
            dtype="float32",
            name="classifier",
        )

        # === Functional model ===
        inputs = feature_inputs((*encoder.feature_names, *readout.feature_names))
        encode = WithoutDropout(encoder) if freeze_encoder else encoder
        sequence_BLD = encode(inputs)
        vectors_BVD = readout.head_vectors(encoder, sequence_BLD, inputs)
        width = readout.num_vectors * sequence_BLD.shape[-1]
        hidden = ops.reshape(vectors_BVD, (-1, width))
        if self.pooler is not None:
            hidden = self.pooler(hidden)
        logits = self.classifier(self.head_dropout(hidden))
        super().__init__(inputs=inputs, outputs=logits, **kwargs)
        if freeze_encoder:
            # Afterwards: what `trainable` sets, it sets in all parts.
            self.encoder.trainable = False

        # === Config ===
        self.readout = readout
        self.num_classes = num_classes
        self.dropout = dropout
        self.freeze_encoder = freeze_encoder

    @classmethod
    def from_pretrained(
        cls,
        pretrained: Pretrained,
        num_classes: int,
        num_texts: int = 1,
        *,
        randomly_initialised: bool = False,
        seed: int | None = None,
        **arguments: Any,
    ) -> Self:
        """A classifier on a copy of a checkpoint's encoder.

        Args:
            pretrained: what `load_pretrained` returned. It is left as it is.
            num_classes: outputs; 1 is a regression.
            num_texts: texts of an example: 2 for pairs.
            randomly_initialised: whether the encoder starts from new weights, for a
                baseline.
            seed: of the new weights and of dropout; None draws from Python's
                generator, as Keras does.
            **arguments: further ones of the constructor.

        Raises:
            ValueError: if the checkpoint is of no encoder, or it cannot read so many
                texts at once.
        """
        readout = pretrained.layout().readout(num_texts)
        with seeded(seed):
            encoder = copy_encoder(
                pretrained, randomly_initialised=randomly_initialised
            )
            return cls(encoder, readout, num_classes, **arguments)

    @classmethod
    def from_checkpoint(
        cls,
        checkpoint_dir: str | pathlib.Path,
        num_classes: int,
        num_texts: int = 1,
        **arguments: Any,
    ) -> Self:
        """As `from_pretrained`, from the folder of a checkpoint or a run.

        Args:
            checkpoint_dir: as for `seg_tf.checkpoints.pretrained.load_pretrained`.
            num_classes: as for `from_pretrained`.
            num_texts: likewise.
            **arguments: further ones of `from_pretrained`.

        Raises:
            CheckpointError: if there is no checkpoint, or it is damaged.
            ValueError: as in `from_pretrained`.
        """
        pretrained = load_pretrained(checkpoint_dir)
        return cls.from_pretrained(pretrained, num_classes, num_texts, **arguments)

    def loss_of_labels(self) -> keras.losses.Loss:
        """What `compile` wants: cross-entropy, or of one class the squared error."""
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
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects: Any = None) -> Self:
        made = {
            name: keras.saving.deserialize_keras_object(config[name], custom_objects)
            for name in ("encoder", "readout")
        }
        return cls(**{**config, **made})
