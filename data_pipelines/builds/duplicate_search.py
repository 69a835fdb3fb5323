"""Search for documents that repeat an earlier one, in a pass before the records.

Workers compute fingerprints of the documents, slice by slice, as the other cleaning
steps leave them. The parent process compares them. The result lies in the build's
folder of progress until the build is done.
"""

import pathlib
from collections.abc import Callable, Mapping

import numpy as np

from data_pipelines.builds import document_slices
from data_pipelines.builds.document_options import DocumentOptions
from data_pipelines.builds.document_slices import Rejections, Slice
from data_pipelines.builds.errors import BuildError
from data_pipelines.builds.sharded_build import ShardedBuild
from data_pipelines.cleaning import steps
from data_pipelines.cleaning.cleaning_options import NEAR, CleaningOptions
from data_pipelines.cleaning.drop_counts import DropCounter
from data_pipelines.readers import get_reader
from seg_tf import files

ADVICE = (
    "Drop near duplicates before the build, for example with datatrove's MinHash "
    "deduplication, whose JSON lines --format=json_lines reads; or use "
    "--duplicates=exact"
)
_RESULT_FILE = "duplicates.npy"


def find_duplicates(
    options: DocumentOptions,
    build: ShardedBuild,
    make_fingerprints: Callable[[ShardedBuild], Mapping[int, dict]],
) -> pathlib.Path | None:
    """Finds the documents of a corpus that repeat an earlier one.

    A killed search resumes with the slices that have no fingerprints yet; a finished
    one is only read.

    Args:
        options: the build's options.
        build: the build that is to leave them out, opened.
        make_fingerprints: an engine's way of running `FingerprintMaker` on all slices
            of the corpus, given the build that has their reports; skips finished ones.

    Returns:
        The file that `duplicates_of_slice` reads; None if the options do not ask for
        it.

    Raises:
        BuildError: if a worker dies, a document is rejected with `options.strict`, or
            the corpus is too large for near duplicates.
    """
    if options.cleaning.duplicates is None:
        return None
    folder = build.progress_folder("duplicate_search")
    result = folder / _RESULT_FILE
    if not result.exists():
        folder.mkdir(parents=True, exist_ok=True)
        search = ShardedBuild(folder, build.options)
        with search.opened():
            slices = sorted(make_fingerprints(search))
            found = _compare(folder, slices, options.cleaning)
            with files.written_aside(result) as aside, open(aside, "wb") as file:
                np.save(file, found)
    return result


def _compare(
    folder: pathlib.Path, slices: list[int], options: CleaningOptions
) -> np.ndarray:
    """Numbers of the documents to drop, ascending, and of those that they repeat."""
    from data_pipelines.cleaning import duplicates

    if not slices:
        return np.zeros((2, 0), np.int64)
    parts = [np.load(_path(folder, number)) for number in slices]
    ids, fingerprints = (
        np.concatenate([part[name] for part in parts])
        for name in ("document_ids", "fingerprints")
    )
    if options.duplicates != NEAR:
        return ids[duplicates.exact_duplicates(fingerprints)]
    return ids[duplicates.near_duplicates(fingerprints, options.duplicate_threshold)]


def duplicates_of_slice(path: pathlib.Path, payload: Slice) -> dict[int, int]:
    """Numbers of a slice's documents to drop -> of those that they repeat."""
    dropped, repeated = np.load(path, mmap_mode="r")
    first = payload.first_document_id
    begin, end = np.searchsorted(dropped, [first, first + len(payload.documents)])
    return dict(
        zip(dropped[begin:end].tolist(), repeated[begin:end].tolist(), strict=True)
    )


def _path(folder: pathlib.Path, slice_number: int) -> pathlib.Path:
    return folder / f"fingerprints-{slice_number:05d}.npz"


# --- In the workers -------------------------------------------------------------


class FingerprintMaker:
    """Computes the fingerprints of a slice.

    Args:
        options: the build's options.
    """

    def __init__(self, options: DocumentOptions):
        self._options = options
        self._reader = get_reader(options.format, **options.reader_options)
        self._steps = steps.steps_of_documents(options.cleaning)

    def make(self, payload: Slice, folder: pathlib.Path) -> dict:
        """Writes the fingerprints of a slice to a folder; returns its report."""
        # The library and what it imports are needed nowhere else.
        from data_pipelines.cleaning import duplicates

        is_near = self._options.cleaning.duplicates == NEAR
        num_documents = payload.first_document_id + len(payload.documents)
        if is_near and num_documents > duplicates.MAX_NEAR_DOCUMENTS:
            raise BuildError(
                "`duplicates` must be 'exact' for more than "
                f"{duplicates.MAX_NEAR_DOCUMENTS:,} documents, since near duplicates "
                f"are found in memory. Received: 'near'. {ADVICE}"
            )
        fingerprint = (
            duplicates.near_fingerprint if is_near else duplicates.exact_fingerprint
        )
        documents = document_slices.parsed_documents(
            self._options, self._reader, payload, rejected=Rejections()
        )
        counter = DropCounter([step.name for step in self._steps])
        document_ids, fingerprints = [], []
        for document_id, document in steps.clean(documents, self._steps, counter):
            document_ids.append(document_id)
            fingerprints.append(fingerprint(duplicates.normalised_words(document)))
        width = len(fingerprint([]))
        columns = {
            "document_ids": np.array(document_ids, "<i8"),
            "fingerprints": np.array(fingerprints, "<u4").reshape(-1, width),
        }
        path = _path(folder, payload.number)
        with files.written_aside(path) as aside, open(aside, "wb") as file:
            np.savez(file, **columns)
        return payload.described()
