"""Reads semantic textual similarity datasets from their original files.

The datasets of 2012 to 2016 (Agirre et al.) have several files, which are read in the
order of their names. Pairs with an empty score are left out. The SMT part of 2013,
which is not freely available, is read if it exists. `seg-tf evaluate-similarity --help`
lists the files.
"""

import dataclasses
import pathlib

from seg_tf.config.base import check_choice
from seg_tf.tasks.task import Example, find_file, read_rows

_YEARS = {f"sts{year}": f"STS{year}-en-test" for year in range(12, 17)}
_INPUT = "STS.input."
_PAIR = ("sentence1", "sentence2")
# Folder, file, sentence columns, score column, lowest score (the highest is 5), and the
# columns of a file without a header, which additional columns may follow.
_FILES = {
    "sts-b": ("STS-B", "dev.tsv", _PAIR, "score", 0.0, ()),
    "sts-b-test": (
        *("STSBenchmark", "sts-test.csv", _PAIR, "score", 0.0),
        ("genre", "file", "year", "number", "score", *_PAIR),
    ),
    "sick-r": (
        *("SICK", "SICK_test_annotated.txt", ("sentence_A", "sentence_B")),
        *("relatedness_score", 1.0, ()),
    ),
}
NAMES = (*_YEARS, *_FILES)


@dataclasses.dataclass(frozen=True)
class SimilaritySet:
    """Scored sentence pairs, and the number of pairs without a score."""

    pairs: list[Example]
    num_unscored: int = 0


def read(name: str, data_dir: str | pathlib.Path) -> SimilaritySet:
    """Reads one of the datasets in `NAMES` from its folder or the parent folder.

    Raises a ValueError if there is no such dataset, or if a file is invalid, and an
    OSError if a file does not exist or cannot be read.
    """
    data_dir = pathlib.Path(data_dir).expanduser()
    if name in _YEARS:
        return _read_year(data_dir, _YEARS[name])
    check_choice("name", name, NAMES)
    folder, file, texts, score, lowest, headerless = _FILES[name]
    rows = read_rows(
        find_file(data_dir, folder, [file]),
        required=(*texts, score),
        columns=headerless,
        more_columns=bool(headerless),
    )
    pairs = [
        Example(
            tuple(map(row.field, texts)), row.number(score, lowest, 5.0), str(row.line)
        )
        for row in rows
    ]
    return SimilaritySet(pairs)


def _read_year(data_dir: pathlib.Path, folder: str) -> SimilaritySet:
    paths = sorted(
        path
        for place in (data_dir / folder, data_dir)
        for path in place.glob(f"{_INPUT}*.txt")
    )
    if not paths:
        raise FileNotFoundError(
            f"`data_dir` must be the folder {folder}, or hold it, with files "
            f"{_INPUT}*.txt. Received: {data_dir}, which has none"
        )
    pairs: list[Example] = []
    num_lines = 0
    for path in paths:
        part = path.name.removeprefix(_INPUT).removesuffix(".txt")
        score_path = path.with_name(f"STS.gs.{part}.txt")
        texts = list(read_rows(path, required=_PAIR, columns=_PAIR))
        scores = list(read_rows(score_path, required=("score",), columns=("score",)))
        if len(texts) != len(scores):
            raise ValueError(
                f"{path} must have as many lines as {score_path}. Received: "
                f"{len(texts):,} and {len(scores):,}"
            )
        pairs += [
            Example(text.fields, score.number("score", 0.0, 5.0), str(score.line))
            for text, score in zip(texts, scores, strict=True)
            if score.field("score").strip()
        ]
        num_lines += len(texts)
    return SimilaritySet(pairs, num_lines - len(pairs))
