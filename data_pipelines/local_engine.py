"""Makes the shards of a build with processes of this machine."""

import dataclasses
import pathlib
from collections.abc import Mapping

import seg_tf.command_line as command_line
from data_pipelines import documents_job, windows_job
from data_pipelines.documents_job import Cursor, DocumentOptions
from data_pipelines.manifest import Manifest
from data_pipelines.sharded_build import ShardedBuild
from data_pipelines.windows_job import WindowOptions


@dataclasses.dataclass(frozen=True)
class LocalEngine:
    """Reads in this process and makes shards in `num_workers`.

    `data_pipelines.beam_engine.BeamEngine` has the same methods and makes the same
    shards; each goes on with what the other has left unfinished.

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
        """
        number, cursor = _resume_point(build.reports())
        sizes = [path.stat().st_size for path in sources.values()]
        with command_line.progress_bar(sum(sizes), "documents") as bar:
            bar.update(sum(sizes[: cursor.file_number]))
            reports = build.run(
                documents_job.read_slices(options, sources, cursor, number),
                documents_job.make_slice,
                num_workers=self.num_workers,
                initializer=documents_job.start_worker,
                initializer_arguments=(options, build.output_dir),
                on_progress=bar.update,
            )
        return reports, documents_job.describe_sources(sources)

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
        tasks = list(windows_job.tasks(Manifest.load(documents_dir)))
        total = sum(task.progress for task in tasks)
        with command_line.progress_bar(total, "windows") as bar:
            return build.run(
                tasks,
                windows_job.make_windows,
                num_workers=self.num_workers,
                initializer=windows_job.start_worker,
                initializer_arguments=(options, documents_dir, build.output_dir),
                on_progress=bar.update,
            )


def _resume_point(reports: Mapping[int, dict]) -> tuple[int, Cursor]:
    """The first slice without a report, and where in the sources it begins."""
    number = 0
    while number in reports:
        number += 1
    return number, Cursor(**reports[number - 1]["next"]) if number else Cursor()
