"""Vectors of all sentences of a corpus, in a folder, and exact search among them.

  manifest.json   weights, corpus and settings of the vectors; checksums of the shards
                  and of the manifest
  shard-00000/    vectors.npy: float32 `(N, D)`; sentences.jsonl: the sentences

Shards are written atomically. The same command resumes with the missing shards; a
different one is refused. Each file is checked when it is first read.
"""

import dataclasses
import itertools
import json
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from seg_tf import files
from seg_tf.config import differing_settings
from seg_tf.inference.sentence_encoder import SentenceEncoder
from seg_tf.inference.texts import Sentence, in_context

MANIFEST_FILE = "manifest.json"
_VECTORS_FILE = "vectors.npy"
_SENTENCES_FILE = "sentences.jsonl"
_FORMAT_VERSION = 3


class CorpusVectors:
    """A folder of vectors, complete or not.

    Args:
        folder: the folder.

    Raises:
        ValueError: if the manifest is missing, damaged or of another version.

    Attributes:
        folder: the folder.
        manifest: settings of the vectors, `num_sentences`, and `shards`: checksums by
            folder and file.
    """

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        path = folder / MANIFEST_FILE
        if not path.is_file():
            raise ValueError(
                f"`--index_dir` must hold the vectors of a corpus. Received: {folder}, "
                f"which has no {MANIFEST_FILE}. Give the text with --corpus to encode "
                "it"
            )
        self.manifest = files.read_json(path)
        is_object = isinstance(self.manifest, dict)
        version = self.manifest.get("format_version") if is_object else None
        for name, expected, value in (
            ("format version", _FORMAT_VERSION, version),
            (
                "checksum",
                self.manifest.get("checksum") if is_object else None,
                files.content_checksum(self.manifest) if is_object else None,
            ),
        ):
            if value != expected:
                raise ValueError(
                    f"{path}: expected the {name} {expected}, found {value}. Encode "
                    "the corpus again: give --corpus and another --index_dir"
                )
        self._intact: set[pathlib.Path] = set()

    @property
    def num_shards(self) -> int:
        return -(-self.manifest["num_sentences"] // self.shard_sentences)

    @property
    def shard_sentences(self) -> int:
        """Sentences of every shard but the last."""
        return self.manifest["settings"]["shard_sentences"]

    def shard(self, number: int) -> pathlib.Path:
        return self.folder / f"shard-{number:05d}"

    def missing(self) -> list[int]:
        """Numbers of the shards that were not finished, or were removed."""
        return [
            number
            for number in range(self.num_shards)
            if self.shard(number).name not in self.manifest["shards"]
            or not self.shard(number).is_dir()
        ]

    def check_complete(self) -> None:
        """Raises a ValueError unless every shard is there."""
        if missing := self.missing():
            raise ValueError(
                f"`--index_dir` must hold all vectors of its corpus. Received: "
                f"{self.folder}, which lacks {len(missing)} of {self.num_shards} "
                "shards. Give the same --corpus again to encode them"
            )

    def check_same(self, expected: Mapping[str, Any]) -> None:
        """Raises a ValueError where the manifest differs from `expected`."""
        values = {name: self.manifest[name] for name in expected}
        if differences := differing_settings(values, expected):
            raise ValueError(
                f"`--index_dir` contains vectors computed with different settings: "
                f"{self.folder}. They differ in "
                + "; ".join(differences)
                + ". Choose another --index_dir, or remove that one"
            )

    def vectors(self) -> Iterator[np.ndarray]:
        """The vectors of each shard.

        Raises:
            ValueError: if a file is damaged.
        """
        for number in range(self.num_shards):
            yield np.load(self._checked_file(number, _VECTORS_FILE), mmap_mode="r")

    def _checked_file(self, shard: int, name: str) -> pathlib.Path:
        path = self.shard(shard) / name
        if path not in self._intact:
            expected = self.manifest["shards"].get(path.parent.name, {}).get(name)
            checksum = files.checksum(path) if path.is_file() else "no file"
            if checksum != expected:
                raise ValueError(
                    f"{path}: expected the checksum {expected}, found {checksum}. "
                    f"Remove {path.parent} and give the same --corpus again"
                )
            self._intact.add(path)
        return path

    def nearest(self, queries: np.ndarray, count: int) -> list[list[tuple[int, float]]]:
        """Finds the nearest vectors to each query, by comparing with all of them.

        Vectors and queries have length 1, so that inner products are cosines.

        Args:
            queries: float32 array `(number of queries, D)`.
            count: neighbours of each query; fewer if there are fewer vectors.

        Returns:
            For each query `(number of the sentence, cosine)`, the nearest first; equal
            cosines in the order of the sentences.
        """
        nearest = [(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in queries]
        for shard, vectors in enumerate(self.vectors()):
            first = shard * self.shard_sentences
            for query, cosines in enumerate(queries @ vectors.T):
                numbers, best = nearest[query]
                bound = best[-1] if len(best) == count else -np.inf
                nearer = np.flatnonzero(cosines > bound)
                numbers = np.concatenate([numbers, first + nearer])
                best = np.concatenate([best, cosines[nearer]])
                order = np.argsort(-best, kind="stable")[:count]
                nearest[query] = numbers[order], best[order]
        return [
            list(zip(numbers.tolist(), cosines.tolist(), strict=True))
            for numbers, cosines in nearest
        ]

    def sentences(self, numbers: Iterable[int]) -> dict[int, list[Sentence]]:
        """Sentences by number, each after those it was encoded with.

        Raises:
            ValueError: if a file is damaged.
        """
        sentences = {}
        for shard, group in itertools.groupby(
            sorted(set(numbers)), key=lambda number: number // self.shard_sentences
        ):
            offsets = {number % self.shard_sentences: number for number in group}
            path = self._checked_file(shard, _SENTENCES_FILE)
            with open(path, encoding="utf-8") as file:
                for at, line in enumerate(file):
                    if at in offsets:
                        sentences[offsets[at]] = [
                            Sentence(*values) for values in json.loads(line)
                        ]
        return sentences

    def write_shard(
        self, number: int, vectors: np.ndarray, groups: Sequence[Sequence[Sentence]]
    ) -> None:
        """Writes a shard atomically, and then its checksums.

        Args:
            number: number of the shard.
            vectors: float32 array `(N, D)`.
            groups: the N sentences, each after those it was encoded with.
        """
        path = self.shard(number)
        with files.written_aside(path) as unfinished:
            unfinished.mkdir()
            np.save(unfinished / _VECTORS_FILE, vectors)
            with open(unfinished / _SENTENCES_FILE, "w", encoding="utf-8") as file:
                for group in groups:
                    values = [dataclasses.astuple(sentence) for sentence in group]
                    file.write(json.dumps(values, ensure_ascii=False) + "\n")
            self.manifest["shards"][path.name] = {
                file.name: files.checksum(file) for file in sorted(unfinished.iterdir())
            }
        _write_manifest(self.folder, self.manifest)


def describe(
    sources: Mapping[str, pathlib.Path],
    weights_checksum: str,
    vocab_checksum: str,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """Settings that the vectors of a corpus depend on, for their manifest."""
    return {
        "weights_sha256": weights_checksum,
        "vocab_sha256": vocab_checksum,
        "settings": dict(settings),
        "corpus": {
            name: {"bytes": path.stat().st_size, "sha256": files.checksum(path)}
            for name, path in sources.items()
        },
    }


def start(
    folder: pathlib.Path, description: Mapping[str, Any], num_sentences: int
) -> CorpusVectors:
    """Writes the manifest of vectors into a folder that exists."""
    manifest = {**description, "num_sentences": num_sentences, "shards": {}}
    _write_manifest(folder, {"format_version": _FORMAT_VERSION, **manifest})
    return CorpusVectors(folder)


def _write_manifest(folder: pathlib.Path, manifest: Mapping[str, Any]) -> None:
    checksum = files.content_checksum(manifest)
    files.write_json(folder / MANIFEST_FILE, {**manifest, "checksum": checksum})


def encode_corpus(
    folder: pathlib.Path,
    read_sentences: Callable[[], Iterator[Sentence]],
    encoder: SentenceEncoder,
    description: Mapping[str, Any],
    progress: Callable[[int], Any],
    report: Callable[[str], Any] = print,
) -> CorpusVectors:
    """Encodes the sentences of a corpus, or those in missing shards.

    The corpus is streamed twice: to count its sentences, and to encode them.

    Args:
        folder: folder of the vectors.
        read_sentences: begins to stream the sentences of the corpus.
        encoder: the encoder.
        description: result of `describe`. Its settings `context_sentences`,
            `vectors`, `shard_sentences` and `limit` (None takes all) are used.
        progress: creates a progress bar for a number of sentences.
        report: called with lines of text.

    Raises:
        ValueError: if the folder contains different vectors or is in use, or the corpus
            has no sentence, or changes in the meantime.
    """
    settings, names = description["settings"], ", ".join(description["corpus"])

    def sentences() -> Iterator[Sentence]:
        return itertools.islice(read_sentences(), settings["limit"])

    folder.mkdir(parents=True, exist_ok=True)
    in_use = ValueError(
        f"`--index_dir` must not be in use. Received: {folder}, into which another "
        "process writes now"
    )
    with files.locked(folder, in_use):
        if (folder / MANIFEST_FILE).exists():
            corpus = CorpusVectors(folder)
            corpus.check_same(description)
        else:
            num_sentences = sum(1 for _ in sentences())
            if not num_sentences:
                raise ValueError(
                    f"`--corpus` must hold sentences. Received: {names}, with none"
                )
            corpus = start(folder, description, num_sentences)
        missing = set(corpus.missing())
        if not missing:
            return corpus
        files.remove_leftovers(folder)
        stream = in_context(sentences(), settings["context_sentences"])
        left, total_cut = corpus.manifest["num_sentences"], 0
        with progress(left) as bar:
            for number in range(corpus.num_shards):
                groups = list(itertools.islice(stream, corpus.shard_sentences))
                if len(groups) != min(left, corpus.shard_sentences):
                    raise ValueError(
                        "`--corpus` must not change while it is read. Received: "
                        f"{names}, whose shard {number} now has "
                        f"{len(groups)} sentences"
                    )
                left -= len(groups)
                if number not in missing:
                    bar.update(len(groups))
                    continue
                vectors, num_cut = encoder.encode_in_context(
                    groups, settings["vectors"], bar.update
                )
                corpus.write_shard(number, vectors, groups)
                total_cut += num_cut
        if total_cut:
            report(f"Sentences longer than a row, which were cut: {total_cut:,}")
    return corpus
