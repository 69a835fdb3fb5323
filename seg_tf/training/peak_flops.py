"""Peak FLOPs per second of the device that a process computes on."""

import dataclasses
import functools
import re
import time
from collections.abc import Callable

from keras import ops

from seg_tf.training import engine

# Products of square matrices, each of twice the size of the one before.
_SIZES = (256, 512, 1024, 2048, 4096, 8192)
_REPETITIONS = 5
# A product that takes so many seconds is large enough to keep a device busy.
_LONG_ENOUGH = 0.01
_TERA = 1e12
_UNITS = ((1e15, "PFLOP/s"), (1e12, "TFLOP/s"), (1e9, "GFLOP/s"))
# Words of a device's name that do not matter for its speed.
_IRRELEVANT = re.compile(r"nvidia|tesla|geforce|\d+gb|hbm\d\w?|sxm\d?(-\d+gb)?")


@dataclasses.dataclass(frozen=True)
class _Speed:
    """TFLOPs per second of a GPU for products of dense matrices.

    Attributes:
        float32: with plain float32.
        half: with float16 or bfloat16, sums in float32.
        tensor_float_32: with float32 rounded to TensorFloat-32, TensorFlow's default;
            None for a GPU without it, as is bfloat16 then.
    """

    float32: float
    half: float
    tensor_float_32: float | None = None


# From NVIDIA's data sheets and architecture white papers; dense, at boost clock.
_A100 = _Speed(19.5, 312, 156)
_SPEEDS = {
    "v100": _Speed(15.7, 125),
    "v100 pcie": _Speed(14, 112),
    "t4": _Speed(8.1, 65),
    "a100": _A100,
    "a100 pcie": _A100,
    "a10": _Speed(31.2, 125, 62.5),
    "l4": _Speed(30.3, 121, 60.5),
    "l40s": _Speed(91.6, 362, 183),
    "h100": _Speed(67, 989.4, 494.7),
    "h100 pcie": _Speed(51, 756, 378),
    "h200": _Speed(67, 989.4, 494.7),
    "rtx 2080 ti": _Speed(13.4, 53.8),
    "rtx 3080": _Speed(29.8, 59.5, 29.8),
    "rtx 3090": _Speed(35.6, 71, 35.6),
    "rtx 4080": _Speed(48.7, 97.5, 48.7),
    "rtx 4090": _Speed(82.6, 165.2, 82.6),
    "rtx a6000": _Speed(38.7, 154.8, 77.4),
    "rtx 6000 ada generation": _Speed(91.1, 364.2, 182.1),
}


@dataclasses.dataclass(frozen=True)
class Peak:
    """Peak speed of a device.

    Attributes:
        flops_per_second: FLOPs per second for one dtype.
        source: the device and how the figure was found.
    """

    flops_per_second: float
    source: str


@functools.cache
def find_peak(dtype: str) -> Peak:
    """Peak of this process's device for products of matrices of `dtype`.

    That of a known GPU is its data sheet's. Any other device is measured, once in a
    process, for some tenths of a second.
    """
    name = engine.current().devices.gpu_name()
    if name is None:
        return Peak(measure(dtype), f"measured with {dtype} products on the CPU")
    uses_tensor_float_32 = engine.current().devices.uses_tensor_float_32()
    known = peak_by_name(name, dtype, tensor_float_32=uses_tensor_float_32)
    return known or Peak(
        measure(dtype),
        f"measured with {dtype} products on {name or 'a GPU without a name'}, for "
        "which no data sheet is known here",
    )


def peak_by_name(
    device_name: str, dtype: str, *, tensor_float_32: bool = True
) -> Peak | None:
    """Peak by the data sheet of a GPU, or None if it is not known.

    Args:
        device_name: as the driver gives it, such as "NVIDIA A100-SXM4-80GB". The
            whole name has to be known: a laptop's GPU or a slice of a GPU is slower
            than the card of a similar name.
        dtype: "float32", "float16" or "bfloat16".
        tensor_float_32: whether float32 products may use TensorFloat-32.
    """
    words = re.split(r"[\s-]+", device_name.lower())
    model = " ".join(word for word in words if not _IRRELEVANT.fullmatch(word))
    speed = _SPEEDS.get(model)
    if speed is None:
        return None
    kind, tera = dtype, None
    if dtype == "float32":
        tera = speed.float32
        if tensor_float_32 and speed.tensor_float_32:
            kind, tera = "TensorFloat-32", speed.tensor_float_32
    elif dtype == "float16" or (dtype == "bfloat16" and speed.tensor_float_32):
        tera = speed.half
    if tera is None:
        return None
    return Peak(tera * _TERA, f"{kind} on {device_name}, by its data sheet")


def measure(
    dtype: str,
    multiply: Callable[[int, str], Callable[[], object]] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """FLOPs per second of the fastest of some products of square matrices.

    Args:
        dtype: of the matrices.
        multiply: gives the function that computes a product of a size and dtype and
            returns when it is done; None takes that of Keras.
        clock: returns seconds.
    """
    best = 0.0
    for size in _SIZES:
        product = (multiply or _multiply)(size, dtype)
        product()  # the first one sets up libraries
        shortest = float("inf")
        for _ in range(_REPETITIONS):
            begin = clock()
            product()
            shortest = min(shortest, clock() - begin)
        best = max(best, 2 * size**3 / max(shortest, 1e-9))
        if shortest >= _LONG_ENOUGH:
            break
    return best


def in_words(flops_per_second: float) -> str:
    """For example, "989.4 TFLOP/s"."""
    for unit, name in _UNITS[:-1]:
        if flops_per_second >= unit:
            return f"{flops_per_second / unit:.4g} {name}"
    unit, name = _UNITS[-1]
    return f"{flops_per_second / unit:.4g} {name}"


def _multiply(size: int, dtype: str) -> Callable[[], object]:
    matrix = ops.full((size, size), 1 / size, dtype)
    # Reading a number waits for the device.
    return lambda: float(ops.matmul(matrix, matrix)[0, 0])
