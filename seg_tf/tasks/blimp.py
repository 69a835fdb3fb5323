"""BLiMP, minimal pairs of English sentences (Warstadt et al., 2020).

A folder has 67 files of JSON lines, one per phenomenon, with 1,000 pairs each.
"""

import dataclasses
import json
import pathlib

_FIELDS = ("sentence_good", "sentence_bad", "field", "UID")


@dataclasses.dataclass(frozen=True)
class MinimalPair:
    """Two sentences that differ in grammaticality.

    Attributes:
        good: the grammatical sentence.
        bad: the ungrammatical sentence.
        field: "syntax", "morphology", "semantics" or "syntax_semantics".
        phenomenon: the pair's `UID`, the name of its file.
    """

    good: str
    bad: str
    field: str
    phenomenon: str


def read(data_dir: str | pathlib.Path, limit: int | None = None) -> list[MinimalPair]:
    """Reads the pairs of all files.

    Args:
        data_dir: folder of the files, or a folder that contains it as `blimp`.
        limit: pairs to read of each file, from its beginning; None reads all.

    Raises:
        OSError: if a file cannot be read.
        ValueError: if the folder has no such file, or a line is damaged, naming file
            and line.
    """
    folder = pathlib.Path(data_dir)
    if (folder / "blimp").is_dir():
        folder /= "blimp"
    paths = sorted(folder.glob("*.jsonl"))
    if not paths:
        raise ValueError(
            "`data_dir` must be the folder of BLiMP's .jsonl files. Received: "
            f"{folder}, which has none"
        )
    pairs = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if limit is not None and number > limit:
                    break
                try:
                    values = json.loads(line)
                    good, bad, field, phenomenon = (values[name] for name in _FIELDS)
                except (ValueError, KeyError, TypeError) as error:
                    raise ValueError(
                        f"{path}:{number}: expected a JSON object with "
                        f"{', '.join(_FIELDS)}, found {line[:60]!r}"
                    ) from error
                # One file writes "syntax/semantics".
                field = field.replace("/", "_")
                pairs.append(MinimalPair(good, bad, field, phenomenon))
    return pairs
