"""Fine-tuned models as keras-hub's tasks: made of a folder, saved to one, exported."""

import dataclasses
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras
import tensorflow as tf

from seg_tf.checkpoints import contents, folders
from seg_tf.checkpoints.pretrained import Pretrained, load_pretrained
from seg_tf.config import to_dict
from seg_tf.export import saved_model
from seg_tf.export.served_model import ServedModel
from seg_tf.finetuning.optimizer import LinearWarmupDecay
from seg_tf.interop import new_folder
from seg_tf.layers.common import checked_names, select_features
from seg_tf.text.encoding import TextPreparation

# In the folder of a trial.
MODEL_FOLDER = "model"
# Settings that are not saved: all weights, the pooler's too, are those of the task.
_OF_SAVED_TASKS = {"num_choices": 1, "randomly_initialized": False, "keep_pooler": True}


class TextTask(keras.Model):
    """An encoder with a head, and all that is needed to use both on text.

    A saved task is a checkpoint whose one objective is the head: commands that read a
    checkpoint read it too, with the encoder as it was fine-tuned.

    Attributes:
        pretrained: what the model was made of: vocabulary, casing and row form, with
            the model's own encoder; None for one that Keras loaded of a `.keras` file.
        settings: arguments of `from_pretrained` that a copy of the model needs.

    Call arguments:
        inputs: dict of the features that `feature_names` names. Others are left alone.

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
        """As of every Keras model; datasets shuffle themselves, without a warning.

        Args:
            x: as for `keras.Model.fit`.
            *args: likewise.
            shuffle: likewise; None shuffles whatever is no dataset.
            **kwargs: as for `keras.Model.fit`.

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

    @classmethod
    def from_pretrained(cls, pretrained: Pretrained) -> Self:
        """A task on a copy of a checkpoint's encoder; each class has its settings."""
        raise NotImplementedError

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
        return cls._from_folder(folder, sentence_function, {})

    @classmethod
    def _from_folder(
        cls,
        folder: str | pathlib.Path,
        sentence_function: str | None,
        settings: Mapping[str, Any],
    ) -> Self:
        """A task of a folder.

        Args:
            folder: as for `from_preset`.
            sentence_function: likewise.
            settings: those of `from_pretrained`; None is one that was not given.
        """
        settings = {
            name: value for name, value in settings.items() if value is not None
        }
        pretrained = load_pretrained(folder, sentence_function=sentence_function)
        saved = contents.read_state(pretrained.folder).get("task")
        if saved is None:
            return cls.from_pretrained(pretrained, **settings)
        classes = {one.__name__: one for one in (cls, *cls.__subclasses__())}
        if saved["class"] not in classes:
            raise ValueError(
                f"`folder` must hold a {cls.__name__}. Received: {folder}, which holds "
                f"a {saved['class']}"
            )
        fixed = {**_OF_SAVED_TASKS, **saved["settings"]}
        for name, value in settings.items():
            if json.dumps(fixed.get(name, value)) != json.dumps(value):
                raise ValueError(
                    f"`{name}` must be that of the saved task or be left out. "
                    f"Received: {name}={value!r}, and {folder}, saved with "
                    f"{fixed[name]!r}"
                )
        made = classes[saved["class"]].from_pretrained(
            pretrained, **{**settings, **saved["settings"]}
        )
        # The encoder's weights came with the copy.
        contents.restore_others(
            pretrained.folder, made.encoder, {"task": made}, cast=True
        )
        return made

    def save_to_preset(self, folder: str | pathlib.Path) -> None:
        """Writes the model, its vocabulary and its settings.

        Args:
            folder: a new folder.

        Raises:
            ValueError: if the model was loaded of a file that knows no vocabulary.
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
        with new_folder.written_aside(pathlib.Path(folder)) as unfinished:
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
            overwrite: whether an exported model that is there is replaced.
            formats: "saved_model", "onnx" (`seg_tf.export.onnx_file`) or both.
            **choice: of a `SpanExtractor`: as for `answer`.

        Raises:
            ValueError: if something else is there, the model knows no vocabulary, or
                it is a multiple choice.
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
        """The model that `export` saves; each class has its own."""
        raise NotImplementedError

    def prepared(self) -> Pretrained:
        """Vocabulary and row form of the model.

        Raises:
            ValueError: if it was loaded of a file that knows none.
        """
        if self.pretrained is None:
            raise ValueError(
                "A model that Keras loaded of a .keras file reads features, not text. "
                "Save it with `save_to_preset` and load it with `from_preset`"
            )
        return self.pretrained

    def _made_of(self, pretrained: Pretrained, settings: Mapping[str, Any]) -> Self:
        """Remembers what `from_pretrained` was called with."""
        self.pretrained = dataclasses.replace(
            pretrained, encoder=self.encoder, objectives={}
        )
        self.settings = dict(settings)
        return self


def is_saved_task(folder: str | pathlib.Path) -> bool:
    """Returns True for a folder that `TextTask.save_to_preset` wrote.

    Raises:
        CheckpointError: if it holds neither that nor a checkpoint.
    """
    checkpoint = folders.find_checkpoint(pathlib.Path(folder), "checkpoint")
    return "task" in contents.read_state(checkpoint)
