"""Continues a run at another length."""

from collections.abc import Callable, Mapping
from typing import Any

from seg_tf.config import RunConfig
from seg_tf.training.checkpoint import Checkpoints
from seg_tf.training.run_folder import RunFolder


def choose_checkpoint(
    previous: int,
    config: RunConfig,
    checkpoints: Checkpoints,
    folder: RunFolder,
    report: Callable[[str], None],
) -> Mapping[str, Any] | None:
    """Chooses the checkpoint from which a run of another length continues.

    A warm-up–stable–decay run goes back to its last checkpoint before the decay, and
    then equals a run that had the new length from the start, bit for bit. Later
    checkpoints move to `RunFolder.ends_folder`. Any other run continues from its
    newest checkpoint, at the learning rates of the new length.

    Args:
        previous: `num_updates` before.
        config: the run, with its new length.
        checkpoints: those of the run.
        folder: its output folder.
        report: called with each line to print.

    Returns:
        State of the checkpoint; None if there is none.

    Raises:
        CheckpointError: if no such checkpoint is intact.
    """
    length = config.training.num_updates
    state = checkpoints.newest_intact()
    before, now = config.decay_begin(previous), config.decay_begin(length)
    shared = None if before is None or now is None else min(before, now)
    if state and shared is not None and state["updates"] > shared:
        earlier = checkpoints.newest_intact(at_most=shared)
        if earlier:
            checkpoints.move_newer(earlier["updates"], folder.ends_folder)
            report(f"Checkpoints of the decay are now in {folder.ends_folder}")
            state = earlier
        else:
            report(
                f"No checkpoint from before the decay, at update {shared:,}, is left. "
                "The result will differ from that of a run that had "
                f"{length:,} updates from the start"
            )
    updates = state["updates"] if state else 0
    report(
        f"From update {updates:,} on the run has {length:,} updates, not {previous:,}"
    )
    return state
