"""MRPC's files, in the forms that they have.

* As GLUE's script leaves them: `train.tsv`, `dev.tsv` and, without labels, `test.tsv`.
* As Microsoft (and SentEval) has them: `msr_paraphrase_train.txt`, of whose 4,076 pairs
  `dev_ids.tsv` of GLUE names the 408 of dev, and `msr_paraphrase_test.txt`, which has
  the labels.

What GLUE's script would leave is taken first. Without it the pairs of `dev_ids.tsv`, or
those of a `dev.tsv`, are kept out of train; where neither is there, train is all pairs
and there is no dev.
"""

import pathlib
from collections.abc import Iterator, Sequence

from seg_tf.tasks import task_files
from seg_tf.tasks.task_files import TableRow

LABEL = "Quality"
TEXTS = ("#1 String", "#2 String")
_IDS = ("#1 ID", "#2 ID")
_ALL_PAIRS = "msr_paraphrase_train.txt"
_DEV_IDS = "dev_ids.tsv"


def read_rows(
    data_dir: pathlib.Path, folder: str, split: str, required: Sequence[str]
) -> Iterator[TableRow]:
    """Rows of a split: see `task_files.read_rows`.

    Raises:
        ValueError: if `dev_ids.tsv` names a pair that is not there.
        FileNotFoundError: if there is none of the files.
    """

    def existing(name: str) -> pathlib.Path | None:
        return task_files.existing_file(data_dir, folder, [name])

    names = [f"{split}.tsv"]
    if split == "test":
        names.append("msr_paraphrase_test.txt")
    elif not existing(names[0]) and existing(_ALL_PAIRS):
        if split == "train" or existing(_DEV_IDS):
            path = existing(_ALL_PAIRS)
            ids_of_dev = _ids_of_dev(existing(_DEV_IDS), existing("dev.tsv"))
            return _part_of(path, split, ids_of_dev, (*required, *_IDS))
        names.append(_DEV_IDS)
    path = task_files.find_file(data_dir, folder, names)
    return task_files.read_rows(path, required=required)


def _ids_of_dev(
    dev_ids: pathlib.Path | None, dev: pathlib.Path | None
) -> set[tuple[str, ...]]:
    if dev_ids:
        rows = task_files.read_rows(dev_ids, required=_IDS, columns=_IDS)
    elif dev:
        rows = task_files.read_rows(dev, required=_IDS)
    else:
        rows = iter(())
    return {_ids(row) for row in rows}


def _part_of(
    path: pathlib.Path,
    split: str,
    ids_of_dev: set[tuple[str, ...]],
    required: Sequence[str],
) -> Iterator[TableRow]:
    """The rows of all pairs that belong to train, or to dev."""
    missing = set(ids_of_dev)
    for row in task_files.read_rows(path, required=required):
        missing.discard(_ids(row))
        if (_ids(row) in ids_of_dev) == (split == "dev"):
            yield row
    if missing:
        raise ValueError(
            f"{path} must hold all pairs of dev. Received: a file without "
            f"{len(missing)} of {len(ids_of_dev)}, such as {' and '.join(min(missing))}"
        )


def _ids(row: TableRow) -> tuple[str, ...]:
    return tuple(map(row.field, _IDS))
