"""Tensors by name, from files of several kinds, each read when it is asked for."""

import abc
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import safetensors
import tensorflow as tf

from seg_tf import files
from seg_tf.interop.errors import ForeignWeightsError

_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
# What safetensors calls the types that NumPy can hold as numbers.
_FLOATS = ("F64", "F32", "F16")


class TensorStore(abc.ABC):
    """Named tensors.

    Attributes:
        source: where they come from, for messages.
        shapes: shape of each, by name.
    """

    source: str
    shapes: Mapping[str, tuple[int, ...]]

    @abc.abstractmethod
    def read(self, name: str) -> np.ndarray:
        """The tensor of that name.

        Raises:
            ForeignWeightsError: if it cannot be read, naming it.
        """


class VariableStore(TensorStore):
    """Variables of a model in memory, under names of the caller's choice."""

    def __init__(self, variables: Mapping[str, Any], source: str):
        self.source = source
        self._variables = dict(variables)
        self.shapes = {
            name: tuple(variable.shape) for name, variable in variables.items()
        }

    def read(self, name: str) -> np.ndarray:
        return np.asarray(self._variables[name])


class SafetensorsStore(TensorStore):
    """A `.safetensors` file.

    Args:
        path: the file.

    Raises:
        OSError: if there is none.
        ForeignWeightsError: if it is damaged or cut short.
    """

    def __init__(self, path: pathlib.Path):
        self.source = str(path)
        path.stat()  # raises the error that says which file is missing
        try:
            self._file = safetensors.safe_open(path, framework="np")
            slices = {name: self._file.get_slice(name) for name in self._file.keys()}  # noqa: SIM118 - no mapping
        except (safetensors.SafetensorError, ValueError) as error:
            raise ForeignWeightsError(
                f"{path}: damaged, cut short or no safetensors file: {error}"
            ) from error
        self.shapes = {name: tuple(one.get_shape()) for name, one in slices.items()}
        self._dtypes = {name: one.get_dtype() for name, one in slices.items()}

    def read(self, name: str) -> np.ndarray:
        if self._dtypes[name] not in _FLOATS:
            raise ForeignWeightsError(
                f"{self.source}: the tensor {name!r} must hold numbers of one of the "
                f"types {', '.join(_FLOATS)}. Found: {self._dtypes[name]}"
            )
        try:
            return self._file.get_tensor(name)
        except safetensors.SafetensorError as error:
            raise ForeignWeightsError(
                f"{self.source}: the tensor {name!r} cannot be read: {error}"
            ) from error


class ShardedStore(TensorStore):
    """Hugging Face's several files with an index of the tensors that each holds.

    Args:
        index: the JSON file; its `weight_map` maps names of tensors to names of files
            beside it.
        open_file: opens one of them.

    Raises:
        OSError: if a file cannot be read.
        ForeignWeightsError: if one is damaged, or lacks a tensor that the index says
            it has.
    """

    def __init__(
        self, index: pathlib.Path, open_file: Callable[[pathlib.Path], TensorStore]
    ):
        self.source = str(index)
        file_of = _weight_map(index)
        self.paths = tuple(
            index.with_name(name) for name in sorted({*file_of.values()})
        )
        stores = {path.name: open_file(path) for path in self.paths}
        self._store_of = {name: stores[file] for name, file in file_of.items()}
        for name, store in self._store_of.items():
            if name not in store.shapes:
                raise ForeignWeightsError(
                    f"{store.source}: the tensor {name!r} must be there, as "
                    f"{index.name} says. Found: none of that name"
                )
        self.shapes = {
            name: store.shapes[name] for name, store in self._store_of.items()
        }

    def read(self, name: str) -> np.ndarray:
        return self._store_of[name].read(name)


class TensorFlowStore(TensorStore):
    """A TensorFlow checkpoint, by the names of its variables.

    One of TF 1 has these. One of TF 2 stores variables by their places in a graph of
    objects, which says what each was called; optimizers are left out of it.

    Args:
        prefix: the checkpoint's files without `.index` and `.data-…`.

    Raises:
        ForeignWeightsError: if there is none or it is damaged.
    """

    def __init__(self, prefix: pathlib.Path):
        self.source = str(prefix)
        try:
            self._reader = tf.train.load_checkpoint(str(prefix))
            shapes = self._reader.get_variable_to_shape_map()
            self.is_of_objects = _OBJECT_GRAPH in shapes
            self._keys = self._names_of_objects() if self.is_of_objects else None
        except (tf.errors.OpError, RuntimeError, ValueError, IndexError) as error:
            raise ForeignWeightsError(
                f"{prefix}: damaged, cut short or no TensorFlow checkpoint: "
                f"{_first_line(error)}"
            ) from error
        if self._keys is None:
            self._keys = {name: name for name in shapes}
        self.shapes = {name: tuple(shapes[key]) for name, key in self._keys.items()}

    def read(self, name: str) -> np.ndarray:
        try:
            return self._reader.get_tensor(self._keys[name])
        # What a reader makes of TensorFlow's errors; `IndexError` is one of reading.
        except (tf.errors.OpError, RuntimeError, ValueError, IndexError) as error:
            raise ForeignWeightsError(
                f"{self.source}: the tensor {name!r} cannot be read; the file is "
                f"damaged or cut short: {_first_line(error)}"
            ) from error

    def _names_of_objects(self) -> dict[str, str]:
        """Key in the checkpoint of every variable that is not an optimizer's."""
        from tensorflow.core.protobuf import trackable_object_graph_pb2

        graph = trackable_object_graph_pb2.TrackableObjectGraph()
        graph.ParseFromString(self._reader.get_tensor(_OBJECT_GRAPH))
        return {
            attribute.full_name: attribute.checkpoint_key
            for node in graph.nodes
            for attribute in node.attributes
            if attribute.full_name
            and ".OPTIMIZER_SLOT" not in attribute.checkpoint_key
            and not attribute.checkpoint_key.startswith("optimizer/")
        }


def _weight_map(index: pathlib.Path) -> dict[str, str]:
    """File of each tensor, by the index of a checkpoint in several files."""
    try:
        content = files.read_json(index)
    except ValueError as error:
        raise ForeignWeightsError(str(error)) from error
    found = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(found, dict) or not found:
        raise ForeignWeightsError(
            f"{index}: `weight_map` must map names of tensors to names of files. "
            f"Found: {type(found).__name__}"
        )
    for name, file in found.items():
        # A file elsewhere is none that came with the index.
        if not isinstance(file, str) or pathlib.PurePath(file).name != file:
            raise ForeignWeightsError(
                f"{index}: `weight_map` must name files beside it. Found: "
                f"{file!r} for {name!r}"
            )
    return found


def prefix_of(names: Iterable[str], ending: str) -> str | None:
    """The prefix before `ending` of the shortest name that has it; None if none."""
    found = [name for name in names if name.endswith(ending)]
    return min(found, key=len).removesuffix(ending) if found else None


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
