"""Steps that a test's worker processes import, and that end processes."""

import os
import pathlib
import signal
import time

import psutil

from data_pipelines.builds import beam_steps


class DiesInTheMiddle(beam_steps.MakeDocuments):
    """Makes shards; its process is killed at slice 3, the first time."""

    marker: pathlib.Path

    def __call__(self, keyed):
        if keyed[0][0] == 3 and not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        super().__call__(keyed)


class DiesBeforeTheReport(beam_steps.MakeDocuments):
    """Makes shards and moves them into place, without the report, the first time."""

    marker: pathlib.Path

    def _make(self, number, payload):
        if number == 3 and not self.marker.exists():
            self.marker.touch()
            with self._place.workbench() as folder:
                self._new_maker(folder).make(payload)
                for path in folder.iterdir():
                    path.replace(self._place.output_dir / path.name)
                # Half a shard of a second try lies aside.
                left = self._place.progress_dir / ".aside-left"
                left.mkdir()
                (left / "train-00003.tfrecord").write_bytes(b"half")
                raise RuntimeError("died")
        super()._make(number, payload)


class KillsTheCoordinator:
    """Kills the process that runs the job, and stays.

    Args:
        test_process: id of the process that started that process.
        folder: a file named by its id for each process of the job, workers included.
    """

    def __init__(self, test_process: int, folder: pathlib.Path):
        self._test_process = test_process
        self._folder = folder

    def __call__(self, _):
        above = psutil.Process().parents()
        (position,) = [i for i, p in enumerate(above) if p.pid == self._test_process]
        coordinator = above[position - 1]
        for process in coordinator.children(recursive=True):
            (self._folder / str(process.pid)).touch()
        coordinator.kill()
        time.sleep(600)
