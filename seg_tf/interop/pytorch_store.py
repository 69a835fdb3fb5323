"""Tensors of a PyTorch checkpoint, read by PyTorch itself where it is installed.

Such a file is a pickle, which can run any code when it is read. `torch.load` with
`weights_only` reads tensors and plain containers alone; nothing else here unpickles.
"""

import importlib
import pathlib
import re
from collections.abc import Mapping
from types import ModuleType

import numpy as np

from seg_tf.interop.errors import ForeignWeightsError
from seg_tf.interop.tensor_stores import TensorStore

# Before it, `weights_only` could be got around (CVE-2025-32434).
_OLDEST = (2, 6)


def find_torch() -> ModuleType | None:
    """PyTorch, if it is installed."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        return None


class PyTorchStore(TensorStore):
    """A `.bin` file of PyTorch: tensors by name.

    Args:
        path: the file.
        torch: the module.

    Raises:
        OSError: if there is no such file.
        ForeignWeightsError: if it is damaged, holds anything but tensors by name, or
            PyTorch is too old to read it safely.
    """

    def __init__(self, path: pathlib.Path, torch: ModuleType):
        self.source = str(path)
        _check_version(torch, path)
        path.stat()  # raises the error that says which file is missing
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
        # An error of any class may come out of a damaged pickle.
        except Exception as error:
            raise ForeignWeightsError(
                f"{path}: damaged, cut short or no PyTorch file of tensors alone, all "
                f"that is read of one: {_first_sentence(error)}"
            ) from error
        if not isinstance(state, Mapping):
            raise ForeignWeightsError(
                f"{path}: must hold tensors by name. Found: {type(state).__name__}"
            )
        for name, tensor in state.items():
            if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
                raise ForeignWeightsError(
                    f"{path}: must hold tensors by name. Found: {name!r}, of "
                    f"{type(tensor).__name__}"
                )
        self._tensors = dict(state)
        self.shapes = {name: tuple(one.shape) for name, one in state.items()}

    def read(self, name: str) -> np.ndarray:
        tensor = self._tensors[name]
        if not tensor.is_floating_point():
            raise ForeignWeightsError(
                f"{self.source}: the tensor {name!r} must hold floating-point numbers. "
                f"Found: {tensor.dtype}"
            )
        # NumPy has no bfloat16.
        return np.asarray(tensor.detach().float().numpy())


def _check_version(torch: ModuleType, path: pathlib.Path) -> None:
    numbers = re.match(r"(\d+)\.(\d+)", torch.__version__)
    if numbers is None or tuple(map(int, numbers.groups())) < _OLDEST:
        raise ForeignWeightsError(
            f"PyTorch must be {'.'.join(map(str, _OLDEST))} or newer to read {path}, a "
            "pickle, without running code in it. Found: PyTorch "
            f"{torch.__version__}"
        )


def _first_sentence(error: Exception) -> str:
    first_line = str(error).strip().partition("\n")[0].partition(". ")[0]
    return first_line or type(error).__name__
