"""The vectors of all sentences of a corpus, in shards that a killed job keeps.

A folder holds

  manifest.json   what the vectors depend on: weights, corpus, settings
  shard-00000/    vectors.npy: float32 `(N, D)`; sentences.jsonl: what they are of

and what `vector_index` adds. Shards are written aside and renamed; the same job goes on
with those that are missing, another one is refused.
"""

import contextlib
import fcntl
import itertools
import json
import pathlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from seg_tf import files
from seg_tf.inference import texts
from seg_tf.inference.sentence_vectors import SentenceVectors
from seg_tf.inference.texts import Sentence
from seg_tf.text.punkt import SentenceSplitter
from seg_tf.training.run_folder import differing_settings

_MANIFEST_FILE = "manifest.json"
_VECTORS_FILE = "vectors.npy"
_SENTENCES_FILE = "sentences.jsonl"
_FORMAT_VERSION = 1


class CorpusVectors:
    """A folder of vectors: begun, perhaps complete.

    Args:
        folder: where it is.

    Raises:
        ValueError: if there is no manifest, or one of another version.

    Attributes:
        folder: where it is.
        manifest: what the vectors depend on, and `num_sentences`.
    """

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        path = folder / _MANIFEST_FILE
        if not path.is_file():
            raise ValueError(
                f"`--index_dir` must hold the vectors of a corpus. Received: {folder}, "
                f"which has no {_MANIFEST_FILE}. Give the text with --corpus to make "
                "them"
            )
        self.manifest = files.read_json(path)
        version = self.manifest.get("format_version")
        if version != _FORMAT_VERSION:
            raise ValueError(
                f"{path}: expected format version {_FORMAT_VERSION}, found {version}. "
                "Make the vectors again, in another --index_dir"
            )

    @property
    def num_shards(self) -> int:
        return -(-self.manifest["num_sentences"] // self.shard_sentences)

    @property
    def shard_sentences(self) -> int:
        return self.manifest["settings"]["shard_sentences"]

    def num_sentences_of(self, shard: int) -> int:
        """How many sentences a shard has."""
        left = self.manifest["num_sentences"] - shard * self.shard_sentences
        return min(left, self.shard_sentences)

    def shard(self, number: int) -> pathlib.Path:
        return self.folder / f"shard-{number:05d}"

    def missing(self) -> list[int]:
        """Numbers of the shards that are not there yet."""
        return [
            number
            for number in range(self.num_shards)
            if not self.shard(number).is_dir()
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
        """The vectors of one shard after the other."""
        for number in range(self.num_shards):
            path = self.shard(number) / _VECTORS_FILE
            vectors = np.load(path, mmap_mode="r")
            expected = self.num_sentences_of(number)
            if len(vectors) != expected:
                raise ValueError(
                    f"{path}: expected {expected} vectors, found {len(vectors)}. "
                    f"Remove {path.parent} and give the same --corpus again"
                )
            yield vectors

    def sentences(self, numbers: Sequence[int]) -> dict[int, list[Sentence]]:
        """Sentences of the corpus, each last, behind those it was encoded with.

        Args:
            numbers: which, counted from 0.

        Returns:
            By number.
        """
        found = {}
        of_shard = sorted(set(numbers))
        for shard, group in itertools.groupby(
            of_shard, key=lambda number: number // self.shard_sentences
        ):
            wanted = {number % self.shard_sentences: number for number in group}
            path = self.shard(shard) / _SENTENCES_FILE
            with open(path, encoding="utf-8") as file:
                for at, line in enumerate(file):
                    if at in wanted:
                        values = json.loads(line)
                        found[wanted[at]] = [Sentence(*one) for one in values]
        return found


def describe(
    sources: Mapping[str, pathlib.Path],
    weights_checksum: str,
    vocab_checksum: str,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """What the vectors of a corpus depend on, as it stands in their manifest."""
    return {
        "weights_sha256": weights_checksum,
        "vocab_sha256": vocab_checksum,
        "settings": dict(settings),
        "corpus": {
            name: {"bytes": path.stat().st_size, "sha256": files.checksum(path)}
            for name, path in sources.items()
        },
    }


def make(
    folder: pathlib.Path,
    sources: Mapping[str, pathlib.Path],
    splitter: SentenceSplitter,
    model: SentenceVectors,
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
    with _locked(folder):
        if (folder / _MANIFEST_FILE).exists():
            corpus = CorpusVectors(folder)
            corpus.check_same(description)
        else:
            _begin(folder, description, sum(1 for _ in sentences()))
            corpus = CorpusVectors(folder)
        missing = set(corpus.missing())
        if not missing:
            return corpus
        files.remove_leftovers(folder)
        stream = texts.in_context(sentences(), settings["context_sentences"])
        total_cut = 0
        with progress(corpus.manifest["num_sentences"]) as bar:
            for number in range(corpus.num_shards):
                of_shard = list(itertools.islice(stream, corpus.shard_sentences))
                if len(of_shard) != corpus.num_sentences_of(number):
                    raise ValueError(
                        "`--corpus` must not change while it is read. Received: "
                        f"{', '.join(sources)}, of which shard {number} now has "
                        f"{len(of_shard)} sentences, not "
                        f"{corpus.num_sentences_of(number)}"
                    )
                if number not in missing:
                    bar.update(len(of_shard))
                    continue
                vectors, num_cut = model.encode(of_shard, bar.update)
                _write_shard(corpus.shard(number), vectors, of_shard)
                total_cut += num_cut
        if total_cut:
            report(
                f"{total_cut:,} sentences are longer than a row: their ends were cut"
            )
    return corpus


def _begin(
    folder: pathlib.Path, description: Mapping[str, Any], num_sentences: int
) -> None:
    if not num_sentences:
        raise ValueError(
            "`--corpus` must hold sentences. Received: "
            f"{', '.join(description['corpus'])}, with none"
        )
    files.write_json(
        folder / _MANIFEST_FILE,
        {
            "format_version": _FORMAT_VERSION,
            **description,
            "num_sentences": num_sentences,
        },
    )


def _write_shard(
    path: pathlib.Path, vectors: np.ndarray, in_context: Sequence[Sequence[Sentence]]
) -> None:
    unfinished = files.aside(path)
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    np.save(unfinished / _VECTORS_FILE, vectors)
    with open(unfinished / _SENTENCES_FILE, "w", encoding="utf-8") as file:
        for group in in_context:
            values = [
                [one.text, one.file, one.document, one.line, one.paragraph]
                for one in group
            ]
            file.write(json.dumps(values, ensure_ascii=False) + "\n")
    files.publish(path)


@contextlib.contextmanager
def _locked(folder: pathlib.Path) -> Iterator[None]:
    with open(folder / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"`--index_dir` must not be in use. Received: {folder}, into which "
                "another process writes now"
            ) from None
        yield
