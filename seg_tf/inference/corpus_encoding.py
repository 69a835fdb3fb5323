"""Makes the vectors of all sentences of a corpus, in shards that a killed job keeps.

Shards are written aside and renamed; the same job goes on with those that are missing,
another one is refused.
"""

import itertools
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from seg_tf import files
from seg_tf.inference import corpus_vectors, texts
from seg_tf.inference.corpus_vectors import CorpusVectors
from seg_tf.inference.sentence_vectors import SentenceVectors
from seg_tf.inference.texts import Sentence
from seg_tf.text.punkt import Splitter


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


def make(
    folder: pathlib.Path,
    sources: Mapping[str, pathlib.Path],
    splitter: Splitter,
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
    in_use = ValueError(
        f"`--index_dir` must not be in use. Received: {folder}, into which another "
        "process writes now"
    )
    with files.locked(folder, in_use):
        if (folder / corpus_vectors.MANIFEST_FILE).exists():
            corpus = CorpusVectors(folder)
            corpus.check_same(description)
        else:
            num_sentences = sum(1 for _ in sentences())
            if not num_sentences:
                raise ValueError(
                    "`--corpus` must hold sentences. Received: "
                    f"{', '.join(description['corpus'])}, with none"
                )
            corpus = corpus_vectors.begin(folder, description, num_sentences)
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
    model: SentenceVectors,
    on_progress: Callable[[int], Any],
) -> int:
    """Writes the shards that are not there; returns how many sentences were cut."""
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
            vectors, num_cut = model.encode(of_shard, on_progress)
            corpus.write_shard(number, vectors, of_shard)
            total_cut += num_cut
        else:
            on_progress(len(of_shard))
    return total_cut
