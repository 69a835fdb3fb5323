"""Steps that a test's worker processes import, and that end them."""

import os
import pathlib
import signal

from data_pipelines import beam_steps


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
