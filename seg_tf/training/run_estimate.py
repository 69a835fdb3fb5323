"""Figures of a run before it starts: updates, parameters, FLOPs and memory."""

import collections
import contextlib
import dataclasses
import math
from collections.abc import Iterable
from typing import Any

import keras
import tensorflow as tf

from seg_tf import configuration
from seg_tf.training import device_memory, flops
from seg_tf.training.inputs import Inputs, WeightedSource
from seg_tf.training.optimizers import schedule
from seg_tf.training.pretrainer import Pretrainer

ACTIVATIONS = "activations, roughly"
_UNKNOWN = "unknown"
_MIB = 2**20
# So often may a text be read: beyond, further training on it gains nothing
# (Muennighoff et al., 2023, figure 5).
_MOST_EPOCHS = 40
# The rest is for what the estimate leaves out: TensorFlow itself, its buffers, XLA's.
_USABLE_SHARE = 0.9


@dataclasses.dataclass(frozen=True)
class SourceFigures:
    """The part of a source in a run on a mixture.

    Attributes:
        num_samples: its rows in the whole run.
        epochs: times that each of its training rows is seen.
    """

    num_samples: int
    epochs: float


@dataclasses.dataclass(frozen=True)
class Plan:
    """The figures of a run.

    Attributes:
        batch_size: rows of an update, over all processes.
        micro_batch_size: rows that a process computes at once.
        num_processes: processes that train together.
        compiles: whether XLA compiles the step.
        num_updates: updates.
        num_samples: samples seen, which are rows.
        parts: what these rows are made of, "windows" or "texts"; None for a stream.
        num_parts: how many there are in them, or None.
        epochs: times that every training sample is seen; of a mixture, at least.
        sources: what is seen of each source of a mixture; nothing where it is none.
        tokens: real tokens seen, padding left out.
        peak_learning_rate: rate after the warm-up, or None for an optimizer that
            warms up otherwise.
        warmup_updates: updates of warm-up, or None.
        decay_begin: updates that come before the rate falls, where that is not the end
            of the warm-up; or None.
        parameters: trainable parameters by part of the model.
        memory: bytes of a process by purpose; without activations where the model's
            config does not say how many there are.
        available: bytes that a process has, and of which device.
        flops_per_update: FLOPs of an update, over all processes; None where they are
            unknown.
    """

    batch_size: int
    micro_batch_size: int
    num_processes: int
    compiles: bool
    num_updates: int
    num_samples: int
    parts: str | None
    num_parts: int | None
    epochs: float
    sources: dict[str, SourceFigures]
    tokens: int
    peak_learning_rate: float | None
    warmup_updates: int | None
    decay_begin: int | None
    parameters: dict[str, int]
    memory: dict[str, int]
    available: device_memory.DeviceMemory
    flops_per_update: int | None

    @property
    def fits(self) -> bool:
        """True if a process has the memory that it needs."""
        return self._fits(self.micro_batch_size)

    @property
    def largest_micro_batch_size(self) -> int | None:
        """The largest `micro_batch_size` that fits; None if not even 1 does."""
        possible = range(self.batch_size // self.num_processes, 0, -1)
        divisors = (size for size in possible if self.batch_size % size == 0)
        return next(filter(self._fits, divisors), None)

    def _fits(self, rows: int) -> bool:
        activations = self.memory.get(ACTIVATIONS, 0)
        growing = activations / self.micro_batch_size
        fixed = sum(self.memory.values()) - activations
        return fixed + rows * growing <= _USABLE_SHARE * self.available.size


def make_plan(
    config: configuration.RunConfig, inputs: Inputs, pretrainer: Pretrainer
) -> Plan:
    """Figures of `config` for the records of `inputs`."""
    settings = config.training
    num_samples = settings.num_updates * settings.batch_size
    num_processes = pretrainer.step_options.distribution.size
    rows = settings.micro_batch_size or settings.batch_size // num_processes
    rate = pretrainer.optimizer._learning_rate
    warms_up = isinstance(rate, schedule.WarmupDecay)
    vocab_size = config.model.vocab_size or inputs.vocab_size
    flops_per_update = None
    with contextlib.suppress(ValueError):
        flops_per_update = flops.flops_per_update(
            config, vocab_size, num_processes=num_processes
        )
    return Plan(
        batch_size=settings.batch_size,
        micro_batch_size=rows,
        num_processes=num_processes,
        compiles=pretrainer.step_options.jit_compile,
        num_updates=settings.num_updates,
        num_samples=num_samples,
        parts=inputs.parts,
        num_parts=round(num_samples * inputs.parts_per_row) if inputs.parts else None,
        epochs=num_samples / max(1, inputs.num_train_samples),
        sources={
            name: _source_figures(source, num_samples)
            for name, source in inputs.sources.items()
        },
        tokens=round(num_samples * config.inputs.row_length * inputs.fill),
        peak_learning_rate=rate.peak_learning_rate if warms_up else None,
        warmup_updates=rate.warmup_updates if warms_up else None,
        decay_begin=rate.decay_begin if warms_up else None,
        parameters=count_parameters(pretrainer),
        memory=_memory(config, pretrainer, vocab_size, rows),
        available=device_memory.available(),
        flops_per_update=flops_per_update,
    )


def count_parameters(pretrainer: Pretrainer) -> dict[str, int]:
    """Trainable parameters by part; shared ones count where they come first."""
    counts: dict[str, int] = collections.Counter()
    seen: set[int] = set()
    for layer in pretrainer.encoder.layers:
        # Layers of a stack are one part: transformer_layer_0, _1, …
        stem, _, number = layer.name.rpartition("_")
        part = f"encoder: {stem}s" if number.isdigit() else f"encoder: {layer.name}"
        counts[part] += _count_new(layer, seen)
    counts["encoder: other"] = _count_new(pretrainer.encoder, seen)
    for name, objective in pretrainer.objectives.items():
        counts[name] = _count_new(objective, seen)
    return {part: count for part, count in counts.items() if count}


def describe(plan: Plan, inputs: Inputs) -> str:
    """The plan as text."""
    lines = [
        "Plan",
        f"  updates          {plan.num_updates:,} of {plan.batch_size:,} rows",
        f"  at once          {plan.micro_batch_size:,} rows on each of "
        f"{plan.num_processes:,} processes",
        "  XLA              "
        + ("compiles the step" if plan.compiles else "is not used")
        + " (--config.training.jit_compile)",
        f"  rows             {_rows(plan.num_samples, plan.epochs, inputs)}",
    ]
    for name, figures in plan.sources.items():
        source = inputs.sources[name]
        rows = _rows(figures.num_samples, figures.epochs, source.inputs)
        lines.append(f"    {name}, weight {source.weight}: {rows}")
    if plan.parts:
        lines.append(
            f"  {plan.parts:<17}{plan.num_parts:,}: {inputs.parts_per_row:.2f} a row, "
            f"which they fill to {inputs.fill:.1%}"
        )
    lines.append(f"  tokens           {plan.tokens:,}, padding left out")
    if plan.peak_learning_rate is not None:
        lines.append(
            f"  learning rate    {plan.peak_learning_rate:g} after "
            f"{plan.warmup_updates:,} updates of warm-up" + _decay(plan)
        )
    lines.append(f"  parameters       {sum(plan.parameters.values()):,}")
    lines += [f"    {part:<32}{count:>14,}" for part, count in plan.parameters.items()]
    of_update, of_run = _UNKNOWN, ""
    if plan.flops_per_update is not None:
        of_update = f"{plan.flops_per_update:.3g} an update, "
        of_run = f"{plan.flops_per_update * plan.num_updates:.3g} in all"
    lines.append(f"  FLOPs            {of_update}{of_run}")
    lines.append(f"  memory, about    {_mebibytes(sum(plan.memory.values()))}")
    memory = {purpose: _mebibytes(size) for purpose, size in plan.memory.items()}
    memory.setdefault(ACTIVATIONS, _UNKNOWN)
    lines += [f"    {purpose:<32}{size:>14}" for purpose, size in memory.items()]
    lines += [f"Warning: {warning}" for warning in warnings(plan)]
    return "\n".join(lines)


def _rows(num_samples: int, epochs: float, inputs: Inputs) -> str:
    return (
        f"{num_samples:,}: {epochs:.2f} epochs over {inputs.num_train_samples:,} "
        f"(held out: {inputs.num_validation_samples:,})"
    )


def _source_figures(source: WeightedSource, of_mixture: int) -> SourceFigures:
    num_samples = source.num_samples(of_mixture)
    return SourceFigures(num_samples, num_samples / source.inputs.num_train_samples)


def _decay(plan: Plan) -> str:
    if plan.decay_begin is None:
        return ""
    return f", falling from update {plan.decay_begin:,} on"


def warnings(plan: Plan) -> list[str]:
    """Reasons to change the config before the run is started."""
    found = []
    if not plan.fits:
        found.append(
            f"about {_mebibytes(sum(plan.memory.values()))} of memory are needed, and "
            f"{plan.available.device} has {_mebibytes(plan.available.size)}. "
            f"{_smaller_rows(plan)}"
        )
    of_sources = {f"the text of {name}": s.epochs for name, s in plan.sources.items()}
    for text, epochs in (of_sources or {"the text": plan.epochs}).items():
        if epochs <= _MOST_EPOCHS:
            continue
        updates = math.floor(plan.num_updates * _MOST_EPOCHS / epochs)
        found.append(
            f"{text} is read {epochs:,.0f} times; after {_MOST_EPOCHS} times "
            "further training on it gains next to nothing (Muennighoff et al., 2023). "
            "Take more text, or at most --config.training.num_updates="
            f"{max(1, updates)}"
        )
    return found


def _smaller_rows(plan: Plan) -> str:
    rows = plan.largest_micro_batch_size
    if rows is None:
        return (
            "Not even a micro-batch of one row fits: take a smaller model, shorter "
            "rows or a larger machine"
        )
    return (
        "The largest micro-batch that fits, without a change of what is learned: "
        f"--config.training.micro_batch_size={rows}"
    )


def _count_new(layer: keras.layers.Layer, seen: set[int]) -> int:
    new = [v for v in layer.trainable_variables if id(v) not in seen]
    seen.update(id(variable) for variable in new)
    return sum(math.prod(variable.shape) for variable in new)


def _memory(
    config: configuration.RunConfig,
    pretrainer: Pretrainer,
    vocab_size: int,
    rows: int,
) -> dict[str, int]:
    weights = _bytes(pretrainer.trainable_variables)
    memory = {
        "weights": weights,
        "gradients": weights,
        "optimizer": _bytes(pretrainer.optimizer.variables),
        "memory of lanes": _bytes(pretrainer.memory.variables),
    }
    if hasattr(config.model, "row_activations"):
        memory[ACTIVATIONS] = _activations(config, vocab_size, rows)
    return memory


def _bytes(variables: Iterable[Any]) -> int:
    return sum(
        math.prod(variable.shape) * tf.as_dtype(variable.dtype).size
        for variable in variables
    )


def _activations(config: configuration.RunConfig, vocab_size: int, rows: int) -> int:
    """Bytes held at the peak of a forward and backward pass.

    The model's `row_activations`, and per masked position five times the vocabulary.
    On a CPU, three small encoders (2 to 4 layers of width 128 and 256, windows of 128
    to 512) made the process grow by this, by their gradients and by another 90 to 150
    MiB.
    """
    numbers = config.model.row_activations(config.inputs, vocab_size)
    if hasattr(config.inputs, "masking"):
        numbers += 5 * config.inputs.masking.max_predictions * vocab_size
    size = 4 if config.training.dtype_policy == "float32" else 2
    return rows * numbers * size


def _mebibytes(size: int) -> str:
    return f"{size / _MIB:,.0f} MiB"
