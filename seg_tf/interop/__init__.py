"""Weights from and to the formats of others, and models by `from_preset`."""

import pathlib
import warnings
from typing import Self

from seg_tf.checkpoints import folders
from seg_tf.checkpoints.pretrained import Pretrained, load_pretrained


def load_preset(
    preset: str | pathlib.Path, sentence_function: str | None = None
) -> Pretrained:
    """Loads a checkpoint, or converts a model of another program.

    Arguments and errors are those of `FromPreset.from_preset`. Conversions are cached
    in `$XDG_CACHE_HOME/seg_tf`. A warning says if an encoder differs from its source.
    """
    folder = pathlib.Path(preset)
    if not folders.is_checkpoint(folder):
        # Slow to import.
        from seg_tf.interop import convert

        def warn(report: convert.ImportReport) -> None:
            if not report.equal_for:
                warnings.warn(report.equality(), stacklevel=6)

        folder = convert.find_initial(preset, "checkpoint_dir", report=warn)
    return load_pretrained(folder, sentence_function=sentence_function)


class FromPreset:
    """Base of classes whose constructor takes only a `Pretrained`."""

    def __init__(self, pretrained: Pretrained):
        raise NotImplementedError

    @classmethod
    def from_preset(
        cls, preset: str | pathlib.Path, *, sentence_function: str | None = None
    ) -> Self:
        """Creates an instance from a pretrained model.

        Args:
            preset: a run, a checkpoint, a saved task, `hf://organisation/name`, or the
                folder of a Hugging Face or keras-hub model.
            sentence_function: as for `load_pretrained`.

        Raises:
            CheckpointError: if there is no such model, or it is damaged.
            ValueError: if it is of another kind.
        """
        return cls(load_preset(preset, sentence_function))
