"""Measures a run's FLOPs, speed and memory use, and the device's peak performance."""

from __future__ import annotations

import contextlib
import functools
import math
import pathlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import psutil
from keras import ops
from tqdm import tqdm

from seg_tf.config import (
    CausalLMConfig,
    EncoderConfig,
    ExchangeSentenceConfig,
    MaskedLMConfig,
    ReATConfig,
    RunConfig,
    SentenceUnshufflingConfig,
    TransformerXLConfig,
)
from seg_tf.training import engine

if TYPE_CHECKING:
    from seg_tf.training.learner import Learner

# --- FLOPs ----------------------------------------------------------------------


def flops_per_update(config: RunConfig, vocab_size: int) -> int | None:
    """Computes the model FLOPs per update (Chowdhery et al., 2022, appendix B).

    Counts the matrix products of full rows on all processes, with two in the backward
    pass for each one in the forward pass, but no recomputation. `vocab_size` is used if
    `config.model` has none. Returns None for a custom model or objective.
    """
    vocab_size = config.model.vocab_size or vocab_size
    flops = [_encoder_flops(config)]
    for objective in config.objectives.values():
        flops.append(_objective_flops(objective, config, vocab_size))
    known = [part for part in flops if part is not None]
    if len(known) < len(flops):
        return None
    return round(3 * config.training.batch_size * sum(known))


# FLOPs of a row's forward pass.
def _encoder_flops(config: RunConfig) -> float | None:
    model, inputs = config.model, config.inputs
    length, width = inputs.row_length, getattr(model, "hidden_size", 0)
    match model:
        case EncoderConfig():
            matrices = 3 if model.gated else 2
            return model.num_layers * (
                _attention(length, length, width)
                + matrices * _product(length, width, model.intermediate_size)
            )
        case ReATConfig(alpha_hidden_size=alpha, block_length=block):
            sentence_layer = _attention(length, block, width, num_keys=length)
            sentence_layer += 2 * _product(length, width, model.intermediate_size)
            alpha_layer = (
                _attention(length, block, alpha, num_keys=length)
                + _attention(length, inputs.sentences_per_row, alpha)
                + 4 * _product(length, alpha, model.alpha_intermediate_size)
            )
            return (
                model.num_sentence_layers * sentence_layer
                + model.num_alpha_layers * alpha_layer
                + _product(length, width, alpha)
            )
        case TransformerXLConfig():
            keys = model.memory_length + length
            inner = model.num_heads * model.head_size
            # Content, positions and values each need a product of queries and keys.
            flops = model.num_layers * (
                2 * _product(length + keys, width, inner)
                + 3 * _product(length, keys, inner)
                + 2 * _product(length, width, model.intermediate_size)
            )
            if _is_projected(model):
                widths = _adaptive_widths(model)
                read = widths if model.tail_divisor != 1 else widths[:1]
                flops += _product(length, sum(read), width)
            return flops
    return None


def _objective_flops(
    objective: Any, config: RunConfig, vocab_size: int
) -> float | None:
    model, inputs = config.model, config.inputs
    width = getattr(model, "hidden_size", 0)
    match objective:
        case MaskedLMConfig():
            rows = inputs.masking.max_predictions
            flops = _product(rows, width, vocab_size)
            if getattr(model, "trunk", "bert") != "modern":
                flops += _product(
                    rows, getattr(model, "alpha_hidden_size", width), width
                )
            return flops
        case SentenceUnshufflingConfig():
            candidates, steps = inputs.num_candidates, inputs.num_candidates - 1
            layer = (
                _attention(steps, steps, width)
                + _attention(steps, candidates, width)
                + 2 * _product(steps, width, model.intermediate_size)
            )
            return objective.num_layers * layer + _product(steps, candidates, width)
        case ExchangeSentenceConfig():
            width = model.alpha_hidden_size
            return _product(inputs.sentences_per_row, width, width + 2)
        case CausalLMConfig():
            flops, begin = 0.0, 0
            ends = (*model.cutoffs, vocab_size)
            for end, part in zip(ends, _adaptive_widths(model), strict=True):
                # Fraction of the words by Zipf's law. All words need the head.
                total = math.log(vocab_size) + 0.5772
                share = math.log(end / begin) / total if begin else 1.0
                projection = _is_projected(model) * _product(width, part)
                flops += share * (_product(part, end - begin) + projection)
                begin = end
            return inputs.row_length * flops
    return None


def _product(*sizes: float) -> float:
    return 2 * math.prod(sizes)


def _attention(
    queries: int, seen: int, width: int, num_keys: int | None = None
) -> float:
    """Returns an attention layer's FLOPs. Each query sees `seen` of `num_keys` keys."""
    keys = seen if num_keys is None else num_keys
    projections = 2 * _product(queries + keys, width, width)
    return projections + 2 * _product(queries, seen, width)


def _is_projected(model: TransformerXLConfig) -> bool:
    return model.tail_divisor != 1 or model.embedding_size != model.hidden_size


def _adaptive_widths(model: TransformerXLConfig) -> list[int]:
    return [
        model.embedding_size // model.tail_divisor**part
        for part in range(len(model.cutoffs) + 1)
    ]


# --- Peak of a device -----------------------------------------------------------

# TFLOP/s of dense products at boost clock from NVIDIA's data sheets: float32, half
# precision, and TensorFloat-32. GPUs without TensorFloat-32 also lack bfloat16.
_PEAKS = {
    "v100": (15.7, 125, None),
    "t4": (8.1, 65, None),
    "a100": (19.5, 312, 156),
    "a100 pcie": (19.5, 312, 156),
    "l4": (30.3, 121, 60.5),
    "l40s": (91.6, 362, 183),
    "h100": (67, 989.4, 494.7),
    "h100 pcie": (51, 756, 378),
    "h200": (67, 989.4, 494.7),
    "rtx 3090": (35.6, 71, 35.6),
    "rtx 4090": (82.6, 165.2, 82.6),
}
# Words in device names that do not affect speed.
_IRRELEVANT = re.compile(r"nvidia|tesla|geforce|\d+gb|hbm\d\w?|sxm\d?(-\d+gb)?")


@functools.cache
def find_peak(dtype: str) -> tuple[float, str]:
    """Looks up or measures the peak FLOP/s in `dtype`. Returns it and its source."""
    current = engine.current()
    name = current.gpu_name()
    if name is not None:
        tensor_float_32 = current.uses_tensor_float_32()
        known = peak_by_name(name, dtype, tensor_float_32=tensor_float_32)
        if known:
            return known, f"{dtype} on {name}, by its data sheet"
    return measure_peak(dtype), f"measured with {dtype} products on {name or 'the CPU'}"


def peak_by_name(
    device_name: str, dtype: str, *, tensor_float_32: bool = True
) -> float | None:
    """Returns the peak FLOP/s in a GPU's data sheet, or None if it is unknown.

    `device_name` must be the driver's whole name, such as "NVIDIA A100-SXM4-80GB",
    because laptop GPUs and slices of GPUs are slower. `dtype` is "float32", "float16"
    or "bfloat16". With `tensor_float_32`, float32 products use TensorFloat-32.
    """
    words = re.split(r"[\s-]+", device_name.lower())
    model = " ".join(word for word in words if not _IRRELEVANT.fullmatch(word))
    float32, half, tf32 = _PEAKS.get(model, (None, None, None))
    tera = {
        "float32": tf32 if tensor_float_32 and tf32 else float32,
        "float16": half,
        "bfloat16": half if tf32 else None,
    }.get(dtype)
    return None if tera is None else tera * 1e12


def measure_peak(dtype: str) -> float:
    """Returns the highest measured FLOP/s of products of square `dtype` matrices."""
    best = 0.0
    for size in (256, 512, 1024, 2048, 4096, 8192):
        matrix = ops.full((size, size), 1 / size, dtype)
        seconds = []
        for _ in range(6):  # the first one sets up libraries
            begin = time.perf_counter()
            float(ops.matmul(matrix, matrix)[0, 0])  # waits for the device
            seconds.append(time.perf_counter() - begin)
        best = max(best, 2 * size**3 / max(min(seconds[1:]), 1e-9))
        if min(seconds[1:]) >= 0.01:
            break
    return best


# --- Memory ---------------------------------------------------------------------


def memory_use() -> dict[str, int]:
    """Returns the current and peak memory use of this process, in bytes.

    `host_memory_bytes` is the resident set size. With a GPU, `gpu_memory_bytes` is the
    memory allocated by tensors. The peaks are `…_memory_peak_bytes`.
    """
    status = pathlib.Path("/proc/self/status").read_text()
    resident, peak = (
        1024 * int(re.findall(rf"{name}:\s*(\d+)", status)[0])
        for name in ("VmRSS", "VmHWM")
    )
    # The kernel updates the peak lazily.
    figures = {
        "host_memory_bytes": resident,
        "host_memory_peak_bytes": max(resident, peak),
    }
    if (gpu := engine.current().gpu_memory_use()) is not None:
        figures["gpu_memory_bytes"], figures["gpu_memory_peak_bytes"] = gpu
    return figures


def available_memory() -> tuple[int, str]:
    """Returns the total memory in bytes and its device, "the GPU" or "this machine"."""
    if (limit := engine.current().gpu_memory_limit()) is not None:
        return limit, "the GPU"
    memory = psutil.virtual_memory().total
    with contextlib.suppress(OSError, ValueError):  # the limit of a container
        memory = min(memory, int(pathlib.Path("/sys/fs/cgroup/memory.max").read_text()))
    return memory, "this machine"


# --- Speed of a run -------------------------------------------------------------

# Columns of the log that depend on the machine. Identical runs may differ in them.
FIGURES = (
    "tokens_per_second",
    "model_flops_utilization",
    "data_wait_share",
    "host_memory_bytes",
    "host_memory_peak_bytes",
    "gpu_memory_bytes",
    "gpu_memory_peak_bytes",
    "elapsed_seconds",
)


class Throughput:
    """Measures the speed, data wait and memory use of each log interval.

    Speed and model FLOPs utilization are for all processes, other figures for this one.
    `peak` is the peak FLOP/s of all devices. Speed and data wait exclude the first
    update, which builds the graph, and all time in `paused`.
    """

    def __init__(
        self,
        flops_per_update: int | None = None,
        peak: float | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ):
        self._flops_per_update = flops_per_update
        self._peak = peak
        self._clock = clock
        self._begin = clock()
        self._updates: int | None = None
        self._tokens = 0.0
        # Begin of the interval, seconds paused, and seconds spent waiting for data.
        self._since = self._paused = self._waited = 0.0

    @property
    def is_measuring(self) -> bool:
        """Returns whether the first update is done."""
        return self._updates is not None

    def update_done(self, updates: int, read_tokens: Callable[[], float]) -> None:
        """Starts measuring at the first call, with the token count `read_tokens()`."""
        if self._updates is None:
            self._start_interval(updates, read_tokens())

    def next_of(self, batches: Iterator[Any]) -> Any:
        """Returns the next batch and counts the reading time as waiting for data.

        On a GPU, this is an upper bound, because the GPU may still compute a step.
        """
        begin = self._clock()
        batch = next(batches)
        self._waited += self._clock() - begin
        return batch

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Context manager whose duration is excluded from the measurement."""
        begin = self._clock()
        yield
        self._paused += self._clock() - begin

    def interval(self, updates: int, tokens: float) -> dict[str, float]:
        """Ends an interval at these totals. Returns its known `FIGURES` by name."""
        seconds = self._clock() - self._since - self._paused
        new_updates, new_tokens = updates - (self._updates or 0), tokens - self._tokens
        figures = {}
        if new_updates and self.is_measuring and seconds > 0:
            figures["tokens_per_second"] = new_tokens / seconds
            if self._flops_per_update and self._peak:
                speed = new_updates * self._flops_per_update / seconds
                figures["model_flops_utilization"] = speed / self._peak
            figures["data_wait_share"] = self._waited / seconds
        self._start_interval(updates, tokens)
        return {**figures, **self.now()}

    def now(self) -> dict[str, float]:
        """Returns the memory use and the seconds since this process began the run."""
        return {**memory_use(), "elapsed_seconds": self._clock() - self._begin}

    def _start_interval(self, updates: int, tokens: float) -> None:
        self._updates, self._tokens = updates, tokens
        self._since, self._paused, self._waited = self._clock(), 0.0, 0.0


def start(
    config: RunConfig, vocab_size: int, learner: Learner, report: Callable[[str], None]
) -> Throughput:
    """Returns a `Throughput` and reports its peak. All processes must call this."""
    distribution = learner.options.distribution
    device_peak, source = find_peak(learner.encoder.compute_dtype)
    num_devices = engine.current().num_devices()
    peak = sum(distribution.gather(device_peak * num_devices))
    flops = flops_per_update(config, vocab_size)
    if distribution.is_chief:
        report(f"Peak for MFU: {peak / 1e12:,.4g} TFLOP/s, {source}")
        if flops is None:
            report("No MFU: the FLOPs of this model are unknown")
    return Throughput(flops, peak)


def console_values(figures: Mapping[str, float]) -> dict[str, str]:
    """Formats a log row's figures with short names for the console."""
    texts = {}
    if "tokens_per_second" in figures:
        texts["tokens/s"] = f"{figures['tokens_per_second']:,.0f}"
    for name, column in (
        ("MFU", "model_flops_utilization"),
        ("data wait", "data_wait_share"),
    ):
        if column in figures:
            texts[name] = f"{figures[column]:.1%}"
    for name, device in (("host", "host_memory"), ("GPU", "gpu_memory")):
        if f"{device}_bytes" in figures:
            used, peak = figures[f"{device}_bytes"], figures[f"{device}_peak_bytes"]
            texts[name] = f"{used / 2**30:.2f}/{peak / 2**30:.2f} GiB"
    texts["elapsed"] = tqdm.format_interval(figures["elapsed_seconds"])
    return texts
