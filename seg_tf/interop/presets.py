"""Models by `from_preset`: checkpoints of ours, and models of other programs."""

import pathlib
import warnings
from typing import Self

from seg_tf import files
from seg_tf.checkpoints import folders
from seg_tf.checkpoints.pretrained import Pretrained, load_pretrained
from seg_tf.layers.common import checked_names


def load_preset(
    preset: str | pathlib.Path, sentence_function: str | None = None
) -> Pretrained:
    """Loads a checkpoint, or converts a model of another program.

    Conversions are cached in `$XDG_CACHE_HOME/seg_tf`.

    Args:
        preset: a checkpoint, a run, or a source of `seg_tf.interop.convert.open_model`:
            `hf://organisation/name`, or the folder of a Hugging Face or keras-hub
            model.
        sentence_function: as for `load_pretrained`.

    Raises:
        CheckpointError: if there is no such model, or it is damaged.
        ForeignWeightsError: if a model of another program cannot be read.

    Warns:
        UserWarning: if the encoder is not equal to its source.
    """
    folder = pathlib.Path(preset)
    if not folders.is_checkpoint(folder):
        # Slow to import.
        from seg_tf.interop import convert

        if convert.is_foreign(preset):
            if str(preset).startswith("hf://"):
                folder = convert.download(str(preset))
            paths = folder.rglob("*") if folder.is_dir() else folder.parent.iterdir()
            listing = sorted(
                [str(path), path.stat().st_size, path.stat().st_mtime_ns]
                for path in paths
                if path.is_file()
            )
            cache = files.cache_dir() / "converted"
            cache.mkdir(parents=True, exist_ok=True)
            converted = cache / files.content_checksum({"files": listing})
            with files.locked(cache):
                if not converted.exists():
                    report = convert.convert(convert.open_model(folder), converted)
                    if not report.equal_for:
                        warnings.warn(report.equality(), stacklevel=3)
            folder = converted
    return load_pretrained(folder, sentence_function=sentence_function)


class FromPreset:
    """Base of classes whose constructor takes only a `Pretrained`."""

    def __init__(self, pretrained: Pretrained):
        raise NotImplementedError

    @classmethod
    @checked_names
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
            ValueError: if it is of another kind, or an argument is unknown.
        """
        return cls(load_preset(preset, sentence_function))
