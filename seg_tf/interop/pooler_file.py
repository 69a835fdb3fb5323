"""The pooler of a foreign BERT, kept beside weights that have no place for it.

Without next sentence prediction nothing trains a pooler, so that our encoders have
none. One that came with a checkpoint stays in its folder, for those who write the
model for others.
"""

import pathlib
from typing import NamedTuple

import numpy as np

from seg_tf.checkpoints import weight_files
from seg_tf.checkpoints.errors import DamagedCheckpointError
from seg_tf.interop import bert_parts

POOLER_FILE = "pooler.npz"


class Pooler(NamedTuple):
    """A dense layer with tanh on `[CLS]`: kernel `(D, D)`, bias `(D,)`."""

    kernel: np.ndarray
    bias: np.ndarray


def write(folder: pathlib.Path, pooler: Pooler) -> None:
    np.savez(folder / POOLER_FILE, kernel=pooler.kernel, bias=pooler.bias)


def read(folder: pathlib.Path) -> Pooler | None:
    """The pooler of a checkpoint; None if it has none."""
    path = folder / POOLER_FILE
    if not path.is_file():
        return None
    arrays = weight_files.read_npz(path)
    kernel, bias = (arrays.get(name) for name in Pooler._fields)
    if kernel is None or bias is None or kernel.shape[1:] != bias.shape:
        raise DamagedCheckpointError(
            f"{path}: must hold `kernel` of shape (C, D) and `bias` of shape (D,). "
            f"Received: { ({name: array.shape for name, array in arrays.items()}) }"
        )
    return Pooler(kernel, bias)


def read_parts(folder: pathlib.Path) -> dict[str, np.ndarray]:
    """The same as parts of a BERT; none if there is no pooler."""
    pooler = read(folder)
    found = pooler._asdict() if pooler else {}
    return {f"{bert_parts.POOLER}/{name}": value for name, value in found.items()}
