"""The flag `--profile_updates`: updates of which a run writes a profile.

Nothing here imports TensorFlow, so that a wrong value is an error at once.
"""

import re


def parse(text: str, num_updates: int | None = None) -> range:
    """Reads "100:110" as updates 100 to 110, both included; the first one is 1.

    Args:
        text: value of the flag.
        num_updates: updates of the run, or None if that is not known yet.

    Raises:
        ValueError: if it is not that, or goes beyond the run.
    """
    problem = None
    match = re.fullmatch(r"(\d+):(\d+)", text)
    if not match:
        problem = "must be two numbers of updates, FIRST:LAST, as in 100:110"
    elif not 1 <= int(match[1]) <= int(match[2]):
        problem = "must not end before it begins, and the first update is 1"
    elif num_updates is not None and int(match[2]) > num_updates:
        problem = f"must lie within the run, which ends with update {num_updates:,}"
    if problem:
        raise ValueError(f"`--profile_updates` {problem}. Received: {text}")
    return range(int(match[1]), int(match[2]) + 1)
