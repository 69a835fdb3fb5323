"""A folder with the vectors of all sentences of a corpus.

  manifest.json   weights, corpus and settings of the vectors; checksums of the shards
                  and of itself
  shard-00000/    vectors.npy: float32 `(N, D)`; sentences.jsonl: the sentences

Shards are written under a temporary name and renamed. A killed job continues with the
missing ones; other settings are refused. Each file is compared with its checksum when
it is first read.
"""

import itertools
import json
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from seg_tf import files
from seg_tf.config import differing_settings
from seg_tf.inference import texts
from seg_tf.inference.sentence_encoder import SentenceEncoder
from seg_tf.inference.texts import Sentence
from seg_tf.text.punkt import Splitter

MANIFEST_FILE = "manifest.json"
_VECTORS_FILE = "vectors.npy"
_SENTENCES_FILE = "sentences.jsonl"
_FORMAT_VERSION = 2  # 1 had no checksums


class CorpusVectors:
    """A folder of vectors: begun, perhaps complete.

    Args:
        folder: where it is.

    Raises:
        ValueError: if there is no manifest, or it is damaged or of another version.

    Attributes:
        folder: where it is.
        manifest: what the vectors depend on, `num_sentences`, and `shards`: checksums
            by folder and file.
    """

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        path = folder / MANIFEST_FILE
        if not path.is_file():
            raise ValueError(
                f"`--index_dir` must hold the vectors of a corpus. Received: {folder}, "
                f"which has no {MANIFEST_FILE}. Give the text with --corpus to make "
                "them"
            )
        self.manifest = files.read_json(path)
        again = "Make the vectors again: give --corpus and another --index_dir"
        is_object = isinstance(self.manifest, dict)
        version = self.manifest.get("format_version") if is_object else None
        if version != _FORMAT_VERSION:
            raise ValueError(
                f"{path}: expected format version {_FORMAT_VERSION}, found {version}. "
                + again
            )
        expected = self.manifest.get("checksum")
        checksum = files.content_checksum(self.manifest)
        if checksum != expected:
            raise ValueError(
                f"{path}: expected the checksum {expected}, found {checksum}. {again}"
            )
        self._intact: set[pathlib.Path] = set()

    @property
    def num_shards(self) -> int:
        return -(-self.manifest["num_sentences"] // self.shard_sentences)

    @property
    def shard_sentences(self) -> int:
        return self.manifest["settings"]["shard_sentences"]

    def num_sentences_of(self, shard: int) -> int:
        """Number of sentences of a shard."""
        left = self.manifest["num_sentences"] - shard * self.shard_sentences
        return min(left, self.shard_sentences)

    def shard(self, number: int) -> pathlib.Path:
        return self.folder / f"shard-{number:05d}"

    def missing(self) -> list[int]:
        """Numbers of the shards that were not finished, or were removed."""
        paths = map(self.shard, range(self.num_shards))
        return [
            number
            for number, path in enumerate(paths)
            if path.name not in self.manifest["shards"] or not path.is_dir()
        ]

    def check_complete(self) -> None:
        """Raises ValueError unless every shard is there."""
        missing = self.missing()
        if missing:
            raise ValueError(
                f"`--index_dir` must hold all vectors of its corpus. Received: "
                f"{self.folder}, which lacks {len(missing)} of {self.num_shards} "
                "shards. Give the same --corpus again to make them"
            )

    def check_same(self, expected: Mapping[str, Any]) -> None:
        """Raises ValueError where the vectors are not those that `expected` makes."""
        found = {name: self.manifest[name] for name in expected}
        differences = differing_settings(found, expected)
        if differences:
            raise ValueError(
                f"`--index_dir` holds other vectors: {self.folder}. They differ in "
                + "; ".join(differences)
                + ". Choose another --index_dir, or remove that one"
            )

    def vectors(self) -> Iterator[np.ndarray]:
        """The vectors of one shard after the other.

        Raises:
            ValueError: if a file is damaged.
        """
        for number in range(self.num_shards):
            yield np.load(self._checked_file(number, _VECTORS_FILE), mmap_mode="r")

    def _checked_file(self, shard: int, name: str) -> pathlib.Path:
        """Path of a file that is as it was written."""
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
        """The nearest vectors to each query, found by comparing with all of them.

        Vectors and queries have length 1, so that inner products are cosines.

        Args:
            queries: float32 array `(number of queries, D)`.
            count: neighbours of each query; fewer where there are fewer vectors.

        Returns:
            For each query `(number of the sentence, cosine)`, the nearest first, and
            of equal cosines the earlier sentence.
        """
        nothing = np.empty(0, np.int64), np.empty(0, np.float32)
        nearest = [nothing] * len(queries)
        for shard, vectors in enumerate(self.vectors()):
            first = shard * self.shard_sentences
            for query, cosines in enumerate(queries @ vectors.T):
                nearest[query] = _merge(*nearest[query], cosines, first, count)
        return [
            list(zip(numbers.tolist(), cosines.tolist(), strict=True))
            for numbers, cosines in nearest
        ]

    def sentences(self, numbers: Sequence[int]) -> dict[int, list[Sentence]]:
        """Sentences of the corpus, each last, behind those it was encoded with.

        Args:
            numbers: which, counted from 0.

        Returns:
            By number.

        Raises:
            ValueError: if a file is damaged.
        """
        found = {}
        of_shard = sorted(set(numbers))
        for shard, group in itertools.groupby(
            of_shard, key=lambda number: number // self.shard_sentences
        ):
            wanted = {number % self.shard_sentences: number for number in group}
            path = self._checked_file(shard, _SENTENCES_FILE)
            with open(path, encoding="utf-8") as file:
                for at, line in enumerate(file):
                    if at in wanted:
                        values = json.loads(line)
                        found[wanted[at]] = [Sentence(*one) for one in values]
        return found

    def write_shard(
        self,
        number: int,
        vectors: np.ndarray,
        in_context: Sequence[Sequence[Sentence]],
    ) -> None:
        """Writes a shard, whole or not at all, and then its checksums.

        Args:
            number: of the shard.
            vectors: float32 array `(N, D)`.
            in_context: the N sentences, each last, behind those it was encoded with.
        """
        path = self.shard(number)
        with files.written_aside(path) as unfinished:
            unfinished.mkdir()
            np.save(unfinished / _VECTORS_FILE, vectors)
            with open(unfinished / _SENTENCES_FILE, "w", encoding="utf-8") as file:
                for group in in_context:
                    values = [
                        [one.text, one.file, one.document, one.line, one.paragraph]
                        for one in group
                    ]
                    file.write(json.dumps(values, ensure_ascii=False) + "\n")
            self.manifest["shards"][path.name] = {
                file.name: files.checksum(file) for file in sorted(unfinished.iterdir())
            }
        _write_manifest(self.folder, self.manifest)


def begin(
    folder: pathlib.Path, description: Mapping[str, Any], num_sentences: int
) -> CorpusVectors:
    """Begins a folder of vectors, without any shard.

    Args:
        folder: an existing folder.
        description: what the vectors depend on.
        num_sentences: of the corpus.
    """
    _write_manifest(
        folder,
        {
            "format_version": _FORMAT_VERSION,
            **description,
            "num_sentences": num_sentences,
            "shards": {},
        },
    )
    return CorpusVectors(folder)


def _write_manifest(folder: pathlib.Path, manifest: Mapping[str, Any]) -> None:
    files.write_json(
        folder / MANIFEST_FILE,
        {**manifest, "checksum": files.content_checksum(manifest)},
    )


def _merge(
    numbers: np.ndarray,
    cosines: np.ndarray,
    of_shard: np.ndarray,
    first: int,
    count: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Merges the nearest so far with those of the next shard.

    Args:
        numbers: sentences so far, the nearest first.
        cosines: theirs.
        of_shard: cosines of all sentences of the shard.
        first: number of its first sentence.
        count: sentences to keep.
    """
    bound = cosines[-1] if len(cosines) == count else -np.inf
    nearer = np.flatnonzero(of_shard > bound)
    numbers = np.concatenate([numbers, first + nearer])
    cosines = np.concatenate([cosines, of_shard[nearer]])
    # Stable: of equal cosines the earlier sentence stays first.
    order = np.argsort(-cosines, kind="stable")[:count]
    return numbers[order], cosines[order]


def describe_corpus(
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


def make_corpus(
    folder: pathlib.Path,
    sources: Mapping[str, pathlib.Path],
    splitter: Splitter,
    model: SentenceEncoder,
    description: Mapping[str, Any],
    progress: Callable[[int], Any],
    report: Callable[[str], Any] = print,
) -> CorpusVectors:
    """Makes the vectors of a corpus, or those of them that are missing.

    The text is read as a stream: once to count its sentences, and once to encode them;
    what finished shards hold is only split into sentences again.

    Args:
        folder: where they go.
        sources: name -> file of the corpus.
        splitter: what makes sentences of a line.
        model: what makes vectors of them.
        description: what `describe` returned; its settings `context_sentences`,
            `shard_sentences` and `limit` (None takes all sentences) are used.
        progress: makes a bar for a number of sentences.
        report: called with a line of text when something is worth saying.

    Raises:
        ValueError: if the folder holds other vectors, is in use, or the corpus has no
            sentence, or changes meanwhile.
    """
    settings = description["settings"]

    def sentences() -> Iterator[Sentence]:
        found = texts.read_sentences(sources, splitter)
        return itertools.islice(found, settings["limit"])

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
                    "`--corpus` must hold sentences. Received: "
                    f"{', '.join(description['corpus'])}, with none"
                )
            corpus = begin(folder, description, num_sentences)
        if corpus.missing():
            files.remove_leftovers(folder)
            stream = texts.in_context(sentences(), settings["context_sentences"])
            with progress(corpus.manifest["num_sentences"]) as bar:
                num_cut = _encode_missing(corpus, stream, model, bar.update)
            if num_cut:
                report(f"Longer than a row, so that their ends were cut: {num_cut:,}")
    return corpus


def _encode_missing(
    corpus: CorpusVectors,
    stream: Iterator[Sequence[Sentence]],
    model: SentenceEncoder,
    on_progress: Callable[[int], Any],
) -> int:
    """Writes the missing shards; returns how many sentences were cut."""
    settings = corpus.manifest["settings"]
    missing = set(corpus.missing())
    total_cut = 0
    for number in range(corpus.num_shards):
        of_shard = list(itertools.islice(stream, corpus.shard_sentences))
        if len(of_shard) != corpus.num_sentences_of(number):
            raise ValueError(
                "`--corpus` must not change while it is read. Received: "
                f"{', '.join(corpus.manifest['corpus'])}, of which shard {number} now "
                f"has {len(of_shard)} sentences, not {corpus.num_sentences_of(number)}"
            )
        if number in missing:
            vectors, num_cut = model.encode_in_context(
                of_shard, settings["vectors"], on_progress
            )
            corpus.write_shard(number, vectors, of_shard)
            total_cut += num_cut
        else:
            on_progress(len(of_shard))
    return total_cut
