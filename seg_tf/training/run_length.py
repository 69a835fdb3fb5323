"""Change of a run's length: the update and the learning rate it continues from."""

from collections.abc import Callable, Mapping
from typing import Any

from seg_tf import configuration
from seg_tf.training import run_folder
from seg_tf.training.checkpoint import Checkpoints
from seg_tf.training.optimizers import optimizer
from seg_tf.training.run_folder import LengthChange, RunFolder


def take_over(
    change: LengthChange,
    newest: Mapping[str, Any] | None,
    *,
    config: configuration.RunConfig,
    checkpoints: Checkpoints,
    folder: RunFolder,
    description: Mapping[str, Any],
    report: Callable[[str], None],
) -> Mapping[str, Any] | None:
    """Chooses the checkpoint that a run of another length continues from.

    It continues from its newest checkpoint, at the rates that the new length gives the
    updates from there on. Where the schedule does not depend on the length up to its
    decay, the run goes back to the newest checkpoint from before both decays: then it
    equals, bit for bit, a run that had the new length from the start. The checkpoints
    that it goes back over are kept below `RunFolder.ends_folder`.

    A process that is killed in here leaves a run of the old length, whose next start
    decides anew.

    Args:
        change: the lengths.
        newest: state of the newest checkpoint; None if there is none.
        config: the run, with its new length.
        checkpoints: those of the run.
        folder: its output folder.
        description: as `run_folder.describe_run` gives it.
        report: called with each line worth saying.

    Returns:
        State of the checkpoint to continue from; None if there is none.

    Raises:
        CheckpointError: if no checkpoint from before the decay is whole.
    """
    state = newest
    common = _common_updates(config, change)
    if newest and common is not None and newest["updates"] > common:
        state = _go_back(change, newest, common, checkpoints, folder, report)
    updates = state["updates"] if state else 0
    before, now = (
        optimizer.rate_after(config.optimizer, length, updates)
        for length in (change.before, change.now)
    )
    same = before == now
    report(
        f"The run has {change.now:,} updates from update {updates:,} on, where it had "
        f"{change.before:,}: the next one is made at the learning rate {now:.6g}, "
        + ("by either length" if same else f"which was to be {before:.6g}")
    )
    run_folder.record(
        folder,
        description,
        {
            "updates": updates,
            "num_updates_before": change.before,
            "num_updates": change.now,
            "learning_rate_before": before,
            "learning_rate": now,
        },
    )
    return state


def _common_updates(
    config: configuration.RunConfig, change: LengthChange
) -> int | None:
    """Updates at which both lengths have the same rates; None if there are none."""
    before, now = config.decay_begin(change.before), config.decay_begin(change.now)
    return None if before is None or now is None else min(before, now)


def _go_back(
    change: LengthChange,
    newest: Mapping[str, Any],
    common: int,
    checkpoints: Checkpoints,
    folder: RunFolder,
    report: Callable[[str], None],
) -> Mapping[str, Any]:
    state = checkpoints.newest_intact(at_most=common)
    if state is None:
        report(
            f"No checkpoint is left from before update {common:,}, where the decay "
            "begins: the run goes on from its newest one, and will not equal one that "
            f"had {change.now:,} updates from the start"
        )
        return newest
    end = folder.end_folder(change.before)
    checkpoints.set_aside_newer(state["updates"], end)
    report(
        f"Going back to update {state['updates']:,}, before the decay of the learning "
        f"rate; the checkpoints after it, which end a run of {change.before:,} "
        f"updates, are kept in {end}"
    )
    return state
