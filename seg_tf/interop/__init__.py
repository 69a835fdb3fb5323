"""Imports and exports other libraries' weights, and loads models by `from_preset`."""

import pathlib
import warnings
from typing import Self

from seg_tf.checkpoints import folders
from seg_tf.checkpoints.pretrained import Pretrained, load_pretrained


def load_preset(
    preset: str | pathlib.Path, sentence_function: str | None = None
) -> Pretrained:
    """Loads a checkpoint, or another library's model after converting it.

    See `FromPreset.from_preset` for arguments and errors. Conversions are cached in
    `$XDG_CACHE_HOME/seg_tf`. Warns if a new conversion changes the encoder's outputs.
    """
    folder = pathlib.Path(preset)
    if not folders.is_checkpoint(folder):
        # Slow to import.
        from seg_tf.interop import convert

        def warn(report: convert.ImportReport) -> None:
            if not report.equal_for:
                warnings.warn(report.equality(), stacklevel=6)

        folder = convert.find_initial(preset, "preset", report=warn)
    return load_pretrained(folder, sentence_function=sentence_function)


class FromPreset:
    """Base class of models whose constructor needs only a `Pretrained`."""

    def __init__(self, pretrained: Pretrained):
        raise NotImplementedError

    @classmethod
    def from_preset(
        cls, preset: str | pathlib.Path, *, sentence_function: str | None = None
    ) -> Self:
        """Creates an instance from a pretrained model.

        Args:
            preset: str or path. An included model's name, `hf://organization/name`, or
                the folder of a run, checkpoint, saved task or another library's model.
            sentence_function: str. `module:function`. A Python function that splits the
                model's sentences only runs if it is named here.

        Raises:
            CheckpointError: if there is no such model or it is damaged.
            ValueError: if the model cannot be converted, is not supported by this class
                or names a function other than `sentence_function`.
        """
        return cls(load_preset(preset, sentence_function))
