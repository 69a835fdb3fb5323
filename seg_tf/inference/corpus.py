"""Saves sentence vectors of a corpus in a folder, and finds nearest neighbors.

The folder is written atomically. Its files are:

  manifest.json    checksums of the weights and the corpus, and settings
  vectors.f32      little-endian float32 `(N, D)`
  sentences.jsonl  each sentence, preceded by its context
"""

import dataclasses
import functools
import itertools
import json
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from seg_tf import command_line, files
from seg_tf.config import differing_settings
from seg_tf.inference.sentence_encoder import SentenceEncoder
from seg_tf.inference.texts import Sentence, in_context

MANIFEST_FILE = "manifest.json"
_VECTORS_FILE, _SENTENCES_FILE = "vectors.f32", "sentences.jsonl"
_FORMAT_VERSION = 4
# Number of sentences to encode, and of queries to compare, at a time.
_AT_A_TIME, _QUERIES_AT_A_TIME = 4_096, 16


class CorpusVectors:
    """The sentence vectors in a folder. `manifest` is the content of `manifest.json`.

    Raises a ValueError if the manifest is missing, damaged or in another format.
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
        version = self.manifest.get("format_version")
        if version != _FORMAT_VERSION:
            raise ValueError(
                f"{path}: expected the format version {_FORMAT_VERSION}, found "
                f"{version}. Encode the corpus again: give --corpus and another "
                "--index_dir"
            )

    def check_same(self, expected: Mapping[str, Any]) -> None:
        """Raises a ValueError if the manifest differs in an entry of `expected`."""
        values = {name: self.manifest[name] for name in expected}
        if differences := differing_settings(values, expected):
            raise ValueError(
                f"`--index_dir` contains vectors computed with different settings: "
                f"{self.folder}. They differ in "
                + "; ".join(differences)
                + ". Choose another --index_dir, or remove that one"
            )

    @functools.cached_property
    def vectors(self) -> np.ndarray:
        """Unit vectors of the sentences, a memory-mapped float32 array `(N, D)`."""
        vectors = np.memmap(self.folder / _VECTORS_FILE, "<f4", "r")
        return vectors.reshape(self.manifest["num_sentences"], -1)

    def nearest(self, queries: np.ndarray, count: int) -> list[list[tuple[int, float]]]:
        """Finds the exact nearest neighbors of `queries`, unit vectors `(Q, D)`.

        Returns up to `count` pairs of sentence number and cosine for each query, the
        nearest first. Equally near sentences keep their order in the corpus.
        """
        neighbors, count = [], min(count, len(self.vectors))
        for first in range(0, len(queries), _QUERIES_AT_A_TIME):
            some = queries[first : first + _QUERIES_AT_A_TIME]
            for cosines in some @ self.vectors.T:
                lowest = np.partition(cosines, -count)[-count]
                nearest = np.flatnonzero(cosines >= lowest)
                order = np.argsort(-cosines[nearest], kind="stable")[:count]
                nearest = nearest[order]
                pairs = zip(nearest.tolist(), cosines[nearest].tolist(), strict=True)
                neighbors.append(list(pairs))
        return neighbors

    def sentences(self, numbers: Iterable[int]) -> dict[int, list[Sentence]]:
        """Maps numbers to lists of the previous sentence, if any, and the sentence."""
        numbers = set(numbers)
        with open(self.folder / _SENTENCES_FILE, encoding="utf-8") as file:
            return {
                number: [Sentence(*values) for values in json.loads(line)]
                for number, line in enumerate(file)
                if number in numbers
            }


def describe(
    sources: Mapping[str, pathlib.Path],
    weights_checksum: str,
    vocab_checksum: str,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """Returns the checksums and settings that determine the vectors of a corpus."""
    return {
        "weights_sha256": weights_checksum,
        "vocab_sha256": vocab_checksum,
        "settings": dict(settings),
        "corpus": {
            name: {"bytes": path.stat().st_size, "sha256": files.checksum(path)}
            for name, path in sources.items()
        },
    }


def encode_corpus(
    folder: pathlib.Path,
    read_sentences: Callable[[], Iterator[Sentence]],
    encoder: SentenceEncoder,
    description: Mapping[str, Any],
) -> CorpusVectors:
    """Returns a corpus's vectors, which are computed unless `folder` contains them.

    `read_sentences` is called twice, first to count the sentences. `description` is a
    result of `describe`, whose settings must include `vectors`. Raises a ValueError if
    there are no sentences, or if `folder` has another description or other files.
    """
    if (folder / MANIFEST_FILE).exists():
        corpus = CorpusVectors(folder)
        corpus.check_same(description)
        return corpus
    total = sum(1 for _ in read_sentences())
    if not total:
        names = ", ".join(description["corpus"])
        raise ValueError(
            f"`--corpus` must hold sentences. Received: {names}, with none"
        )
    settings, total_cut = description["settings"], 0
    stream = in_context(read_sentences())
    with (
        files.new_folder(folder) as unfinished,
        command_line.progress_bar(total, "vectors", "sentence") as bar,
    ):
        while groups := list(itertools.islice(stream, _AT_A_TIME)):
            vectors, num_cut = encoder.encode_in_context(groups, settings["vectors"])
            with open(unfinished / _VECTORS_FILE, "ab") as vectors_file:
                vectors_file.write(vectors.astype("<f4").tobytes())
            with open(unfinished / _SENTENCES_FILE, "a", encoding="utf-8") as file:
                for group in groups:
                    values = [dataclasses.astuple(sentence) for sentence in group]
                    file.write(json.dumps(values, ensure_ascii=False) + "\n")
            total_cut += num_cut
            bar.update(len(groups))
        manifest = {**description, "num_sentences": total}
        manifest = {"format_version": _FORMAT_VERSION, **manifest}
        files.write_json(unfinished / MANIFEST_FILE, manifest)
    if total_cut:
        print(f"Sentences that were truncated to one row: {total_cut:,}")
    return CorpusVectors(folder)
