"""Report of an import: loaded, new and unmatched weights, and equality."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from seg_tf.config import describe_taken

# More names than these are counted, not listed, in the text for people.
_SHOWN = 12


@dataclasses.dataclass(frozen=True)
class ImportReport:
    """Report of an import: the origin of every weight.

    Attributes:
        format: of the source.
        source: where it lies.
        checksums: file -> SHA-256.
        loaded: our weight -> the tensor it was loaded from.
        tables: our table -> how it came about.
        new: our weights that start as in a new model.
        unmatched: tensors that match none of our weights.
        kept: parts that are kept in separate files.
        settings: model setting in which ours differs from the source -> (ours,
            theirs).
        notes: further lines.
        equal_for: windows for which the encoder equals its source, empty if there
            are none.
        missed: unmatched tensors that the source's encoder computes with, or may; with
            any, the two are not equal.
        taken: setting that is the source's -> (the config's, the source's).
    """

    format: str
    source: str
    checksums: Mapping[str, str]
    loaded: Mapping[str, str]
    tables: Mapping[str, str]
    new: tuple[str, ...]
    unmatched: tuple[str, ...]
    kept: Mapping[str, str]
    settings: Mapping[str, tuple[Any, Any]]
    notes: tuple[str, ...]
    equal_for: str
    missed: tuple[str, ...] = ()
    taken: Mapping[str, tuple[Any, Any]] = dataclasses.field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as a checkpoint keeps them."""
        return {
            name: dict(value) if isinstance(value, Mapping) else value
            for name, value in vars(self).items()
        }

    def to_text(self) -> str:
        """For people."""
        lines = [f"Weights of {self.source} ({self.format})"]
        lines += [
            f"  {name}: sha256 {digest}" for name, digest in self.checksums.items()
        ]
        lines.append(f"Loaded: {len(self.loaded)} weights as they are")
        lines.append("Tables:")
        lines += [f"  {name}: {how}" for name, how in self.tables.items()]
        lines += _listed("New, as in a model that starts from chance", self.new)
        lines += _listed("Unmatched, of no use to this model", self.unmatched)
        lines += [
            f"Kept beside the model: {name}, {what}" for name, what in self.kept.items()
        ]
        if self.taken:
            lines.append(f"Taken from the source: {describe_taken(self.taken)}")
        lines += [f"Note: {note}" for note in self.notes]
        lines.append(self.equality())
        return "\n".join(lines)

    def equality(self) -> str:
        """States the windows for which the encoder equals its source."""
        if self.missed:
            return "\n".join(
                _listed(
                    "Equal to the source: for no window; of what it computes with, or "
                    "may, is unmatched",
                    self.missed,
                )
            )
        if not self.equal_for:
            return (
                "Equal to the source: for no window; the encoder has no table that "
                "could take the place of the source's"
            )
        if not self.settings:
            return f"Equal to the source: for {self.equal_for}"
        differing = "; ".join(
            f"model.{name}={ours}, there {theirs}"
            for name, (ours, theirs) in self.settings.items()
        )
        return (
            f"Equal to the source: for {self.equal_for}, were it not for {differing}: "
            "about equal"
        )


def _listed(title: str, names: Iterable[str]) -> list[str]:
    names = list(names)
    if not names:
        return [f"{title}: none"]
    shown = [f"  {name}" for name in names[:_SHOWN]]
    if len(names) > _SHOWN:
        shown.append(f"  and {len(names) - _SHOWN} more")
    return [f"{title}: {len(names)}", *shown]
