"""Where the steps of a Beam job put what they make, and say why they cannot."""

import contextlib
import dataclasses
import pathlib
import shutil
import uuid
from collections.abc import Iterator

from data_pipelines.builds.errors import BuildError
from seg_tf import files

_REFUSALS = "refusal-*.json"


@dataclasses.dataclass(frozen=True)
class Place:
    """The folders of a build, which every worker reaches.

    Attributes:
        output_dir: where the shards go.
        progress_dir: where the reports go.
    """

    output_dir: pathlib.Path
    progress_dir: pathlib.Path

    @contextlib.contextmanager
    def workbench(self, name: str | None = None) -> Iterator[pathlib.Path]:
        """An empty folder on the disk of the output, removed after the block.

        Args:
            name: given again, it is the same folder; no other process may give it.
        """
        # `files.remove_leftovers` finds it after a kill.
        folder = files.aside(self.progress_dir / (name or new_name()))
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def publish(self, folder: pathlib.Path, report: str) -> None:
        """Moves the files of a workbench into place, their report last."""
        for path in sorted(folder.iterdir(), key=_order_of_publishing):
            if path.name != report:
                path.replace(self.output_dir / path.name)
        files.sync(self.output_dir)
        (folder / report).replace(self.progress_dir / report)
        files.sync(self.progress_dir)

    def refuse(self, number: int, error: BuildError) -> None:
        """Notes why the job has to end: running the step again would not help.

        Args:
            number: of the element; of several the first one's error is shown.
            error: what the user has to mend.
        """
        name = _REFUSALS.replace("*", f"{number:08d}")
        with self.workbench() as folder:
            files.write_json(folder / name, str(error))
            (folder / name).replace(self.progress_dir / name)

    def take_refusal(self) -> str | None:
        """Why the job had to end, if it had to; forgotten after that."""
        paths = sorted(self.progress_dir.glob(_REFUSALS))
        messages = [files.read_json(path) for path in paths]
        for path in paths:
            path.unlink()
        return messages[0] if messages else None


def new_name() -> str:
    """A name that no other process takes."""
    return uuid.uuid4().hex


def _order_of_publishing(path: pathlib.Path) -> tuple[bool, str]:
    """What lies beside a shard comes first: a shard that is there always has it."""
    return path.suffix == ".tfrecord", path.name
