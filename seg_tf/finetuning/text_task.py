"""Fine-tuned models as keras-hub's tasks: loaded from a preset, saved, exported."""

import dataclasses
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras
import tensorflow as tf

from seg_tf import output_paths
from seg_tf.checkpoints import contents, folders
from seg_tf.checkpoints.encoder_copies import copy_encoder, seeded
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.config import to_dict
from seg_tf.export import saved_model
from seg_tf.export.served import ServedModel
from seg_tf.finetuning.optimizer import LinearWarmupDecay
from seg_tf.interop.presets import load_preset
from seg_tf.layers.common import checked_names, select_features
from seg_tf.text.encoding import TextPreparation

# Settings that are not saved: all weights, the pooler's too, are those of the task.
_OF_SAVED_TASKS = {"num_choices": 1, "randomly_initialized": False, "keep_pooler": True}


class TextTask(keras.Model):
    """An encoder with a head, and all that is needed to use both on text.

    A saved task is a checkpoint whose one objective is the head: commands that read a
    checkpoint read it too, with the fine-tuned encoder.

    Attributes:
        pretrained: vocabulary, casing and row form, with the model's own encoder; None
            for a model that Keras loaded from a `.keras` file.
        settings: arguments of `from_preset` that a copy of the model needs.

    Call arguments:
        inputs: dict of the features that `feature_names` names. Others are ignored.

    Raises:
        ValueError: if a feature is missing.
    """

    pretrained: Pretrained | None = None
    settings: Mapping[str, Any]

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features that the model reads from a batch."""
        return tuple(self.input)

    def __call__(self, inputs: Mapping[str, Any], **kwargs: Any) -> Any:
        return super().__call__(select_features(inputs, self.feature_names), **kwargs)

    def fit(
        self, x: Any = None, *args: Any, shuffle: bool | None = None, **kwargs: Any
    ) -> keras.callbacks.History:
        """As `keras.Model.fit`; datasets, which shuffle themselves, give no warning.

        Raises:
            ValueError: if the learning rate has already fallen to 0.
        """
        if shuffle is None:
            shuffle = not isinstance(x, tf.data.Dataset)
        schedule = self._schedule()
        if schedule is not None:
            updates = int(self.optimizer.iterations)
            num_updates = schedule.get_config()["num_updates"]
            if 0 < num_updates <= updates:
                raise ValueError(
                    "`fit` would change no weight: the schedule of the optimizer has "
                    "reached its end, a learning rate of 0. Call `compile` with a new "
                    f"optimizer first. Received: {updates} updates of {num_updates}"
                )
        optimizer = getattr(self, "optimizer", None)
        if optimizer is not None and not optimizer.built:
            # Variables made while the step is traced have it traced a second time.
            optimizer.build(self.trainable_variables)
        return super().fit(x, *args, shuffle=shuffle, **kwargs)

    def _schedule(self) -> LinearWarmupDecay | None:
        """The fine-tuning schedule that the model was compiled with, if any."""
        # In float16 there is a loss scale around the optimizer.
        optimizer = getattr(self, "optimizer", None)
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        schedule = getattr(optimizer, "_learning_rate", None)
        return schedule if isinstance(schedule, LinearWarmupDecay) else None

    # === Presets ===

    @classmethod
    @checked_names
    def from_preset(
        cls, folder: str | pathlib.Path, *, sentence_function: str | None = None
    ) -> Self:
        """A saved task; each class has further settings for new ones.

        Args:
            folder: what `save_to_preset` wrote.
            sentence_function: as for `load_pretrained`.

        Raises:
            CheckpointError: if there is no checkpoint, or it is damaged.
            ValueError: if it is no saved task of this class.
        """
        return cls._load(folder, sentence_function, {})

    @classmethod
    def _load(
        cls,
        folder: str | pathlib.Path | Pretrained,
        sentence_function: str | None,
        given: Mapping[str, Any],
    ) -> Self:
        """A new task on the encoder of a checkpoint, or a saved task.

        Args:
            folder: as for `from_preset`.
            sentence_function: as for `load_pretrained`.
            given: settings; None stands for one that was not given.
        """
        given = {name: value for name, value in given.items() if value is not None}
        with seeded(given.pop("seed", None)):
            if isinstance(folder, Pretrained):
                return cls._on(folder, **given)
            pretrained = load_preset(folder, sentence_function)
            saved = contents.read_state(pretrained.folder).get("task")
            if saved is None:
                return cls._on(pretrained, owns_encoder=True, **given)
            classes = {one.__name__: one for one in (cls, *cls.__subclasses__())}
            if saved["class"] not in classes:
                raise ValueError(
                    f"`folder` must hold a {cls.__name__}. Received: {folder}, which "
                    f"holds a {saved['class']}"
                )
            fixed = {**_OF_SAVED_TASKS, **saved["settings"]}
            for name, value in given.items():
                if json.dumps(fixed.get(name, value)) != json.dumps(value):
                    raise ValueError(
                        f"`{name}` must be that of the saved task or be left out. "
                        f"Received: {name}={value!r}, and {folder}, saved with "
                        f"{fixed[name]!r}"
                    )
            task = classes[saved["class"]]._on(
                pretrained, owns_encoder=True, **{**given, **saved["settings"]}
            )
        # The encoder has its weights already.
        contents.restore_others(
            pretrained.folder, task.encoder, {"task": task}, cast=True
        )
        return task

    @classmethod
    def _on(
        cls, pretrained: Pretrained, owns_encoder: bool = False, **settings: Any
    ) -> Self:
        """A new task; each class has its own settings and their defaults.

        Args:
            pretrained: the checkpoint.
            owns_encoder: whether its encoder becomes part of the task; otherwise a copy
                does.
            **settings: those that were given to `from_preset`.
        """
        raise NotImplementedError

    @staticmethod
    def _encoder_of(
        pretrained: Pretrained, owns_encoder: bool, randomly_initialized: bool
    ) -> keras.Model:
        encoder = pretrained.encoder
        # Rows of fine-tuning are one window each.
        is_packed = getattr(encoder, "packed_windows", False)
        if owns_encoder and not randomly_initialized and not is_packed:
            return encoder
        return copy_encoder(pretrained, randomly_initialized=randomly_initialized)

    def _made_of(self, pretrained: Pretrained, settings: Mapping[str, Any]) -> Self:
        """Remembers what the task was made of."""
        self.pretrained = dataclasses.replace(
            pretrained, encoder=self.encoder, objectives={}
        )
        self.settings = dict(settings)
        return self

    def save_to_preset(self, folder: str | pathlib.Path) -> None:
        """Writes the model, its vocabulary and its settings.

        Args:
            folder: a new folder.

        Raises:
            ValueError: if the model was loaded from a file without a vocabulary.
            OSError: if the folder cannot be written.
        """
        pretrained = self.prepared()
        vocabulary = pretrained.vocabulary
        parameters = pretrained.sentence_parameters
        text = TextPreparation(
            vocabulary.to_bytes(),
            pretrained.normalization,
            {"name": parameters.name, "parameters_sha256": parameters.checksum},
            pretrained.tokenizer,
            parameters.to_bytes(),
        )
        config = dataclasses.replace(pretrained.config, objectives={})
        state = {
            "config": to_dict(config),
            "task": {"class": type(self).__name__, "settings": dict(self.settings)},
            "text": text.described(),
            "vocab_size": vocabulary.size,
            "vocab_checksum": type(vocabulary)(vocabulary.tokens).checksum,
            "updates": 0,
            "samples": 0,
            "validation": None,
            "finetuning_learning_rate": pretrained.finetuning_learning_rate,
        }
        with output_paths.new_folder(pathlib.Path(folder)) as unfinished:
            contents.write(
                unfinished, self.encoder, {"task": self}, state, text.files()
            )

    def export(
        self,
        folder: str | pathlib.Path,
        overwrite: bool = False,
        formats: Sequence[str] = (saved_model.SAVED_MODEL,),
        **choice: Any,
    ) -> None:
        """Writes a SavedModel that takes text.

        Args:
            folder: a new folder.
            overwrite: whether an existing exported model is replaced.
            formats: "saved_model", "onnx" (`seg_tf.export.onnx_file`) or both.
            **choice: for a `SpanExtractor`: as for `answer`.

        Raises:
            ValueError: if `folder` holds something else, the model has no vocabulary,
                or it is a multiple choice.
        """
        saved_model.write(
            self._served(**choice),
            pathlib.Path(folder),
            self.prepared(),
            {**self.settings, **choice},
            overwrite=overwrite,
            formats=formats,
        )

    def _served(self, **choice: Any) -> ServedModel:
        """The model that `export` saves."""
        raise NotImplementedError

    def prepared(self) -> Pretrained:
        """Vocabulary and row form of the model.

        Raises:
            ValueError: if it was loaded from a file without them.
        """
        if self.pretrained is None:
            raise ValueError(
                "A model that Keras loaded from a .keras file reads features, not "
                "text. Save it with `save_to_preset` and load it with `from_preset`"
            )
        return self.pretrained


def is_saved_task(folder: str | pathlib.Path) -> bool:
    """Returns True for a folder that `TextTask.save_to_preset` wrote.

    Raises:
        CheckpointError: if it holds neither that nor a checkpoint.
    """
    checkpoint = folders.find_checkpoint(pathlib.Path(folder), "checkpoint")
    return "task" in contents.read_state(checkpoint)
