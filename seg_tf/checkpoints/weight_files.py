"""Files of weights, checked before they are read, as anyone may have written them.

Names, shapes and types in a file are compared with the model before an array is
decompressed, so a small file cannot claim more memory than its model needs.
"""

import collections
import contextlib
import math
import pathlib
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

import h5py
import ml_dtypes
import numpy as np

from seg_tf.checkpoints.errors import CheckpointError, DamagedCheckpointError, reading

_FILTERS = {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE}
_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
# Trained weights hardly compress; initial weights contain some zeros.
_MAX_COMPRESSION = 16
_SLACK_BYTES = 2**20


# --- HDF5 -----------------------------------------------------------------------


def hdf5_shapes(path: pathlib.Path) -> list[tuple[int, ...]]:
    """Shapes of the arrays of an HDF5 file.

    Raises:
        DamagedCheckpointError: if the file contains anything but arrays of floats, or
            if they claim far more memory than the file has bytes.
    """
    with reading(path), h5py.File(path, "r") as file:
        arrays = list(_arrays(file, set()))
        _check_claim(path, sum(array.size * array.dtype.itemsize for array in arrays))
        return [array.shape for array in arrays]


def _arrays(group: h5py.Group, seen: set[int]) -> Iterator[h5py.Dataset]:
    for key in group:
        item = None
        if isinstance(group.get(key, getlink=True), h5py.HardLink):
            address = h5py.h5o.get_info(group[key].id).addr
            item = None if address in seen else group[key]
            seen.add(address)
        if isinstance(item, h5py.Group):
            yield from _arrays(item, seen)
        elif isinstance(item, h5py.Dataset) and _is_plain(item):
            yield item
        else:
            raise ValueError(
                f"{group.name}/{key} must be an array of floats within the file, "
                "neither a link nor written by an unknown filter"
            )


def _is_plain(array: h5py.Dataset) -> bool:
    properties = array.id.get_create_plist()
    filters = {properties.get_filter(n)[0] for n in range(properties.get_nfilters())}
    return (
        array.external is None
        and not array.is_virtual
        and filters <= _FILTERS
        and (array.dtype.kind == "f" or array.dtype in (_BFLOAT16, np.dtype("V2")))
        and array.shape is not None
    )


def load_hdf5(path: pathlib.Path, model: Any) -> None:
    """Loads the weights of an HDF5 file into a built Keras model.

    Raises:
        CheckpointError: if one is missing, left over, of another shape or not finite.
    """
    stored = collections.Counter(hdf5_shapes(path))
    expected = collections.Counter(tuple(weight.shape) for weight in model.weights)
    if stored != expected:
        raise CheckpointError(
            f"{path}: of another model: it lacks arrays, by shape: "
            f"{dict(expected - stored)!s:.200}; left over: "
            f"{dict(stored - expected)!s:.200}"
        )
    with reading(path):
        # Each layer asks for its own arrays; with the same number of them none is left.
        model.load_weights(path)
    for weight in model.weights:
        _check_finite(np.asarray(weight.value), f"{path}: {weight.path}")


def compress_hdf5(path: pathlib.Path) -> None:
    """Rewrites an HDF5 file with compressed arrays."""
    aside = path.with_name(f"{path.name}.compressed")
    with h5py.File(path) as source, h5py.File(aside, "w") as target:

        def copy(name: str, item: h5py.Group | h5py.Dataset) -> None:
            if isinstance(item, h5py.Dataset) and item.ndim:
                # Shuffling puts signs and exponents, which are similar, together.
                array = target.create_dataset(
                    name, data=item[()], compression="gzip", shuffle=True
                )
                array.attrs.update(item.attrs)
            elif isinstance(item, h5py.Dataset):
                source.copy(item, target, name)
            else:
                target.require_group(name).attrs.update(item.attrs)

        target.attrs.update(source.attrs)
        source.visititems(copy)
    aside.replace(path)


# --- NPZ ------------------------------------------------------------------------


def write_npz(path: pathlib.Path, variables: Mapping[str, Any], compress: bool) -> None:
    """Like `numpy.savez`, but with one variable at a time in memory."""
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", method, allowZip64=True) as archive:
        for name, variable in variables.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asarray(variable.value))


@contextlib.contextmanager
def _archive(
    path: pathlib.Path,
) -> Iterator[tuple[zipfile.ZipFile, list[zipfile.ZipInfo]]]:
    """An archive and its entries, unless they claim far more memory than it has."""
    with reading(path), zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        _check_claim(path, sum(entry.file_size for entry in entries))
        yield archive, entries


def read_npz(path: pathlib.Path) -> dict[str, np.ndarray]:
    """The arrays of an archive, by name.

    Raises:
        DamagedCheckpointError: if it is no archive, or claims far more memory than it
            has bytes.
    """
    with _archive(path) as (archive, entries):
        return {
            entry.filename.removesuffix(".npy"): _read_array(archive, entry, path)
            for entry in entries
        }


def num_values(path: pathlib.Path, group: str) -> int:
    """Upper bound of the number of values in the arrays of a group."""
    with _archive(path) as (_, entries):
        sizes = (e.file_size for e in entries if _number(e.filename)[0] == group)
        return sum(sizes) // 2


def load_npz(
    path: pathlib.Path, variables: Mapping[str, Any], cast: bool = False
) -> None:
    """Sets variables to the values that an archive has under their numbers.

    Raises:
        CheckpointError: if one is missing, left over, of another type or shape, or
            not finite.
    """
    groups = {_number(name)[0] for name in variables}
    with _archive(path) as (archive, entries):
        entries = [entry for entry in entries if _number(entry.filename)[0] in groups]
        stored = {_number(entry.filename): entry for entry in entries}
        expected = set(map(_number, variables))
        if len(entries) != len(variables) or stored.keys() != expected:
            raise CheckpointError(
                f"{path}: of another model: it holds {len(entries)} variables of "
                f"{', '.join(sorted(groups))}, the model has {len(variables)}"
            )
        for name, variable in variables.items():
            entry = stored[_number(name)]
            value = _read_array(archive, entry, path, variable)
            stored_name = entry.filename.removesuffix(".npy")
            dtype = np.asarray(variable.value).dtype
            can_cast = cast and _is_float(value.dtype) == _is_float(dtype)
            if can_cast or _can_hold(dtype, value):
                with np.errstate(over="ignore"):  # infinity is refused below
                    value = value.astype(dtype)
            if value.dtype != dtype:
                raise CheckpointError(
                    f"{path}: of another model: {stored_name} is {value.dtype}, the "
                    f"model's {variable.path} is {dtype}"
                )
            if not name.startswith("metrics."):
                _check_finite(value, f"{path}: {stored_name}")
            variable.assign(value)


def _read_array(
    archive: zipfile.ZipFile,
    entry: zipfile.ZipInfo,
    path: pathlib.Path,
    variable: Any = None,
) -> np.ndarray:
    """An array of an archive, which must have the shape of `variable`, if given."""
    with archive.open(entry) as file:
        version = np.lib.format.read_magic(file)
        if version != (1, 0):
            raise ValueError(
                f"{entry.filename} has version {version} of NumPy's format"
            )
        shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
        if dtype == np.dtype("V2"):  # NumPy's files have no name for bfloat16
            dtype = _BFLOAT16
        if dtype.kind not in "fiub" and dtype != _BFLOAT16:
            raise ValueError(f"{entry.filename} holds {dtype}, which is no number")
        if variable is not None and shape != tuple(variable.shape):
            raise CheckpointError(
                f"{path}: of another model: {entry.filename.removesuffix('.npy')} is "
                f"{dtype} of shape {shape}, the model's {variable.path} is of shape "
                f"{tuple(variable.shape)}"
            )
        size = math.prod(shape) * dtype.itemsize
        content = file.read(size)
        if len(content) != size or file.read(1):
            raise ValueError(f"{entry.filename} must hold {size:,} bytes of numbers")
    array = np.frombuffer(content, dtype)
    return array.reshape(shape, order="F" if is_fortran else "C")


def _number(name: str) -> tuple[str, ...]:
    """Group and number of a name in the archive; the rest differs between builds."""
    return tuple(name.split(".")[:2])


def _can_hold(dtype: np.dtype, value: np.ndarray) -> bool:
    """True if `dtype` represents every number of `value` exactly.

    The engines count in integers of different widths, and exported weights are float16.
    """
    if value.dtype.kind == dtype.kind == "i":
        return np.array_equal(value, value.astype(dtype))
    return (
        value.dtype.kind == dtype.kind == "f" and value.dtype.itemsize < dtype.itemsize
    )


def _is_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f" or dtype == _BFLOAT16


def _check_claim(path: pathlib.Path, size: int) -> None:
    file_size = path.stat().st_size
    if size > _MAX_COMPRESSION * file_size + _SLACK_BYTES:
        raise DamagedCheckpointError(
            f"{path}: must not hold arrays of more than {_MAX_COMPRESSION} times its "
            f"size, {file_size:,} bytes. Received: {size:,} bytes of arrays"
        )


def _check_finite(value: np.ndarray, where: str) -> None:
    if _is_float(value.dtype) and not np.isfinite(value).all():
        raise CheckpointError(f"{where} must be finite. Received: NaN or infinity")
