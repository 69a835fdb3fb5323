r"""Measures training steps per second of two processes with and without all-reduce.

  python -m benchmarks.horovod_step
  python -m benchmarks.horovod_step --micro_batches=4
  python -m benchmarks.horovod_step --layers=2 --hidden_size=128 --num_heads=2 \
      --vocab_size=8192 --micro_batch_size=32 --steps=5

`horovodrun` starts two processes, each on a separate core with one thread. They train
the same model in three ways that take turns: as one run that sums gradients in groups,
as one run that sums all gradients at once, and as two independent runs. The processes
start each round together, and it ends when the slower one is done. The difference in
speed is therefore the cost of the all-reduce, of waiting for the other process and of
the second copy of the gradients.
"""

import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf
from absl import flags

from benchmarks import encoder_step, paired
from seg_tf import command_line
from seg_tf.training import tensorflow_engine
from seg_tf.training.distribution import Distribution

_MICRO_BATCHES = flags.DEFINE_integer("micro_batches", 1, "Of an update, per process.")
_MICRO_BATCH_SIZE = flags.DEFINE_integer("micro_batch_size", 8, "Rows of each.")
_GROUPS = flags.DEFINE_integer("gradient_groups", 4, "In which gradients travel.")
_COMPRESS = flags.DEFINE_bool("compress_gradients", False, "Send them as float16.")
_STEPS = flags.DEFINE_integer("steps", 1, "Updates of a round.")
_ROUNDS = flags.DEFINE_integer("rounds", 7, "Counted rounds.")


def _step(processes: Distribution, groups: int = 1) -> Callable[[], object]:
    config = encoder_step.run_config(
        encoder_step.SEGABERT,
        rows=_MICRO_BATCH_SIZE.value * _MICRO_BATCHES.value,
        micro_batch_size=_MICRO_BATCH_SIZE.value,
        compress_gradients=_COMPRESS.value,
        gradient_groups=groups,
    )
    return encoder_step.seg_tf_step(config, processes)


def _side(step: Callable[[], object], processes: Distribution) -> Callable[[], float]:
    steps = paired.repeated(step, _STEPS.value)

    def work() -> float:
        done = steps()
        processes.gather(None)  # until the other one is done as well
        return done

    return work


def _measure() -> None:
    """Runs the benchmark in one of the two processes."""
    processes = tensorflow_engine.join()
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[processes.rank % len(cores)]})
    tf.config.threading.set_intra_op_parallelism_threads(1)
    sides = {
        "summing": _side(_step(processes, _GROUPS.value), processes),
        "summing at once": _side(_step(processes), processes),
        "apart": _side(_step(Distribution()), processes),
    }
    processes.gather(None)
    rates = paired.interleave(sides, _ROUNDS.value)
    if processes.is_chief:
        paired.print_machine()
        paired.report(rates, of="summing", against="summing at once", unit="updates/s")
        paired.report(
            rates,
            of="summing",
            against="apart",
            unit="updates/s",
            target=0.85 if _MICRO_BATCHES.value >= 4 else 0.75,
        )


def main(argv: Sequence[str]) -> None:
    if os.environ.get("HOROVOD_RANK"):
        _measure()
        return
    horovodrun = pathlib.Path(sys.executable).parent / "horovodrun"
    if not horovodrun.exists():
        sys.exit("Horovod is not installed: make setup HOROVOD=require")
    command = [horovodrun, "--gloo", "-np", "2", sys.executable, "-m"]
    command += ["benchmarks.horovod_step", *sys.argv[1:]]
    started = time.monotonic()
    done = subprocess.run(list(map(str, command)), check=False)
    print(f"took {time.monotonic() - started:.0f} s")
    sys.exit(done.returncode)


if __name__ == "__main__":
    command_line.run(main)
