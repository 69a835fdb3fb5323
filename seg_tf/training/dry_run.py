"""The plan of a run, which `--dry_run` prints, and its measured speed."""

import dataclasses
import datetime
import functools
import math
import statistics
import time
from collections.abc import Iterator
from typing import Any

from seg_tf.config import RunConfig
from seg_tf.training import throughput
from seg_tf.training.checkpoint import num_bytes
from seg_tf.training.inputs import Inputs
from seg_tf.training.learner import Learner

# The estimate leaves out TensorFlow itself, its buffers and XLA's.
_USABLE_SHARE = 0.9


@dataclasses.dataclass(frozen=True)
class Plan:
    """A run before it starts."""

    config: RunConfig
    inputs: Inputs
    learner: Learner

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
    def vocab_size(self) -> int:
        return self.config.model.vocab_size or self.inputs.vocab_size

    @property
    def flops_per_update(self) -> int | None:
        """Model FLOPs over all processes, or None if they are unknown."""
        return throughput.flops_per_update(self.config, self.vocab_size)

    @property
    def micro_batch_size(self) -> int:
        """Rows that a process computes at once."""
        training, size = self.config.training, self.learner.options.distribution.size
        return training.micro_batch_size or training.batch_size // size

    @functools.cached_property
    def memory(self) -> dict[str, int]:
        """Bytes of a process by purpose."""
        learner = self.learner
        weights = num_bytes(learner.trainable_variables)
        return {
            "weights": weights,
            "gradients": weights,
            "optimizer": num_bytes(learner.optimizer.variables),
            "memory of lanes": num_bytes(learner.memory.variables),
        }

    @functools.cached_property
    def row_activations(self) -> int | None:
        """Bytes that the backward pass of a row needs, or None if they are unknown."""
        config, training = self.config, self.config.training
        if not hasattr(config.model, "row_activations"):
            return None
        numbers = config.model.row_activations(
            config.inputs, self.vocab_size, training.recompute_layers
        )
        if hasattr(config.inputs, "masking"):
            numbers += 5 * config.inputs.masking.max_predictions * self.vocab_size
        return int(numbers) * (4 if training.dtype_policy == "float32" else 2)

    @property
    def needed(self) -> int:
        """Bytes of a process, without activations if those are unknown."""
        activations = self.micro_batch_size * (self.row_activations or 0)
        return sum(self.memory.values()) + activations


def describe(plan: Plan) -> str:
    """The plan as text."""
    training, inputs, learner = plan.config.training, plan.inputs, plan.learner
    lines = [
        "Plan",
        f"  updates          {training.num_updates:,} of {training.batch_size:,} rows",
        f"  at once          {plan.micro_batch_size:,} rows on each of "
        f"{learner.options.distribution.size:,} processes"
        + (", compiled by XLA" if learner.options.jit_compile else ""),
        f"  rows             {_describe_rows(plan.num_samples, inputs)}",
    ]
    for name, source in inputs.sources.items():
        rows = _describe_rows(source.num_samples(plan.num_samples), source.inputs)
        lines.append(f"    {name}, weight {source.weight}: {rows}")
    if inputs.parts:
        lines.append(
            f"  {inputs.parts:<17}{round(plan.num_samples * inputs.parts_per_row):,}: "
            f"{inputs.parts_per_row:.2f} a row, which they fill to {inputs.fill:.1%}"
        )
    parameters = sum(math.prod(v.shape) for v in learner.trainable_variables)
    flops = activations = "unknown"
    if (per_update := plan.flops_per_update) is not None:
        total = per_update * training.num_updates
        flops = f"{per_update:.3g} an update, {total:.3g} in all"
    if plan.row_activations is not None:
        activations = _mebibytes(plan.micro_batch_size * plan.row_activations)
    memory = {purpose: _mebibytes(size) for purpose, size in plan.memory.items()}
    memory["activations, roughly"] = activations
    lines += [
        f"  tokens           {plan.tokens:,}, without padding",
        f"  parameters       {parameters:,}",
        f"  FLOPs            {flops}",
        f"  memory, about    {_mebibytes(plan.needed)}",
        *(f"    {purpose:<32}{size:>14}" for purpose, size in memory.items()),
    ]
    size, device = throughput.available_memory()
    if plan.needed > _USABLE_SHARE * size:
        lines.append(
            f"Warning: about {_mebibytes(plan.needed)} of memory are needed, and "
            f"{device} has {_mebibytes(size)}. A lower "
            "--config.training.micro_batch_size does not change the result"
        )
    return "\n".join(lines)


def measure(learner: Learner, batches: Iterator[Any], num_updates: int) -> list[float]:
    """Seconds of each of `num_updates` updates, after one that builds the graph.

    The updates change the weights of `learner`. Every process of a run calls it.
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
    if (per_update := plan.flops_per_update) is not None:
        speed += f", {per_update / mean / 1e12:.3g} TFLOP/s"
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


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"
