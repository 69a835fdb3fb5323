"""Makes the shards of a build with processes of this machine."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Mapping

from data_pipelines.builds import (
    document_building,
    document_slices,
    duplicate_search,
    window_building,
)
from data_pipelines.builds.document_options import DocumentOptions
from data_pipelines.builds.losses import LossWatch
from data_pipelines.builds.sharded_build import Maker, ShardedBuild
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
        new_maker = functools.partial(duplicate_search.FingerprintMaker, options)
        duplicates = duplicate_search.find_duplicates(
            options,
            build,
            lambda search: self._make_slices(
                search, options, sources, ledger, new_maker, "fingerprints"
            ),
        )
        new_maker = functools.partial(
            document_building.new_slice_maker, options, duplicates
        )
        reports = self._make_slices(
            build, options, sources, ledger, new_maker, "documents"
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
        total = sum(task.progress for task in tasks)
        new_maker = functools.partial(
            window_building.WindowMaker, options, documents_dir
        )
        with command_line.progress_bar(total, "windows") as bar:
            return build.run(
                tasks,
                new_maker,
                num_workers=self.num_workers,
                on_progress=bar.update,
            )

    def _make_slices(
        self,
        build: ShardedBuild,
        options: DocumentOptions,
        sources: Mapping[str, pathlib.Path],
        ledger: SourceLedger,
        new_maker: Callable[[], Maker],
        name: str,
    ) -> dict[int, dict]:
        """Has makers make every slice that has no report yet."""
        done = build.reports()
        number, cursor = document_slices.resume_point(done)
        # Files that are not read again must not have changed either.
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
                new_maker,
                num_workers=self.num_workers,
                on_progress=bar.update,
            )
