"""Base class of fine-tuned models, which loads, saves and exports them."""

import dataclasses
import inspect
import json
import pathlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Self

import keras
import tensorflow as tf

from seg_tf import files
from seg_tf.checkpoints import contents, folders
from seg_tf.checkpoints.encoder_copies import seeded
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.config import from_config_dict, to_dict
from seg_tf.export import saved_model
from seg_tf.interop import load_preset
from seg_tf.layers.common import select_features
from seg_tf.text.encoding import (
    SENTENCE_PARAMETERS_FILE,
    VOCABULARY_FILE,
    TextPreparation,
    read_vocabulary,
)
from seg_tf.text.normalization import Normalization
from seg_tf.text.splitters import read_parameters

# Values of settings that a saved task may lack.
_UNSAVED = {"num_choices": 1, "randomly_initialized": False}


class TextTask(keras.Model):
    """An encoder with a head, and everything needed to use them on text.

    A saved task is a checkpoint whose only objective is the head. Commands that read
    checkpoints can also read a saved task, and use its fine-tuned encoder.

    Attributes:
        pretrained: the model's encoder with its vocabulary and text settings. None for
            a model that was built from an encoder only.
        settings: arguments of `from_preset` that recreate the model.
    """

    pretrained: Pretrained | None = None
    settings: Mapping[str, Any]

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features that the model reads from a batch."""
        return tuple(self.input)

    def __call__(self, inputs: Mapping[str, Any], **kwargs: Any) -> Any:
        return super().__call__(select_features(inputs, self.feature_names), **kwargs)

    def fit(self, x: Any = None, *args: Any, **kwargs: Any) -> keras.callbacks.History:
        """Like `keras.Model.fit`, but `shuffle` is False by default for datasets."""
        kwargs.setdefault("shuffle", not isinstance(x, tf.data.Dataset))
        if self.compiled and not self.optimizer.built:
            # If variables are created during tracing, the step is traced twice.
            self.optimizer.build(self.trainable_variables)
        return super().fit(x, *args, **kwargs)

    def get_config(self) -> dict[str, Any]:
        names = [*inspect.signature(type(self).__init__).parameters][1:]
        return {
            name: keras.saving.serialize_keras_object(getattr(self, name))
            for name in names
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects: Any = None) -> Self:
        return cls(
            **{
                name: keras.saving.deserialize_keras_object(value, custom_objects)
                for name, value in config.items()
            }
        )

    # === Presets ===

    @classmethod
    def from_preset(
        cls, folder: str | pathlib.Path, *, sentence_function: str | None = None
    ) -> Self:
        """Loads a saved task. Subclasses also create tasks from pretrained encoders.

        Args:
            folder: str or path. A folder written by `save_to_preset`.
            sentence_function: str. See `load_pretrained`.

        Raises:
            CheckpointError: if there is no checkpoint, or it is damaged.
            ValueError: if it is a task of another class.
        """
        return cls._load(folder, sentence_function)

    @classmethod
    def _load(
        cls,
        folder: str | pathlib.Path | Pretrained,
        sentence_function: str | None,
        seed: int | None = None,
        settings: Mapping[str, Any] = MappingProxyType({}),
    ) -> Self:
        """Creates a task on the encoder of a checkpoint, or loads a saved task."""
        settings = {key: value for key, value in settings.items() if value is not None}
        with seeded(seed):
            if isinstance(folder, Pretrained):
                return cls._create(folder, **settings)
            pretrained = load_preset(folder, sentence_function)
            saved = contents.read_state(pretrained.folder).get("task")
            if saved is None:
                return cls._create(pretrained, **settings)
            classes = {kind.__name__: kind for kind in (cls, *cls.__subclasses__())}
            if saved["class"] not in classes:
                raise ValueError(
                    f"`folder` must hold a {cls.__name__}. Received: {folder}, which "
                    f"holds a {saved['class']}"
                )
            fixed = {**_UNSAVED, **saved["settings"]}
            for name, value in settings.items():
                if json.dumps(fixed.get(name, value)) != json.dumps(value):
                    raise ValueError(
                        f"`{name}` must be as in the saved task or be left out. "
                        f"Received: {name}={value!r}, and {folder}, saved with "
                        f"{fixed[name]!r}"
                    )
            settings |= saved["settings"]
            task = classes[saved["class"]]._create(pretrained, **settings)
        # The encoder already has its weights.
        contents.restore(
            pretrained.folder,
            task.encoder,
            {"task": task},
            cast=True,
            with_encoder=False,
        )
        return task

    @classmethod
    def _create(cls, pretrained: Pretrained, **settings: Any) -> Self:
        raise NotImplementedError

    def _set_origin(self, pretrained: Pretrained, settings: Mapping[str, Any]) -> Self:
        self.pretrained = dataclasses.replace(
            pretrained, encoder=self.encoder, objectives={}
        )
        self.settings = dict(settings)
        return self

    def prepared(self) -> Pretrained:
        """Returns `pretrained`, or raises a ValueError if it is None."""
        if self.pretrained is None:
            raise ValueError(
                f"{self.name!r} was built without a preset, so it reads features, not "
                "text. `from_preset` loads a vocabulary as well"
            )
        return self.pretrained

    # === Saving ===

    def save_to_preset(
        self, folder: str | pathlib.Path, overwrite: bool = False
    ) -> None:
        """Writes the model, its vocabulary and its settings.

        Args:
            folder: str or path. A new or empty folder.
            overwrite: bool. Whether to replace a saved task in `folder`.

        Raises:
            ValueError: if `folder` has content that may not be overwritten, or if the
                model was built without a preset.
        """
        text, state = self._text_and_state()
        folder = pathlib.Path(folder).absolute()
        make = files.new_folder
        if (folder / contents.STATE_FILE).is_file() and is_saved_task(folder):
            if not overwrite:
                raise ValueError(
                    "`folder` must be new or empty unless `overwrite=True`. "
                    f"Received: {folder}, which contains a saved task"
                )
            make = files.written_aside
        with make(folder) as unfinished:
            unfinished.mkdir(exist_ok=True)
            contents.write(
                unfinished, self.encoder, {"task": self}, state, text.files()
            )

    def _text_and_state(self) -> tuple[TextPreparation, dict[str, Any]]:
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
        return text, {
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

    def save_assets(self, dir_path: str) -> None:
        """Saves the vocabulary and settings, if any. Called for `.keras` files."""
        if self.pretrained is None:
            return
        text, state = self._text_and_state()
        folder = pathlib.Path(dir_path)
        for name, content in text.files().items():
            (folder / name).write_bytes(content)
        files.write_json(folder / contents.STATE_FILE, state)

    def load_assets(self, dir_path: str) -> None:
        """Loads the vocabulary and settings, if any. Called for `.keras` files."""
        folder = pathlib.Path(dir_path)
        if not (folder / contents.STATE_FILE).is_file():
            return
        state = files.read_json(folder / contents.STATE_FILE)
        text = state["text"]
        pretrained = Pretrained(
            encoder=self.encoder,
            objectives={},
            config=from_config_dict(state["config"]),
            vocabulary=read_vocabulary(text["tokenizer"], folder / VOCABULARY_FILE),
            tokenizer=text["tokenizer"],
            normalization=Normalization.from_described(text),
            sentence_splitter=text["sentence_splitter"],
            folder=pathlib.Path(self.name),
            weights_checksum="",
            sentence_parameters=read_parameters(folder / SENTENCE_PARAMETERS_FILE),
            finetuning_learning_rate=state["finetuning_learning_rate"],
        )
        self._set_origin(pretrained, state["task"]["settings"])

    def export(
        self,
        folder: str | pathlib.Path,
        overwrite: bool = False,
        formats: Sequence[str] = (saved_model.SAVED_MODEL,),
        **choice: Any,
    ) -> None:
        """Exports a SavedModel, which accepts text, or an ONNX file of `encode_ids`.

        Args:
            folder: str or path. A new or empty folder.
            overwrite: bool. Whether to replace an existing exported model.
            formats: sequence of str. "saved_model", "onnx" or both.
            **choice: options of `SpanExtractor.answer`, for a `SpanExtractor` only.

        Raises:
            ValueError: if the folder has other content, a format is unavailable, the
                model was built without a preset, or the task is multiple choice.
        """
        saved_model.write(
            self._served(**choice),
            pathlib.Path(folder),
            self.prepared(),
            {**self.settings, **choice},
            overwrite=overwrite,
            formats=formats,
        )


def is_saved_task(folder: str | pathlib.Path) -> bool:
    """Returns whether a checkpoint is a saved task.

    Raises a `CheckpointError` if there is no checkpoint, or if it is damaged.
    """
    checkpoint = folders.find_checkpoint(pathlib.Path(folder), "checkpoint")
    return "task" in contents.read_state(checkpoint)
