"""Which documents of a corpus repeat an earlier one: read once before records are made.

Workers make signatures of one slice of documents after the other, as the other cleaning
steps leave them; the parent process then compares those of the whole corpus. What is
found lies in the build's folder of progress until the build is done.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from data_pipelines import documents_job
from data_pipelines.cleaning import signature_files, steps
from data_pipelines.cleaning.tally import Tally
from data_pipelines.documents_job import DocumentOptions, Slice
from data_pipelines.readers import get_reader
from data_pipelines.sharded_build import ShardedBuild, Task
from seg_tf import files

_RESULT_FILE = "duplicates.npy"


@dataclasses.dataclass(frozen=True)
class Duplicates:
    """The documents to drop.

    Attributes:
        document_ids: int64 array `(n,)`, rising.
        duplicate_of: int64 array `(n,)`, the lower number of a document that each
            repeats.
    """

    document_ids: np.ndarray
    duplicate_of: np.ndarray

    def of_slice(self, payload: Slice) -> dict[int, int]:
        """Those of a slice, as number -> number of the one repeated."""
        first = payload.first_document_id
        begin, end = np.searchsorted(
            self.document_ids, [first, first + len(payload.documents)]
        )
        return dict(
            zip(
                self.document_ids[begin:end].tolist(),
                self.duplicate_of[begin:end].tolist(),
                strict=True,
            )
        )

    def given_to(self, tasks: Iterator[Task]) -> Iterator[Task]:
        """Tasks of documents that know their duplicates."""
        for task in tasks:
            found = self.of_slice(task.payload)
            payload = dataclasses.replace(task.payload, duplicates=found)
            yield dataclasses.replace(task, payload=payload)


def find_duplicates(
    options: DocumentOptions,
    sources: Mapping[str, pathlib.Path],
    folder: pathlib.Path,
    *,
    num_workers: int,
    described: Mapping[str, Any],
    on_progress: Callable[[int], None] = lambda progress: None,
) -> Duplicates:
    """Reads a corpus and finds the documents that repeat an earlier one.

    A killed search goes on where it stopped; a finished one is only read.

    Args:
        options: the build's options.
        sources: name -> path of every source file, in order.
        folder: where intermediate files go, and stay.
        num_workers: processes; they change nothing in the result.
        described: everything that the result depends on.
        on_progress: called with a task's progress when it is done.

    Raises:
        BuildError: if a worker dies, or with `options.strict` a document is rejected.
    """
    result = folder / _RESULT_FILE
    if not result.exists():
        folder.mkdir(parents=True, exist_ok=True)
        search = ShardedBuild(folder, described)
        with search.opened():
            number, cursor = documents_job.resume_point(search.reports())
            sizes = [path.stat().st_size for path in sources.values()]
            on_progress(sum(sizes[: cursor.file_number]))
            reports = search.run(
                documents_job.read_slices(options, sources, cursor, number),
                make_signatures,
                num_workers=num_workers,
                initializer=start_worker,
                initializer_arguments=(options, folder),
                on_progress=on_progress,
            )
            stored = signature_files.SignatureFiles(folder, len(reports))
            found = signature_files.find_duplicates(stored, options.cleaning)
            with files.written_aside(result) as aside, open(aside, "wb") as file:
                np.save(file, np.stack(found))
    return Duplicates(*np.load(result))


# --- In the workers -------------------------------------------------------------

_worker: dict[str, Any] = {}


def start_worker(options: DocumentOptions, folder: pathlib.Path) -> None:
    """Makes the reader and the cleaning steps once in a worker process."""
    _worker.update(
        options=options,
        folder=folder,
        reader=get_reader(options.format, **options.reader_options),
        steps=steps.steps_of_documents(options.cleaning),
    )


def make_signatures(payload: Slice) -> dict:
    """Writes the signatures of a slice; returns its report."""
    # The library and what it imports are needed nowhere else.
    from data_pipelines.cleaning import signatures

    options = _worker["options"]
    documents = documents_job.parsed_documents(
        options, _worker["reader"], payload, rejected=[]
    )
    tally = Tally([step.name for step in _worker["steps"]])
    cleaned = steps.clean(documents, _worker["steps"], tally)
    found = signatures.signatures_of(cleaned, options.cleaning)
    signature_files.save(_worker["folder"], payload.number, found)
    return {"next": vars(payload.next)}
