"""Comparison of documents in the workers: one range of hashes after the other."""

import functools
import pathlib
from collections.abc import Callable

from data_pipelines.cleaning import similar_documents
from data_pipelines.cleaning.signature_files import Comparison
from data_pipelines.cleaning.similar_documents import HashRange

_worker: dict[str, Callable[[HashRange], dict]] = {}


def start_worker(compare: Comparison, folder: pathlib.Path) -> None:
    """Remembers what documents are compared by, and where pairs go."""
    _worker["make"] = functools.partial(PairMaker(compare).make, folder=folder)


def make_slice(of: HashRange) -> dict:
    """Writes the similar pairs of a range; returns its report."""
    return _worker["make"](of)


class PairMaker:
    """Finds the similar pairs of a range of hashes.

    Args:
        compare: compares documents.
    """

    def __init__(self, compare: Comparison):
        self._compare = compare

    def make(self, of: HashRange, folder: pathlib.Path) -> dict:
        """Writes the pairs to a folder; returns the task's report."""
        return {"pairs": similar_documents.write_pairs(of, self._compare, folder)}
