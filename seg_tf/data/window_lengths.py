"""Beside each shard of windows: pieces of each of them, and of each of its sentences.

Packing windows or texts into rows needs all lengths of a split at once; the records,
some ten to hundred times as large, need not be read for it.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from seg_tf import files

if TYPE_CHECKING:
    from seg_tf.data.manifest import Shard

# A window has at most 65,535 positions.
_DTYPE = np.dtype("<u2")


@dataclasses.dataclass(frozen=True)
class Lengths:
    """One of the files beside each shard: lengths, in the order of the records.

    Attributes:
        suffix: what its name ends in.
        things: what the lengths are of.
        count: the manifest's name for the number of these.
        of_windows: the lengths, given the pieces of the sentences of each window.
    """

    suffix: str
    things: str
    count: str
    of_windows: Callable[[Sequence[np.ndarray]], np.ndarray]

    def path(self, shard_path: pathlib.Path) -> pathlib.Path:
        """The file beside a shard."""
        return shard_path.with_suffix(self.suffix)

    def num_bytes(self, shard: Shard) -> int:
        """Bytes of the file beside a shard."""
        return getattr(shard, self.count) * _DTYPE.itemsize

    def write(self, shard_path: pathlib.Path, lengths: np.ndarray) -> None:
        """Writes the lengths of a shard, in the order of its records."""
        with files.written_aside(self.path(shard_path)) as aside:
            lengths.astype(_DTYPE).tofile(aside)

    def read_shard(self, shard_path: pathlib.Path) -> np.ndarray:
        """The lengths of a shard: uint16 array.

        Raises:
            ValueError: if the file is missing or cut off, saying what to do.
        """
        path = self.path(shard_path)
        if not path.is_file():
            raise ValueError(
                f"{path}: the file is missing. Copy it there, or build the windows "
                "again with `python -m data_pipelines.build_windows --overwrite`"
            )
        if (size := path.stat().st_size) % _DTYPE.itemsize:
            raise self._contradiction(
                shard_path, f"{_DTYPE.itemsize} bytes for each length, found {size}"
            )
        return np.fromfile(path, _DTYPE)

    def read(self, shards: Iterable[Shard], folder: pathlib.Path) -> np.ndarray:
        """The lengths of some shards: uint16 array.

        Raises:
            ValueError: if a file is missing or contradicts the manifest.
        """
        parts = [np.zeros(0, _DTYPE)]
        for shard in shards:
            lengths = self.read_shard(folder / shard.file)
            if not lengths.all():
                raise self._contradiction(
                    folder / shard.file, f"no {self.things} of 0 pieces, found one"
                )
            found = (len(lengths), int(lengths.sum(dtype=np.int64)))
            expected = (getattr(shard, self.count), shard.pieces)
            if found != expected:
                raise self._contradiction(
                    folder / shard.file,
                    f"{expected[0]} {self.things} of {expected[1]} pieces together, as "
                    f"the manifest says, found {found[0]} of {found[1]}",
                )
            parts.append(lengths)
        return np.concatenate(parts)

    def _contradiction(self, shard_path: pathlib.Path, what: str) -> ValueError:
        return ValueError(
            f"{self.path(shard_path)}: expected {what}. The file was replaced or "
            "damaged; build the windows again with `python -m "
            "data_pipelines.build_windows --overwrite`"
        )


WINDOWS = Lengths(
    ".lengths",
    "windows",
    "records",
    lambda windows: np.array([sentences.sum() for sentences in windows], np.int64),
)
SENTENCES = Lengths(
    ".sentence_lengths",
    "sentences",
    "sentences",
    lambda windows: np.concatenate([np.zeros(0, np.int64), *windows]),
)
KINDS = (WINDOWS, SENTENCES)


def write(
    shard_path: pathlib.Path,
    windows: Sequence[np.ndarray],
    kinds: Iterable[Lengths] = KINDS,
) -> None:
    """Writes the files beside a shard.

    Args:
        shard_path: the shard.
        windows: pieces of the sentences of each of its windows.
        kinds: which files.
    """
    for kind in kinds:
        kind.write(shard_path, kind.of_windows(windows))


def read_sentences(
    shards: Sequence[Shard], folder: pathlib.Path
) -> tuple[np.ndarray, np.ndarray]:
    """Sentences of some shards, window by window.

    Returns:
        int32 array `(S,)`, the pieces of each sentence, and int32 array `(W,)`, the
        sentences of each window.

    Raises:
        ValueError: if a file is missing, or contradicts the manifest or another.
    """
    windows = WINDOWS.read(shards, folder)
    sentences = SENTENCES.read(shards, folder)
    counts = [np.zeros(0, np.int32)]
    first_window = first_sentence = 0
    for shard in shards:
        of_shard = slice(first_window, first_window + shard.records)
        in_shard = slice(first_sentence, first_sentence + shard.sentences)
        counts.append(_count(windows[of_shard], sentences[in_shard], shard, folder))
        first_window, first_sentence = of_shard.stop, in_shard.stop
    return sentences.astype(np.int32), np.concatenate(counts)


def _count(
    windows: np.ndarray, sentences: np.ndarray, shard: Shard, folder: pathlib.Path
) -> np.ndarray:
    """Number of sentences of each window of a shard; no sentence is empty."""
    window_ends = np.cumsum(windows, dtype=np.int64)
    sentence_ends = np.cumsum(sentences, dtype=np.int64)
    last = np.searchsorted(sentence_ends, window_ends)
    if not np.array_equal(sentence_ends[last], window_ends):
        raise SENTENCES._contradiction(
            folder / shard.file,
            f"that every window ends where a sentence does, "
            f"by {WINDOWS.path(folder / shard.file).name}",
        )
    return np.diff(last, prepend=-1).astype(np.int32)
