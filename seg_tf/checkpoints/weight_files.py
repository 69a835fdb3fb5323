"""Reads and writes weight files, which are checked because they may be untrusted."""

import collections
import contextlib
import pathlib
import zipfile
from collections.abc import Container, Iterator, Mapping
from typing import Any

import h5py
import ml_dtypes
import numpy as np

_FILTERS = {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE}
_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
# Trained weights hardly compress; initial weights contain some zeros.
MAX_COMPRESSION = 16
_SLACK_BYTES = 2**20


class CheckpointError(ValueError):
    """Raised if a checkpoint cannot be found, read, written or used for a model."""


class DamagedCheckpointError(CheckpointError):
    """Raised if a file of a checkpoint is missing, changed or malformed."""


@contextlib.contextmanager
def reading(path: pathlib.Path, what: str = "cannot be read") -> Iterator[None]:
    """Context manager that re-raises errors as `DamagedCheckpointError` with `path`.

    `what` describes the failure in the message. A `CheckpointError` is not changed.
    """
    try:
        yield
    except CheckpointError:
        raise
    except FileNotFoundError:
        raise DamagedCheckpointError(f"{path}: the file is missing") from None
    except Exception as error:  # Libraries raise almost anything for damaged files.
        text = str(error)[:300]
        if not text.startswith(f"{path}:"):
            kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
            text = f"{path}: {what}: {kind}{text}"
        raise DamagedCheckpointError(text) from error


def _hdf5_shapes(path: pathlib.Path) -> list[tuple[int, ...]]:
    """Returns the array shapes of an HDF5 file, which must only contain floats."""
    arrays: list[h5py.Dataset] = []

    def check(name: str, item: h5py.Group | h5py.Dataset) -> None:
        if isinstance(item, h5py.Group):
            return
        properties = item.id.get_create_plist()
        count = properties.get_nfilters()
        is_float = item.dtype.kind == "f" or item.dtype in (_BFLOAT16, np.dtype("V2"))
        if (
            not is_float
            or item.shape is None
            or item.external is not None
            or item.is_virtual
            or not {properties.get_filter(n)[0] for n in range(count)} <= _FILTERS
        ):
            raise ValueError(f"{name} must be an array of floats within the file")
        arrays.append(item)

    with reading(path), h5py.File(path, "r") as file:
        file.visititems(check)  # follows no soft or external links
        _check_claim(path, sum(array.size * array.dtype.itemsize for array in arrays))
        return [array.shape for array in arrays]


def load_hdf5(path: pathlib.Path, model: Any) -> None:
    """Loads HDF5 weights into a model. Raises CheckpointError if not valid for it."""
    stored = collections.Counter(_hdf5_shapes(path))
    expected = collections.Counter(tuple(weight.shape) for weight in model.weights)
    if stored != expected:
        raise CheckpointError(
            f"{path}: of another model: it lacks arrays, by shape: "
            f"{dict(expected - stored)!s:.200}; left over: "
            f"{dict(stored - expected)!s:.200}"
        )
    with reading(path):
        # Each layer reads its own arrays. As the numbers agree, none is left over.
        model.load_weights(path)
    for weight in model.weights:
        _check_finite(np.asarray(weight.value), f"{path}: {weight.path}")


def write_npz(path: pathlib.Path, variables: Mapping[str, Any]) -> None:
    """Writes an archive like `numpy.savez`, with one variable at a time in memory."""
    with zipfile.ZipFile(path, "w", allowZip64=True) as archive:
        for name, variable in variables.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asarray(variable.value))


def read_npz(
    path: pathlib.Path, groups: Container[str] | None = None
) -> dict[str, np.ndarray]:
    """Returns a dict of an archive's arrays, only those in `groups` if it is given.

    Raises a `CheckpointError` if the archive is damaged or an array is not numeric.
    """
    arrays = {}
    with reading(path):
        with zipfile.ZipFile(path) as archive:
            sizes = [entry.file_size for entry in archive.infolist()]
        _check_claim(path, sum(sizes))
        with np.load(path, allow_pickle=False) as archive:
            for name in archive.files:
                if groups is None or _number(name)[0] in groups:
                    value = archive[name]
                    if value.dtype == np.dtype("V2"):  # NumPy cannot name bfloat16
                        value = value.view(_BFLOAT16)
                    if value.dtype.kind not in "fiub" and value.dtype != _BFLOAT16:
                        raise ValueError(f"{name} is {value.dtype}, not numeric")
                    arrays[name] = value
    return arrays


def load_npz(
    path: pathlib.Path, variables: Mapping[str, Any], cast: bool = False
) -> None:
    """Assigns an archive's values to variables with the same group and number.

    Values are converted if the conversion is exact, such as from float16 to float32.
    If `cast`, floats are also rounded. Raises a `CheckpointError` if variables,
    shapes or dtypes do not match, or values are not finite.
    """
    groups = {_number(name)[0] for name in variables}
    arrays = read_npz(path, groups)
    stored = {_number(name): (name, value) for name, value in arrays.items()}
    expected = set(map(_number, variables))
    if len(arrays) != len(variables) or stored.keys() != expected:
        raise CheckpointError(
            f"{path}: of another model: it holds {len(arrays)} variables of "
            f"{', '.join(sorted(groups))}, the model has {len(variables)}"
        )
    for name, variable in variables.items():
        stored_name, value = stored[_number(name)]
        dtype = np.asarray(variable.value).dtype
        can_cast = cast and _is_float(value.dtype) == _is_float(dtype)
        if can_cast or _can_hold(dtype, value):
            with np.errstate(over="ignore"):  # infinity is refused below
                value = value.astype(dtype)
        if value.dtype != dtype or value.shape != tuple(variable.shape):
            raise CheckpointError(
                f"{path}: of another model: {stored_name} is {value.dtype} of shape "
                f"{value.shape}, the model's {variable.path} is {dtype} of shape "
                f"{tuple(variable.shape)}"
            )
        _check_finite(value, f"{path}: {stored_name}")
        variable.assign(value)


def _number(name: str) -> tuple[str, ...]:
    """Returns the group and number in an array's name, which identify a variable."""
    return tuple(name.split(".")[:2])


def _can_hold(dtype: np.dtype, value: np.ndarray) -> bool:
    """Returns whether `value` converts exactly to `dtype`, an int or a wider float."""
    if value.dtype.kind == dtype.kind == "i":
        return np.array_equal(value, value.astype(dtype))
    return (
        value.dtype.kind == dtype.kind == "f" and value.dtype.itemsize < dtype.itemsize
    )


def _is_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f" or dtype == _BFLOAT16


def _check_claim(path: pathlib.Path, size: int) -> None:
    file_size = path.stat().st_size
    if size > MAX_COMPRESSION * file_size + _SLACK_BYTES:
        raise DamagedCheckpointError(
            f"{path}: must not hold arrays of more than {MAX_COMPRESSION} times its "
            f"size, {file_size:,} bytes. Received: {size:,} bytes of arrays"
        )


def _check_finite(value: np.ndarray, where: str) -> None:
    if _is_float(value.dtype) and not np.isfinite(value).all():
        raise CheckpointError(f"{where} must be finite. Received: NaN or infinity")
