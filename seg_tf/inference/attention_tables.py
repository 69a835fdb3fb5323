"""Shares of a model's attention by target, as text and as CSV."""

import csv
import dataclasses
import pathlib
from collections.abc import Mapping, Sequence

from seg_tf import files
from seg_tf.inference import attention_maps
from seg_tf.inference.attention_maps import AttentionMaps, HeadChoice

_TITLES = {
    attention_maps.SAME_SENTENCE: "same sentence",
    attention_maps.SAME_PARAGRAPH: "same paragraph",
    attention_maps.SPECIAL_TOKENS: "special tokens",
}
_NAME_WIDTH, _CELL_WIDTH = 22, 18


@dataclasses.dataclass(frozen=True)
class AttentionTable:
    """Shares of the attention of word pieces; see `attention_shares`.

    Attributes:
        shares: of each layer or head, by name of the share.
        uniform: the same if every position attended to all positions alike.
    """

    shares: Mapping[HeadChoice, Mapping[str, float]]
    uniform: Mapping[str, float]

    @classmethod
    def of(cls, maps: AttentionMaps, choices: Sequence[HeadChoice]) -> "AttentionTable":
        """The shares of those layers and heads that a model has."""
        shares = {}
        for choice in filter(maps.has, choices):
            found = attention_maps.attention_shares(maps.map(choice), maps.window)
            shares[choice] = {name: float(share) for name, share in found.items()}
        return cls(shares, attention_maps.uniform_shares(maps.window))

    def __str__(self) -> str:
        lines = ["".rjust(_NAME_WIDTH) + _cells(_TITLES.values())]
        for choice, shares in self.shares.items():
            cells = [
                f"{shares[name]:.3f} ({shares[name] / self.uniform[name]:5.2f} x)"
                for name in _TITLES
            ]
            name = f"  layer {choice.layer}, head {choice.head_name}"
            lines.append(name.ljust(_NAME_WIDTH) + _cells(cells))
        cells = [f"{self.uniform[name]:.3f} ( 1.00 x)" for name in _TITLES]
        lines.append("  uniform attention".ljust(_NAME_WIDTH) + _cells(cells))
        return "\n".join(lines)


def write_csv(path: pathlib.Path, tables: Mapping[str, AttentionTable]) -> None:
    """Writes the tables of models as one, a row for each layer or head.

    Args:
        path: the file; it stands whole or not at all.
        tables: by the names of the models.
    """
    rows = [
        {"model": model, "layer": choice.layer, "head": choice.head_name}
        | dict(shares)
        | {f"uniform_{name}": share for name, share in table.uniform.items()}
        for model, table in tables.items()
        for choice, shares in table.shares.items()
    ]
    with (
        files.written_aside(path) as aside,
        open(aside, "w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _cells(texts: Sequence[str]) -> str:
    return "".join(text.rjust(_CELL_WIDTH) for text in texts)
