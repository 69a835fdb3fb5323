"""Search for documents that repeat an earlier one, in a pass before the records.

Workers make signatures of one slice of documents after the other, as the other cleaning
steps leave them, and then compare documents, one range of hashes after the other
(`duplicate_pairs`). The parent process chooses what to drop of the similar pairs. What
is found lies in the build's folder of progress until the build is done.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from data_pipelines.builds import document_slices
from data_pipelines.builds.document_options import DocumentOptions
from data_pipelines.builds.document_slices import Rejections, Slice
from data_pipelines.builds.sharded_build import ShardedBuild, SliceTask
from data_pipelines.cleaning import signature_files, similar_documents, steps
from data_pipelines.cleaning.drop_counts import DropCounter
from data_pipelines.cleaning.signature_files import Comparison, SignatureFiles
from data_pipelines.readers import get_reader

_RESULT_FILE = "duplicates.npy"


@dataclasses.dataclass(frozen=True)
class FoundDuplicates:
    """The documents to drop.

    Attributes:
        document_ids: int64 array `(n,)`, rising.
        duplicate_of: int64 array `(n,)`, the lower number of a document that each
            repeats.
    """

    document_ids: np.ndarray
    duplicate_of: np.ndarray

    @classmethod
    def load(cls, path: pathlib.Path) -> "FoundDuplicates":
        """Maps what `find_duplicates` wrote."""
        return cls(*np.load(path, mmap_mode="r"))

    def of_slice(self, payload: Slice) -> dict[int, int]:
        """Numbers of a slice's documents to drop -> of those that they repeat."""
        first = payload.first_document_id
        begin, end = np.searchsorted(
            self.document_ids, [first, first + len(payload.documents)]
        )
        found = zip(
            self.document_ids[begin:end].tolist(),
            self.duplicate_of[begin:end].tolist(),
            strict=True,
        )
        return dict(found)


def find_duplicates(
    options: DocumentOptions,
    build: ShardedBuild,
    make_signatures: Callable[[ShardedBuild], Mapping[int, dict]],
    compare_ranges: Callable[[ShardedBuild, Sequence[SliceTask], Comparison], None],
) -> pathlib.Path | None:
    """Finds the documents of a corpus that repeat an earlier one.

    A killed search resumes where it stopped; a finished one is only read.

    Args:
        options: the build's options.
        build: the build that is to leave them out, opened. Files of the search lie in
            its folder of progress.
        make_signatures: an engine's way of doing `SignatureMaker`'s work on all slices
            of the corpus, which lie in the folder of the build that it is given and
            have its reports; what is done already is left as it is.
        compare_ranges: the same of `duplicate_pairs.PairMaker`, on tasks.

    Returns:
        The file that `FoundDuplicates.load` reads; None if the options do not ask for
        it.

    Raises:
        BuildError: if a worker dies, or with `options.strict` a document is rejected.
    """
    if options.cleaning.duplicates is None:
        return None
    folder = build.progress_folder("duplicate_search")
    result = folder / _RESULT_FILE
    if not result.exists():
        folder.mkdir(parents=True, exist_ok=True)
        search = ShardedBuild(folder, build.options)
        comparing = ShardedBuild(folder / "pairs", build.options)
        with search.opened(), comparing.opened():
            reports = make_signatures(search)
            ends = [report["next"]["document_id"] for report in reports.values()]
            # Absolute, since workers of a cluster run in another folder.
            stored = SignatureFiles(folder.absolute(), (0, *sorted(ends)))
            compare = Comparison(stored, options.cleaning.duplicate_threshold)
            tasks = [
                SliceTask(of.number, of, progress=1)
                for of in similar_documents.hash_ranges(stored)
            ]
            compare_ranges(comparing, tasks, compare)
            similar_documents.write_duplicates(
                result, comparing.output_dir, len(tasks), compare
            )
    return result


# --- In the workers -------------------------------------------------------------


class SignatureMaker:
    """Makes the signatures of a slice.

    Args:
        options: the build's options.
    """

    def __init__(self, options: DocumentOptions):
        self._options = options
        self._reader = get_reader(options.format, **options.reader_options)
        self._steps = steps.steps_of_documents(options.cleaning)

    def make(self, payload: Slice, folder: pathlib.Path) -> dict:
        """Writes the signatures of a slice to a folder; returns its report."""
        # The library and what it imports are needed nowhere else.
        from data_pipelines.cleaning import signatures

        documents = document_slices.parsed_documents(
            self._options, self._reader, payload, rejected=Rejections()
        )
        counter = DropCounter([step.name for step in self._steps])
        cleaned = steps.clean(documents, self._steps, counter)
        found = signatures.signatures_of(cleaned, self._options.cleaning)
        first_id = payload.first_document_id
        signature_files.save(folder, payload.number, first_id, found)
        return payload.described()


_worker: dict[str, Callable[[Slice], dict]] = {}


def start_worker(options: DocumentOptions, folder: pathlib.Path) -> None:
    """Makes the reader and the cleaning steps once in a worker process."""
    _worker["make"] = functools.partial(SignatureMaker(options).make, folder=folder)


def make_slice(payload: Slice) -> dict:
    """Writes the signatures of a slice; returns its report."""
    return _worker["make"](payload)
