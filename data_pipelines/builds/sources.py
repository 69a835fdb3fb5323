"""Lists the inputs of a build and detects changes to them.

Every command computes the checksums of all files. A command that resumes a build, or
finds it finished, compares them with the checksums of the first command. Before each
slice, and at the end, files whose sizes or times have changed are hashed again.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from data_pipelines import BuildError
from data_pipelines.readers import get_reader, streams
from data_pipelines.readers.base import PassedOver
from seg_tf import command_line, file_listing, files

if TYPE_CHECKING:
    from data_pipelines.builds.documents import DocumentOptions

CHECKSUMS_FILE = "checksums.json"
"""File with the checksums of the first command, in the progress folder."""


def list_sources(
    options: DocumentOptions, passed_over: PassedOver | None = None
) -> dict[str, file_listing.Path]:
    """Maps machine-independent names to the files to read, in order.

    With a `validation_input`, names begin with the split: first `train/` for files of
    `input`, then `validation/`. `passed_over` collects the skipped files. Raises
    ValueError or FileNotFoundError if an input is unusable.
    """
    reader = get_reader(options.format, **options.reader_options)
    if options.validation_input is None:
        return reader.sources(options.input, passed_over)
    train = reader.sources(options.input, passed_over, "train/")
    validation = reader.sources(options.validation_input, passed_over, "validation/")
    train_files = {path.resolve() for path in train.values()}
    for path in validation.values():
        if path.resolve() in train_files:
            raise ValueError(
                "`validation_input` must contain no file of `input`. "
                f"Received: {str(path)!r} in both"
            )
    return train | validation


def check_checksum(
    path: file_listing.Path, expected: str, actual: str, output_dir: pathlib.Path
) -> None:
    """Raises BuildError if a file's checksum, `actual`, differs from `expected`."""
    if actual != expected:
        raise BuildError(
            f"{path}: the file has changed since the build in {output_dir} read it "
            f"(expected sha256 {expected}, found {actual}). Records must not mix two "
            "texts: restore the file and run the same command again, or choose another "
            "--output_dir, or --overwrite"
        )


class SourceLedger:
    """The paths, sizes and SHA-256 checksums of the files that a build reads, by name.

    The checksums are available after `start` or `compare`.
    """

    def __init__(
        self, paths: Mapping[str, file_listing.Path], output_dir: pathlib.Path
    ):
        self.paths = dict(paths)
        self._output_dir = output_dir
        self._versions = {name: streams.version(path) for name, path in paths.items()}
        self.sizes = {name: version[0] for name, version in self._versions.items()}
        self.checksums: dict[str, str] = {}

    def start(
        self, progress_dir: pathlib.Path, checksums: Sequence[str] | None = None
    ) -> None:
        """Stores the checksums after comparing them with the first command's, if any.

        If `checksums` is None, computes them. Raises BuildError if a file has changed.
        """
        if checksums is not None:
            self.checksums = dict(zip(self.paths, checksums, strict=True))
        path = progress_dir / CHECKSUMS_FILE
        self.compare(files.read_json(path) if path.exists() else {})
        files.write_json(path, self.checksums)

    def compare(self, expected: Mapping[str, str]) -> None:
        """Computes missing checksums. Raises BuildError if one is not as `expected`."""
        if not self.checksums:
            total = sum(self.sizes.values())
            with command_line.progress_bar(total, "hashing inputs") as bar:
                self.checksums = {
                    name: streams.checksum(path, bar.update)
                    for name, path in self.paths.items()
                }
        for name, sha256 in expected.items():
            path, actual = self.paths[name], self.checksums[name]
            check_checksum(path, sha256, actual, self._output_dir)

    def check_unchanged(self, names: Iterable[str]) -> None:
        """Raises BuildError if one of the named files has changed since hashing."""
        for name in names:
            path, expected = self.paths[name], self.checksums[name]
            version = streams.version(path)
            if version != self._versions[name]:
                check_checksum(path, expected, streams.checksum(path), self._output_dir)
                self._versions[name] = version

    def describe(self) -> tuple[dict[str, Any], ...]:
        """Returns manifest entries of all files. Raises BuildError if one changed."""
        self.check_unchanged(self.paths)
        return tuple(
            {"file": name, "bytes": size, "sha256": self.checksums[name]}
            for name, size in self.sizes.items()
        )
