"""Fine-tuned models as keras-hub's tasks: made of a folder, saved to one, exported."""

import dataclasses
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Self

from seg_tf import configuration
from seg_tf.checkpoints import contents, folders
from seg_tf.checkpoints.pretrained import Pretrained, load_pretrained
from seg_tf.export import saved_model
from seg_tf.export.served_model import ServedModel
from seg_tf.finetuning.feature_model import FeatureModel
from seg_tf.interop import new_folder
from seg_tf.text.preparation import TextPreparation

# In the folder of a trial.
MODEL_FOLDER = "model"


class TextTask(FeatureModel):
    """An encoder with a head, and all that is needed to use both on text.

    A saved task is a checkpoint whose one objective is the head: commands that read a
    checkpoint read it too, with the encoder as it was fine-tuned.

    Attributes:
        pretrained: what the model was made of: vocabulary, casing and row form, with
            the model's own encoder; None for one that Keras loaded of a `.keras` file.
        settings: arguments of `from_pretrained` that a copy of the model needs.
    """

    pretrained: Pretrained | None = None
    settings: Mapping[str, Any]

    @classmethod
    def from_pretrained(cls, pretrained: Pretrained, **settings: Any) -> Self:
        """A task on a copy of a checkpoint's encoder; each class has its own."""
        raise NotImplementedError

    @classmethod
    def from_preset(cls, folder: str | pathlib.Path, **settings: Any) -> Self:
        """A task of a folder.

        Args:
            folder: a run, a checkpoint, whose encoder gets a new head; or what
                `save_to_preset` wrote.
            **settings: as for `from_pretrained`. A saved task has its own.

        Raises:
            CheckpointError: if there is no checkpoint, or it is damaged.
            ValueError: if a saved task is of another class or has other settings, or
                as `from_pretrained` does.
        """
        pretrained = load_pretrained(folder)
        saved = contents.read_state(pretrained.folder).get("task")
        if saved is None:
            return cls.from_pretrained(pretrained, **settings)
        classes = {one.__name__: one for one in (cls, *cls.__subclasses__())}
        if saved["class"] not in classes:
            raise ValueError(
                f"`folder` must hold a {cls.__name__}. Received: {folder}, which holds "
                f"a {saved['class']}"
            )
        for name, value in settings.items():
            if json.dumps(saved["settings"].get(name, value)) != json.dumps(value):
                raise ValueError(
                    f"`{name}` must be that of the saved task or be left out. "
                    f"Received: {name}={value!r}, and {folder}, saved with "
                    f"{saved['settings'][name]!r}"
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
            "config": configuration.to_dict(config),
            "task": {"class": type(self).__name__, "settings": dict(self.settings)},
            "text": text.described(),
            "vocab_size": vocabulary.size,
            "vocab_checksum": type(vocabulary)(vocabulary.tokens).checksum,
            "updates": 0,
            "samples": 0,
            "validation": None,
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
            formats: "saved_model", "onnx", "litert": `seg_tf.export.portable`.
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
