"""Files that an input holds and that are not read, counted by reason."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from seg_tf import file_listing

EMPTY = "empty"
_NUM_NAMES = 5
_IN_WORDS = {
    EMPTY: "empty",
    file_listing.HIDDEN: "hidden",
    file_listing.HIDDEN_FOLDER: "hidden folder(s)",
    file_listing.NOT_A_FILE: "pipe(s), device(s) or broken link(s)",
    file_listing.OTHER_NAME: "with a name that is not of the format",
}


@dataclasses.dataclass
class PassedOver:
    """Collects the files that are not read.

    Attributes:
        names: reason -> relative names, in the order in which they are added.
    """

    names: dict[str, list[str]] = dataclasses.field(default_factory=dict)

    def add(self, reason: str, name: str) -> None:
        """Notes a file by its name relative to the input."""
        self.names.setdefault(reason, []).append(name)

    def extend(self, others: "PassedOver", prefix: str = "") -> None:
        """Notes what another one holds, with `prefix` before each name."""
        for reason, names in others.names.items():
            for name in names:
                self.add(reason, prefix + name)

    def described(self) -> dict[str, dict[str, Any]] | None:
        """The manifest's entry: the count and first names by reason; None if empty."""
        if not self.names:
            return None
        return {
            reason: {"count": len(names), "first": names[:_NUM_NAMES]}
            for reason, names in sorted(self.names.items())
        }


def passed_over_summary(described: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns a line for people on what `PassedOver.described` returns."""
    parts = []
    for reason, found in described.items():
        names = ", ".join(found["first"])
        more = found["count"] - len(found["first"])
        names += f" and {more:,} more" if more else ""
        parts.append(f"{found['count']:,} {_IN_WORDS.get(reason, reason)} ({names})")
    return f"passed over: {'; '.join(parts)}"
