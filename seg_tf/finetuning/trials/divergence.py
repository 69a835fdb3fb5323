"""Trainings that diverged: known by outputs that are not finite."""

import numpy as np

ADVICE = "A lower learning rate, or another dtype policy, may help"


class TrainingDiverged(ValueError):
    """A training whose model gives no numbers any more; that of others may go well."""


def check_finite(are_finite: np.ndarray, outputs_of: str) -> None:
    """Makes sure that a model did not diverge.

    Args:
        are_finite: whether the outputs for each example are, `(examples,)`.
        outputs_of: what the examples are, as in "examples of glue/rte, dev".

    Raises:
        TrainingDiverged: if some are not.
    """
    num_wrong = int((~are_finite).sum())
    if num_wrong:
        raise TrainingDiverged(
            f"The outputs for {num_wrong:,} of {len(are_finite):,} {outputs_of}, are "
            f"not finite: the training diverged. {ADVICE}"
        )
