"""Reads BLiMP, minimal pairs of English sentences (Warstadt et al., 2020).

A folder has 67 JSON Lines files, one per phenomenon, with 1,000 pairs each.
"""

import dataclasses
import itertools
import json
import pathlib


@dataclasses.dataclass(frozen=True)
class MinimalPair:
    """A grammatical and an ungrammatical sentence.

    `field` is "syntax", "morphology", "semantics" or "syntax_semantics". `phenomenon`
    is the `UID` of the pair, which is also the name of its file.
    """

    good: str
    bad: str
    field: str
    phenomenon: str


def read(data_dir: str | pathlib.Path, limit: int | None = None) -> list[MinimalPair]:
    """Reads the pairs of all files, or at most `limit` pairs of each file.

    `data_dir` is the folder of the files, or the parent of a folder named `blimp`.
    Raises an OSError if a file cannot be read, and a ValueError if the folder has no
    .jsonl files, or if a line is invalid.
    """
    folder = pathlib.Path(data_dir)
    paths = sorted([*folder.glob("blimp/*.jsonl")] or folder.glob("*.jsonl"))
    if not paths:
        raise ValueError(
            "`data_dir` must be the folder of BLiMP's .jsonl files. Received: "
            f"{folder}, which has none"
        )
    pairs = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(itertools.islice(file, limit), start=1):
                try:
                    values = json.loads(line)
                    # One file writes "syntax/semantics".
                    field = values["field"].replace("/", "_")
                    good, bad = values["sentence_good"], values["sentence_bad"]
                    pairs.append(MinimalPair(good, bad, field, values["UID"]))
                except (ValueError, KeyError, TypeError) as error:
                    raise ValueError(
                        f"{path}:{number}: expected a JSON object with sentence_good, "
                        f"sentence_bad, field and UID, found {line[:60]!r}"
                    ) from error
    return pairs
