"""Checksums of the inputs of a build, which must not change while it is made.

A file is hashed while it is read. Before a slice of documents is made into shards, the
checksum of all bytes that it was read from is noted beside the build's progress; where
the file is read again, by the same command after a kill or for a second look at the
corpus, each noted checksum is compared on the way. So no record is made of a text that
is not the one whose checksum the manifest holds.
"""

from __future__ import annotations

import json
import logging
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from data_pipelines.builds.errors import BuildError
from data_pipelines.readers import raw_files
from seg_tf import command_line, file_listing

if TYPE_CHECKING:
    from data_pipelines.readers import (
        Document,
        FileReader,
        RejectedDocument,
        UnparsedDocument,
    )

NOTES_FILE = "read.jsonl"
"""In the progress folder: a line for each noted checksum."""


class SourceRead:
    """One read of an input file, hashed on the way.

    Args:
        path: the file.
        num_bytes: its size when the build began.
        known: number of first bytes -> their SHA-256, as earlier reads found.
        output_dir: where the build lies, for messages.
    """

    def __init__(
        self,
        path: file_listing.Path,
        num_bytes: int,
        known: Mapping[int, str],
        output_dir: pathlib.Path | None,
    ):
        self.num_bytes = num_bytes
        self.checksum = raw_files.RunningChecksum(known)
        self._path = path
        self._output_dir = output_dir
        self._version = raw_files.version(path)

    def items(
        self, reader: FileReader, name: str
    ) -> Iterator[Document | UnparsedDocument | RejectedDocument]:
        """Yields the items of the reader's `read_unparsed`, and hashes the file.

        Raises:
            BuildError: if the file is not what it was, or changes meanwhile.
        """
        if not reader.reads_in_order:
            logging.info("%s: hashed before it is read, since it is sought in", name)
            self.checksum.read_rest(self._path)
            self.check()
        yield from reader.read_unparsed(
            raw_files.HashedFile(self._path, self.checksum), name
        )
        self.finish()

    def finish(self, on_read: Callable[[int], object] = lambda num_bytes: None) -> None:
        """Hashes the bytes that were not read, and compares.

        Args:
            on_read: called with the number of bytes of each part of them.

        Raises:
            BuildError: if the file is not what it was, or has changed meanwhile.
        """
        if self.checksum.num_bytes < self.num_bytes:
            self.checksum.read_rest(self._path, on_read)
        self.check()
        if self.checksum.num_bytes != self.num_bytes:
            raise self._changed(
                f"expected {self.num_bytes:,} bytes, found {self.checksum.num_bytes:,}"
            )
        if raw_files.version(self._path) != self._version:
            found = {self.checksum.num_bytes: self.checksum.hexdigest()}
            SourceRead(self._path, self.num_bytes, found, self._output_dir).finish()

    def check(self) -> None:
        """Compares as far as the file was read.

        Raises:
            BuildError: if the file is not what it was.
        """
        if self.checksum.difference is not None:
            length, expected, found = self.checksum.difference
            raise self._changed(
                f"sha256 of its first {length:,} bytes: expected {expected}, found "
                f"{found}"
            )

    def described(self) -> dict[str, Any]:
        """Size and checksum, after `finish`, as the manifest has them."""
        return {"bytes": self.num_bytes, "sha256": self.checksum.hexdigest()}

    def _changed(self, how: str) -> BuildError:
        where = "" if self._output_dir is None else f" in {self._output_dir}"
        return BuildError(
            f"{self._path}: the file has changed since the build{where} read it "
            f"({how}). Records must not mix two texts: restore the file and run the "
            "same command again, give another --output_dir, or --overwrite"
        )


class SourceLedger:
    """The checksums of what a build has read of its inputs.

    Args:
        sources: name -> path of every source file, in order.
        output_dir: where the build lies, for messages; None if there is none.
        progress_dir: where checksums are noted; None notes them in memory alone.
    """

    def __init__(
        self,
        sources: Mapping[str, file_listing.Path],
        output_dir: pathlib.Path | None = None,
        progress_dir: pathlib.Path | None = None,
    ):
        self._names = list(sources)
        self._paths = list(sources.values())
        self._output_dir = output_dir
        self._versions = [raw_files.version(path) for path in self._paths]
        self._sizes = [version[0] for version in self._versions]
        self._known: list[dict[int, str]] = [{} for _ in self._paths]
        # Files that this process has seen to be what they were.
        self._compared: set[int] = set()
        self._unsaved: list[str] = []
        self._notes = None if progress_dir is None else progress_dir / NOTES_FILE
        if self._notes is not None and self._notes.exists():
            self._load()

    def known(self, number: int) -> Mapping[int, str]:
        """Number of first bytes of a file -> their SHA-256, as noted so far."""
        return self._known[number]

    def size(self, number: int) -> int:
        """Bytes of a file when this process began."""
        return self._sizes[number]

    def open(self, number: int) -> SourceRead:
        """Begins to read a file; its end is to be noted."""
        return SourceRead(
            self._paths[number],
            self._sizes[number],
            self._known[number],
            self._output_dir,
        )

    def note(self, number: int, read: SourceRead) -> None:
        """Notes the checksum of what was read of a file so far.

        Raises:
            BuildError: if it is not what it was.
        """
        read.check()
        self._note(number, read.checksum.num_bytes, read.checksum.hexdigest())

    def note_whole(self, number: int, sha256: str) -> None:
        """Notes the checksum of a file that was read to its end, and compared."""
        self.expect(number, sha256)
        self._compared.add(number)

    def expect(self, number: int, sha256: str) -> None:
        """Notes the checksum that a file has to have."""
        self._note(number, self._sizes[number], sha256)

    def save(self) -> None:
        """Writes what was noted to the disk, before shards are made of it."""
        if self._notes is None or not self._unsaved:
            return
        with open(self._notes, "a", encoding="utf-8") as file:
            file.write("".join(self._unsaved))
            file.flush()
            os.fsync(file.fileno())
        self._unsaved.clear()

    def compare(self, numbers: Iterable[int]) -> None:
        """Reads files that this process has not read, and compares their checksums.

        Raises:
            BuildError: if one is not what it was, naming it.
        """
        numbers = [number for number in numbers if number not in self._compared]
        if not numbers:
            return
        total = sum(self._sizes[number] for number in numbers)
        with command_line.progress_bar(total, "comparing inputs") as bar:
            for number in numbers:
                read = self.open(number)
                read.finish(bar.update)
                self.note_whole(number, read.checksum.hexdigest())

    def describe(self) -> list[dict]:
        """The manifest's entries on the sources, compared a last time.

        Raises:
            BuildError: if a file is not what was read, naming it.
        """
        self.compare(range(len(self._paths)))
        touched = [
            number
            for number, path in enumerate(self._paths)
            if raw_files.version(path) != self._versions[number]
        ]
        self._compared.difference_update(touched)
        self.compare(touched)
        return [
            {"file": name, "bytes": size, "sha256": known[size]}
            for name, size, known in zip(
                self._names, self._sizes, self._known, strict=True
            )
        ]

    def _note(self, number: int, num_bytes: int, sha256: str) -> None:
        if num_bytes not in self._known[number]:
            self._known[number][num_bytes] = sha256
            note = {"source": number, "bytes": num_bytes, "sha256": sha256}
            self._unsaved.append(f"{json.dumps(note)}\n")

    def _load(self) -> None:
        data = self._notes.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):  # A process was killed while it wrote the last line.
            os.truncate(self._notes, whole)
        for line in data[:whole].splitlines():
            note = json.loads(line)
            self._known[note["source"]][note["bytes"]] = note["sha256"]


def compare_with_finished(
    sources: Mapping[str, file_listing.Path],
    described: Iterable[Mapping[str, Any]],
    output_dir: pathlib.Path,
) -> None:
    """Makes sure that inputs are those that a finished build was made from.

    All of them are read for it; their names and sizes are compared already.

    Raises:
        BuildError: if a file has changed, naming it.
    """
    ledger = SourceLedger(sources, output_dir)
    for number, source in enumerate(described):
        ledger.expect(number, source["sha256"])
    ledger.compare(range(len(sources)))
