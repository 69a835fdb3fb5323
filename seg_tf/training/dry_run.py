"""Describes the plan of a run, and measures its speed for `--dry_run`."""

import datetime
import math
import statistics
import time
from collections.abc import Iterator
from typing import Any

from seg_tf.config import RunConfig
from seg_tf.training import throughput
from seg_tf.training.build import Inputs
from seg_tf.training.checkpoint import num_bytes
from seg_tf.training.learner import Learner

ACTIVATIONS = "activations, roughly"
# The estimate omits TensorFlow itself, its buffers and XLA's buffers.
_USABLE_SHARE = 0.9


def tokens_per_update(config: RunConfig, inputs: Inputs) -> float:
    """Estimates the number of tokens per update on all processes, without padding."""
    return config.training.batch_size * config.inputs.row_length * inputs.fill


def memory(config: RunConfig, inputs: Inputs, learner: Learner) -> dict[str, int]:
    """Returns the estimated bytes of memory per process, by purpose.

    The purposes are "weights", "gradients", "optimizer", "memory of lanes" and, if the
    model's config can estimate them, `ACTIVATIONS`.
    """
    weights = num_bytes(learner.trainable_variables)
    sizes = {
        "weights": weights,
        "gradients": weights,
        "optimizer": num_bytes(learner.optimizer.variables),
        "memory of lanes": num_bytes(learner.memory.variables),
    }
    training, vocab_size = config.training, config.model.vocab_size or inputs.vocab_size
    if hasattr(config.model, "row_activations"):
        numbers = config.model.row_activations(
            config.inputs, vocab_size, training.recompute_layers
        )
        if hasattr(config.inputs, "masking"):
            numbers += 5 * config.inputs.masking.max_predictions * vocab_size
        size = 4 if training.dtype_policy == "float32" else 2
        sizes[ACTIVATIONS] = _rows_at_once(config, learner) * int(numbers) * size
    return sizes


def describe(config: RunConfig, inputs: Inputs, learner: Learner) -> str:
    """Returns the text of a run's plan, with a warning if memory may be too small."""
    training, options = config.training, learner.options
    num_samples = training.num_updates * training.batch_size
    lines = [
        "Plan",
        f"  updates          {training.num_updates:,} of {training.batch_size:,} rows",
        f"  at once          {_rows_at_once(config, learner):,} rows on each of "
        f"{options.distribution.size:,} processes"
        + (", compiled by XLA" if options.jit_compile else ""),
        f"  rows             {_describe_rows(num_samples, inputs)}",
    ]
    for name, source in inputs.sources.items():
        rows = _describe_rows(source.num_samples(num_samples), source.inputs)
        lines.append(f"    {name}, weight {source.weight}: {rows}")
    tokens = round(training.num_updates * tokens_per_update(config, inputs))
    parameters = sum(math.prod(v.shape) for v in learner.trainable_variables)
    flops = "unknown"
    per_update = throughput.flops_per_update(config, inputs.vocab_size)
    if per_update is not None:
        total = per_update * training.num_updates
        flops = f"{per_update:.3g} an update, {total:.3g} in all"
    sizes = memory(config, inputs, learner)
    texts = {purpose: _mebibytes(size) for purpose, size in sizes.items()}
    texts.setdefault(ACTIVATIONS, "unknown")
    needed = sum(sizes.values())
    lines += [
        f"  tokens           {tokens:,}, which fill the rows to {inputs.fill:.1%}",
        f"  parameters       {parameters:,}",
        f"  FLOPs            {flops}",
        f"  memory, about    {_mebibytes(needed)}",
        *(f"    {purpose:<32}{size:>14}" for purpose, size in texts.items()),
    ]
    available, device = throughput.available_memory()
    if needed > _USABLE_SHARE * available:
        lines.append(
            f"Warning: about {_mebibytes(needed)} of memory are needed, and {device} "
            f"has {_mebibytes(available)}. A lower --config.training.micro_batch_size "
            "does not change the result"
        )
    return "\n".join(lines)


def measure(learner: Learner, batches: Iterator[Any], num_updates: int) -> list[float]:
    """Returns the seconds of each of `num_updates` updates, which change the weights.

    A first update, which builds the graph, is excluded. All processes must call this.
    """
    seconds = []
    for _ in range(num_updates + 1):
        begin = time.perf_counter()
        learner.make_update(batches)
        # Reading a variable that the update assigned waits for the device.
        int(learner.optimizer.iterations)
        seconds.append(time.perf_counter() - begin)
    return seconds[1:]


def describe_measurement(
    seconds: list[float], config: RunConfig, inputs: Inputs
) -> str:
    """Returns the measured speed and the estimated time of the whole run as text."""
    mean = statistics.mean(seconds)
    speed = f"{tokens_per_update(config, inputs) / mean:,.0f} tokens a second"
    per_update = throughput.flops_per_update(config, inputs.vocab_size)
    if per_update is not None:
        speed += f", {per_update / mean / 1e12:.3g} TFLOP/s"
    duration = datetime.timedelta(seconds=round(config.training.num_updates * mean))
    return (
        "Measured\n"
        f"  updates          {len(seconds):,}, after one that is not counted: "
        f"{mean:.3g} s each ({min(seconds):.3g} to {max(seconds):.3g})\n"
        f"  speed            {speed}\n"
        f"  the whole run    {duration}, validations and checkpoints not counted"
    )


def _rows_at_once(config: RunConfig, learner: Learner) -> int:
    training, size = config.training, learner.options.distribution.size
    return training.micro_batch_size or training.batch_size // size


def _describe_rows(num_samples: int, inputs: Inputs) -> str:
    epochs = num_samples / max(1, inputs.num_train_samples)
    return (
        f"{num_samples:,}: {epochs:.2f} epochs over {inputs.num_train_samples:,} "
        f"(held out: {inputs.num_validation_samples:,})"
    )


def _mebibytes(size: float) -> str:
    return f"{size / 2**20:,.0f} MiB"
