"""Makes the shards of a build with processes of this machine."""

import dataclasses
import pathlib
import types
from collections.abc import Mapping, Sequence
from typing import Any

from data_pipelines.builds import (
    document_building,
    document_slices,
    duplicate_search,
    window_building,
)
from data_pipelines.builds.document_options import DocumentOptions
from data_pipelines.builds.losses import LossWatch
from data_pipelines.builds.sharded_build import ShardedBuild, SliceTask
from data_pipelines.builds.source_checksums import SourceLedger
from data_pipelines.builds.window_building import WindowOptions
from seg_tf import command_line
from seg_tf.data.manifest import Manifest


@dataclasses.dataclass(frozen=True)
class LocalEngine:
    """Reads in this process and makes shards in `num_workers`.

    `data_pipelines.builds.beam_engine.BeamEngine` has the same methods and makes the
    same shards; each continues what the other has left unfinished.

    Args:
        num_workers: processes; 1 works in this one.
    """

    num_workers: int = 1

    def make_documents(
        self,
        build: ShardedBuild,
        options: DocumentOptions,
        sources: Mapping[str, pathlib.Path],
    ) -> tuple[dict[int, dict], list[dict]]:
        """Makes the document shards that are missing.

        Args:
            build: the build, opened.
            options: the build's options.
            sources: name -> path of every source file, in order.

        Returns:
            The reports of all slices, by number, and the manifest's entries on the
            sources.

        Raises:
            BuildError: if a source has changed since the build began to read it.
        """
        ledger = SourceLedger(sources, build.output_dir, build.progress_dir)
        duplicates = duplicate_search.find_duplicates(
            options,
            build,
            lambda search: self._make_slices(
                search, options, sources, ledger, duplicate_search, "fingerprints"
            ),
        )
        reports = self._make_slices(
            build, options, sources, ledger, document_building, "documents", duplicates
        )
        return reports, ledger.describe()

    def make_windows(
        self, build: ShardedBuild, options: WindowOptions, documents_dir: pathlib.Path
    ) -> dict[int, dict]:
        """Makes the window shards that are missing.

        Args:
            build: the build, opened.
            options: what the windows depend on.
            documents_dir: a finished build of documents.

        Returns:
            The reports of all slices, by number.
        """
        tasks = list(window_building.tasks(Manifest.load(documents_dir)))
        return self._run_tasks(
            build, tasks, window_building, "windows", options, documents_dir
        )

    def _make_slices(
        self,
        build: ShardedBuild,
        options: DocumentOptions,
        sources: Mapping[str, pathlib.Path],
        ledger: SourceLedger,
        job: types.ModuleType,
        name: str,
        *arguments: Any,
    ) -> dict[int, dict]:
        """Does a module's work on every slice that has no report yet."""
        done = build.reports()
        number, cursor = document_slices.resume_point(done)
        # Files that need not be read any more have to be what they were, too.
        ledger.compare(range(cursor.file_number))
        sizes = {name: ledger.size(place) for place, name in enumerate(sources)}
        watch = LossWatch(options.max_rejected_share, sizes)
        watch.resume((done[before] for before in range(number)), cursor.document_id)
        tasks = document_slices.read_slices(
            options, sources, cursor, number, ledger, watch
        )
        total = sum(sizes.values())
        with command_line.progress_bar(total, name) as bar:
            bar.update(sum(list(sizes.values())[: cursor.file_number]))
            return build.run(
                tasks,
                job.make_slice,
                num_workers=self.num_workers,
                initializer=job.start_worker,
                initializer_arguments=(options, build.output_dir, *arguments),
                on_progress=bar.update,
            )

    def _run_tasks(
        self,
        build: ShardedBuild,
        tasks: Sequence[SliceTask],
        job: types.ModuleType,
        name: str,
        *arguments: Any,
    ) -> dict[int, dict]:
        """Does a module's work on every task that has no report yet."""
        total = sum(task.progress for task in tasks)
        with command_line.progress_bar(total, name) as bar:
            return build.run(
                tasks,
                job.make_slice,
                num_workers=self.num_workers,
                initializer=job.start_worker,
                initializer_arguments=(*arguments, build.output_dir),
                on_progress=bar.update,
            )
