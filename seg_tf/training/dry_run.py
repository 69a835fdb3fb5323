"""The plan of a run, which `--dry_run` prints, and its measured speed."""

import collections
import dataclasses
import datetime
import math
import statistics
import time
from collections.abc import Iterable, Iterator
from typing import Any

import keras
import numpy as np

from seg_tf.config import RunConfig
from seg_tf.training import throughput
from seg_tf.training.inputs import Inputs
from seg_tf.training.learner import Learner
from seg_tf.training.optimizers import schedule

ACTIVATIONS = "activations, roughly"
# Reading text more often gains nothing (Muennighoff et al., 2023, figure 5).
_MAX_EPOCHS = 40
# The estimate leaves out TensorFlow itself, its buffers and XLA's.
_USABLE_SHARE = 0.9


@dataclasses.dataclass(frozen=True)
class Plan:
    """A run before it starts.

    Attributes:
        config: the run.
        inputs: its input pipeline.
        num_processes: number of processes.
        micro_batch_size: rows that a process computes at once.
        compiles: whether XLA compiles the step.
        rate: learning rate of the optimizer.
        parameters: trainable parameters by part of the model.
        memory: bytes of a process by purpose, without activations if they are unknown.
        available: bytes that a process may use, and the name of its device.
        flops_per_update: model FLOPs over all processes, or None if they are unknown.
    """

    config: RunConfig
    inputs: Inputs
    num_processes: int
    micro_batch_size: int
    compiles: bool
    rate: Any
    parameters: dict[str, int]
    memory: dict[str, int]
    available: tuple[int, str]
    flops_per_update: int | None

    @property
    def num_samples(self) -> int:
        """Rows of the whole run."""
        return self.config.training.num_updates * self.config.training.batch_size

    @property
    def tokens(self) -> int:
        """Tokens of the whole run without padding."""
        row_length = self.config.inputs.row_length
        return round(self.num_samples * row_length * self.inputs.fill)

    @property
    def largest_micro_batch_size(self) -> int | None:
        """The largest `micro_batch_size` that fits, or None if not even 1 does."""
        batch_size = self.config.training.batch_size
        sizes = range(batch_size // self.num_processes, 0, -1)
        return next((n for n in sizes if batch_size % n == 0 and self.fits(n)), None)

    def fits(self, rows: int) -> bool:
        """True if a process has the memory for a micro-batch of `rows`."""
        activations = self.memory.get(ACTIVATIONS, 0)
        fixed = sum(self.memory.values()) - activations
        needed = fixed + rows * activations / self.micro_batch_size
        return needed <= _USABLE_SHARE * self.available[0]


def make_plan(config: RunConfig, inputs: Inputs, learner: Learner) -> Plan:
    """Plans a run on the records of `inputs`."""
    training, options = config.training, learner.options
    num_processes = options.distribution.size
    rows = training.micro_batch_size or training.batch_size // num_processes
    weights = _num_bytes(learner.trainable_variables)
    memory = {
        "weights": weights,
        "gradients": weights,
        "optimizer": _num_bytes(learner.optimizer.variables),
        "memory of lanes": _num_bytes(learner.memory.variables),
    }
    vocab_size = config.model.vocab_size or inputs.vocab_size
    if hasattr(config.model, "row_activations"):
        numbers = config.model.row_activations(
            config.inputs, vocab_size, training.recompute_layers
        )
        if hasattr(config.inputs, "masking"):
            numbers += 5 * config.inputs.masking.max_predictions * vocab_size
        size = 4 if training.dtype_policy == "float32" else 2
        memory[ACTIVATIONS] = rows * numbers * size
    return Plan(
        config=config,
        inputs=inputs,
        num_processes=num_processes,
        micro_batch_size=rows,
        compiles=options.jit_compile,
        rate=learner.optimizer._learning_rate,
        parameters=_count_parameters(learner),
        memory=memory,
        available=throughput.available_memory(),
        flops_per_update=throughput.flops_per_update(config, vocab_size),
    )


def _count_parameters(learner: Learner) -> dict[str, int]:
    """Trainable parameters by part of the model; shared ones count once."""
    counts: dict[str, int] = collections.Counter()
    seen: set[int] = set()

    def count(layer: keras.layers.Layer) -> int:
        new = [v for v in layer.trainable_variables if id(v) not in seen]
        seen.update(id(variable) for variable in new)
        return sum(math.prod(variable.shape) for variable in new)

    for layer in learner.encoder.layers:
        # Layers of a stack are one part: transformer_layer_0, _1, …
        stem, _, number = layer.name.rpartition("_")
        part = f"encoder: {stem}s" if number.isdigit() else f"encoder: {layer.name}"
        counts[part] += count(layer)
    counts["encoder: other"] = count(learner.encoder)
    for name, objective in learner.objectives.items():
        counts[name] = count(objective)
    return {part: number for part, number in counts.items() if number}


def describe(plan: Plan) -> str:
    """The plan as text."""
    training, inputs, rate = plan.config.training, plan.inputs, plan.rate
    compiles = "compiles the step" if plan.compiles else "is not used"
    lines = [
        "Plan",
        f"  updates          {training.num_updates:,} of {training.batch_size:,} rows",
        f"  at once          {plan.micro_batch_size:,} rows on each of "
        f"{plan.num_processes:,} processes",
        f"  XLA              {compiles} (--config.training.jit_compile)",
        f"  rows             {_describe_rows(plan.num_samples, inputs)}",
    ]
    for name, source in inputs.sources.items():
        rows = _describe_rows(source.num_samples(plan.num_samples), source.inputs)
        lines.append(f"    {name}, weight {source.weight}: {rows}")
    lines.append(
        f"  tokens           {plan.tokens:,}, which fill the rows to {inputs.fill:.1%}"
    )
    if isinstance(rate, schedule.WarmupDecay):
        decay = ""
        if rate.decay_begin is not None:
            decay = f", decaying from update {rate.decay_begin:,}"
        lines.append(
            f"  learning rate    {rate.peak_learning_rate:g} after "
            f"{rate.warmup_updates:,} updates of warm-up{decay}"
        )
    lines.append(f"  parameters       {sum(plan.parameters.values()):,}")
    lines += [f"    {part:<32}{count:>14,}" for part, count in plan.parameters.items()]
    flops = "unknown"
    if plan.flops_per_update is not None:
        total = plan.flops_per_update * training.num_updates
        flops = f"{plan.flops_per_update:.3g} an update, {total:.3g} in all"
    lines.append(f"  FLOPs            {flops}")
    lines.append(f"  memory, about    {_mebibytes(sum(plan.memory.values()))}")
    memory = {purpose: _mebibytes(size) for purpose, size in plan.memory.items()}
    memory.setdefault(ACTIVATIONS, "unknown")
    lines += [f"    {purpose:<32}{size:>14}" for purpose, size in memory.items()]
    lines += [f"Warning: {warning}" for warning in warnings(plan)]
    return "\n".join(lines)


def warnings(plan: Plan) -> list[str]:
    """Reasons to change the config before the run starts."""
    texts = []
    if not plan.fits(plan.micro_batch_size):
        rows = plan.largest_micro_batch_size
        advice = (
            "Not even a micro-batch of one row fits: use a smaller model, shorter "
            "rows or a larger machine"
            if rows is None
            else "The largest micro-batch that fits, which does not change the "
            f"result: --config.training.micro_batch_size={rows}"
        )
        size, device = plan.available
        texts.append(
            f"about {_mebibytes(sum(plan.memory.values()))} of memory are needed, and "
            f"{device} has {_mebibytes(size)}. {advice}"
        )
    sources = {
        f"the text of {name}": (source.num_samples(plan.num_samples), source.inputs)
        for name, source in plan.inputs.sources.items()
    } or {"the text": (plan.num_samples, plan.inputs)}
    for name, (num_samples, inputs) in sources.items():
        epochs = num_samples / max(1, inputs.num_train_samples)
        if epochs > _MAX_EPOCHS:
            updates = plan.config.training.num_updates * _MAX_EPOCHS / epochs
            texts.append(
                f"{name} is read {epochs:,.0f} times. After {_MAX_EPOCHS} times, "
                "further training gains next to nothing (Muennighoff et al., 2023). "
                "Use more text, or at most --config.training.num_updates="
                f"{max(1, math.floor(updates))}"
            )
    return texts


def measure(learner: Learner, batches: Iterator[Any], num_updates: int) -> list[float]:
    """Seconds of each of `num_updates` updates, after one that builds the graph.

    The updates change the weights of `learner`. Every process of a run calls it.

    Raises:
        NonFiniteSteps: if too many steps in a row have no finite loss or gradient.
        tf.errors.ResourceExhaustedError: if the memory of a GPU is too small.
    """
    seconds = []
    for _ in range(num_updates + 1):
        begin = time.perf_counter()
        learner.make_update(batches)
        # Reading a variable that the update wrote waits for the device.
        int(learner.optimizer.iterations)
        seconds.append(time.perf_counter() - begin)
    return seconds[1:]


def describe_measurement(seconds: list[float], plan: Plan) -> str:
    """The measured speed and the time of the whole run as text."""
    mean = statistics.mean(seconds)
    num_updates = plan.config.training.num_updates
    speed = f"{plan.tokens / num_updates / mean:,.0f} tokens a second"
    if plan.flops_per_update is not None:
        speed += f", {plan.flops_per_update / mean / 1e12:.3g} TFLOP/s"
    duration = datetime.timedelta(seconds=round(num_updates * mean))
    return (
        "Measured\n"
        f"  updates          {len(seconds):,}, after one that is not counted: "
        f"{mean:.3g} s each ({min(seconds):.3g} to {max(seconds):.3g})\n"
        f"  speed            {speed}\n"
        f"  the whole run    {duration}, validations and checkpoints not counted"
    )


def _describe_rows(num_samples: int, inputs: Inputs) -> str:
    epochs = num_samples / max(1, inputs.num_train_samples)
    return (
        f"{num_samples:,}: {epochs:.2f} epochs over {inputs.num_train_samples:,} "
        f"(held out: {inputs.num_validation_samples:,})"
    )


def _num_bytes(variables: Iterable[Any]) -> int:
    return sum(
        math.prod(v.shape) * np.dtype(keras.backend.standardize_dtype(v.dtype)).itemsize
        for v in variables
    )


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"
