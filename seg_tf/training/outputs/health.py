"""Health of a run: how fast it is, what it waits for and the memory it takes."""

import time
from collections.abc import Callable, Mapping

from tqdm import tqdm

from seg_tf import configuration
from seg_tf.training import engine, peak_flops
from seg_tf.training.flops import flops_per_update
from seg_tf.training.memory_use import memory_use
from seg_tf.training.outputs.stopwatch import Stopwatch
from seg_tf.training.pretrainer import Pretrainer

# The names under which a log has them. They depend on the machine, and so differ
# between runs that are equal in everything else.
FIGURES = (
    "tokens_per_second",
    "model_flops_utilization",
    "data_wait_share",
    "host_memory_bytes",
    "host_memory_peak_bytes",
    "gpu_memory_bytes",
    "gpu_memory_peak_bytes",
    "elapsed_seconds",
    "total_seconds",
)


class Health:
    """Figures of each log interval of a process.

    Speed and utilisation are those of all processes of the run, which make every
    update together; the other figures are of this process.

    Args:
        stopwatch: the one that the training loop reads its batches by.
        flops_per_update: model FLOPs of an update, over all processes; None where
            they are unknown, and then there is no utilisation.
        peak: FLOPs per second of all devices of the run.
        clock: returns seconds; counts from now on.
    """

    def __init__(
        self,
        stopwatch: Stopwatch,
        flops_per_update: int | None = None,
        peak: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.stopwatch = stopwatch
        self._flops_per_update = flops_per_update
        self._peak = peak
        self._clock = clock
        self._begin = clock()
        self._updates: int | None = None
        self._tokens = 0.0

    @property
    def is_measuring(self) -> bool:
        """True after the first update."""
        return self._updates is not None

    def update_done(self, updates: int, read_tokens: Callable[[], float]) -> None:
        """Called after every update; measuring starts after the first.

        That one builds the graph and is in no figure but the time.

        Args:
            updates: updates done.
            read_tokens: reads the tokens of the run so far; not called but once.
        """
        if self._updates is None:
            self._updates = updates
            self._tokens = read_tokens()
            self.stopwatch.start()

    def interval(self, updates: int, tokens: float) -> dict[str, float]:
        """Figures since the last call, without speeds if nothing was measured.

        Args:
            updates: updates done.
            tokens: tokens of the run so far.
        """
        lap = self.stopwatch.lap()
        new_updates, new_tokens = updates - self._updates, tokens - self._tokens
        self._updates, self._tokens = updates, tokens
        figures = {}
        if new_updates and lap.seconds > 0:
            figures["tokens_per_second"] = new_tokens / lap.seconds
            if self._flops_per_update and self._peak:
                speed = new_updates * self._flops_per_update / lap.seconds
                figures["model_flops_utilization"] = speed / self._peak
            figures["data_wait_share"] = lap.waited / lap.seconds
        return {**figures, **self.now()}

    def now(self) -> dict[str, float]:
        """Memory, and seconds since this process started or took the run up."""
        return {**memory_use(), "elapsed_seconds": self._clock() - self._begin}


def of_run(
    config: configuration.RunConfig,
    vocab_size: int,
    pretrainer: Pretrainer,
    report: Callable[[str], None],
) -> Health:
    """The health of a run that begins or continues now.

    Finds the peak of the device, and adds up those of all processes; each of them
    has to call this.

    Args:
        config: the run.
        vocab_size: entries of the vocabulary.
        pretrainer: what trains.
        report: called on the chief with a line on the peak, and with another if the
            FLOPs of the model are unknown.
    """
    distribution = pretrainer.step_options.distribution
    own = peak_flops.find_peak(pretrainer.encoder.compute_dtype)
    num_devices = engine.current().devices.num_used()
    peak = sum(distribution.gather(own.flops_per_second * num_devices))
    lines = [f"Peak for MFU: {peak_flops.in_words(peak)}, {own.source}"]
    if distribution.size > 1:
        lines[0] += f" (of rank 0; the sum is of {distribution.size} processes)"
    try:
        flops = flops_per_update(config, vocab_size, num_processes=distribution.size)
    except ValueError as error:
        flops = None
        lines.append(f"No MFU: {error}")
    if distribution.is_chief:
        for line in lines:
            report(line)
    return Health(pretrainer.stopwatch, flops, peak)


def shown(figures: Mapping[str, float]) -> dict[str, str]:
    """The figures of a log row as short names and words, for a console."""
    words = {}
    if "tokens_per_second" in figures:
        words["tokens/s"] = f"{figures['tokens_per_second']:,.0f}"
    if "model_flops_utilization" in figures:
        words["MFU"] = f"{figures['model_flops_utilization']:.1%}"
    if "data_wait_share" in figures:
        words["data wait"] = f"{figures['data_wait_share']:.1%}"
    for name, device in (("host", "host_memory"), ("GPU", "gpu_memory")):
        if f"{device}_bytes" in figures:
            held, peak = figures[f"{device}_bytes"], figures[f"{device}_peak_bytes"]
            words[name] = f"{held / 2**30:.2f}/{peak / 2**30:.2f} GiB"
    elapsed, total = figures["elapsed_seconds"], figures["total_seconds"]
    words["elapsed"] = tqdm.format_interval(elapsed)
    if total > elapsed:
        words["elapsed"] += f" ({tqdm.format_interval(total)} in all)"
    return words
