"""Speed of a run, measured by some real updates; nothing is written."""

import statistics
import time

from seg_tf import configuration
from seg_tf.training import fitting
from seg_tf.training.inputs import Inputs
from seg_tf.training.pretrainer import Pretrainer
from seg_tf.training.run_estimate import Plan


def measure(
    pretrainer: Pretrainer,
    inputs: Inputs,
    settings: configuration.TrainingConfig,
    num_updates: int,
) -> list[float]:
    """Seconds of each of `num_updates` updates, after one that is not counted.

    The first one builds the graph. All are updates of the run's own batches and change
    the weights of `pretrainer`; nothing is written. Every process of a run has to call
    it.

    Args:
        pretrainer: compiled and built.
        inputs: its input pipeline.
        settings: the run's `TrainingConfig`.
        num_updates: updates to measure.

    Raises:
        NonFiniteSteps: if too many steps in a row have no finite loss or gradient.
        tf.errors.ResourceExhaustedError: if the memory of a GPU is too small.
    """
    distribution = pretrainer.step_options.distribution
    batches = iter(fitting.train_dataset(inputs, settings, 0, distribution))
    seconds = []
    for _ in range(num_updates + 1):
        begin = time.perf_counter()
        pretrainer.make_update(batches)
        # Reading what the update wrote waits until the device is done.
        int(pretrainer.optimizer.iterations)
        seconds.append(time.perf_counter() - begin)
    return seconds[1:]


def describe(seconds: list[float], plan: Plan) -> str:
    """The measurement, and the run that it promises, as text."""
    of_update = statistics.mean(seconds)
    tokens = plan.tokens / plan.num_updates / of_update
    flops = plan.flops_per_update
    lines = [
        "Measured",
        f"  updates          {len(seconds):,}, after one that is not counted: "
        f"{of_update:.3g} s each ({min(seconds):.3g} to {max(seconds):.3g})",
        f"  speed            {tokens:,.0f} tokens a second"
        + ("" if flops is None else f", {flops / of_update / 1e12:.3g} TFLOP/s"),
        f"  the whole run    {duration(plan.num_updates * of_update)}, validations and "
        "checkpoints not counted",
    ]
    return "\n".join(lines)


def duration(seconds: float) -> str:
    """`3 d 4 h`, `2 h 5 min`, `7 min 30 s` or `12 s`."""
    for unit, name, smaller, smaller_name in (
        (86_400, "d", 3_600, "h"),
        (3_600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if seconds >= unit:
            # In whole smaller units first, so that none of them comes to a larger one.
            whole = round(seconds / smaller) * smaller
            return f"{whole // unit:,} {name} {whole % unit // smaller} {smaller_name}"
    return f"{seconds:.0f} s"
