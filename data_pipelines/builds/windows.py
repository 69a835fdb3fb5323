"""Splits whole documents into windows with a maximum number of word pieces."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import numpy as np

from data_pipelines.builds import sharded_build
from data_pipelines.builds.local_engine import LocalEngine
from data_pipelines.builds.sharded_build import ShardedBuild
from seg_tf import files
from seg_tf.config.base import Range, Ranged, Rate
from seg_tf.data import record_schema
from seg_tf.data.manifest import (
    FILE_NAME,
    NUM_SPECIAL_TOKENS,
    SPLITS,
    Manifest,
    Shard,
    shard_name,
)
from seg_tf.text import encoding
from seg_tf.text.encoding import SENTENCE_PARAMETERS_FILE, VOCABULARY_FILE
from seg_tf.text.tree import DocumentTree

if TYPE_CHECKING:
    from data_pipelines.builds.beam_engine import BeamEngine


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowOptions(Ranged):
    """Options that determine the windows of documents.

    Attributes:
        window_length: number of positions in a window (8 to 65,535), with `[CLS]` and
            `[SEP]`. Must equal the window length of the training config.
        short_window_rate: probability that a window has a random shorter length.
        cut_sentences: whether to fill windows completely by splitting sentences. Use
            this for masked LM, especially in packed rows, but not sentence unshuffling.
        seed: random seed of window lengths and sentence permutations.
    """

    window_length: Annotated[int, Range("lie between 8 and 65535", 8, 65_535)] = 512
    short_window_rate: Rate = 0.01
    cut_sentences: bool = False
    seed: int = 0

    @property
    def capacity(self) -> int:
        """Maximum number of pieces in a window, without `[CLS]` and `[SEP]`."""
        return self.window_length - NUM_SPECIAL_TOKENS


def cut_windows(
    tree: DocumentTree, document_id: int, options: WindowOptions
) -> Iterator[tuple[DocumentTree, np.ndarray]]:
    """Splits a document into consecutive windows without losing or repeating pieces.

    A window contains as many whole sentences as fit. A sentence longer than a window is
    split, and the next window continues it at its true token index. With probability
    `short_window_rate`, a window's target length is drawn uniformly from 2 to
    `capacity`, so that models see short inputs before fine-tuning, as in BERT (0.01 in
    the Segatron authors' code). A longer first sentence exceeds the target, except with
    `cut_sentences`. `seed` and `document_id` determine the random draws.

    Yields:
        Each window and a random permutation of its sentences, an int array.
    """
    # TensorFlow takes seconds to import and the parent process does not need it.
    from seg_tf.data import randomness

    seed, capacity = options.seed, options.capacity
    sentence_ends = np.cumsum(tree.sentence_lengths)
    indices = tree.indices()
    num_pieces = len(tree.token_ids)
    draws = randomness.key(seed, randomness.SHORT_WINDOWS, document_id)
    begin, number = 0, 0
    while begin < num_pieces:
        target = capacity
        chance = randomness.key(draws, number, 0) / 2**64
        if chance < options.short_window_rate and capacity >= 2:
            target = 2 + randomness.key(draws, number, 1) % (capacity - 1)
        num_whole = int(np.searchsorted(sentence_ends, begin + target, side="right"))
        if options.cut_sentences:
            end = min(begin + target, num_pieces)
        elif num_whole and sentence_ends[num_whole - 1] > begin:
            end = int(sentence_ends[num_whole - 1])
        else:
            # No whole sentence fits the target, so fill the window with a part of one.
            end = min(int(sentence_ends[num_whole]), begin + capacity)
        window = _slice(tree, indices, sentence_ends, begin, end)
        stream = randomness.key(
            seed, randomness.SENTENCE_PERMUTATION, document_id, number
        )
        keys = randomness.uniform_integers(stream, len(window.sentence_lengths))
        yield window, np.argsort(keys, kind="stable")
        begin, number = end, number + 1


def _slice(
    tree: DocumentTree,
    indices: dict[str, np.ndarray],
    sentence_ends: np.ndarray,
    begin: int,
    end: int,
) -> DocumentTree:
    first_sentence = int(np.searchsorted(sentence_ends, begin, side="right"))
    last_sentence = int(np.searchsorted(sentence_ends, end, side="left"))
    sentence_lengths = np.array(
        tree.sentence_lengths[first_sentence : last_sentence + 1]
    )
    sentence_lengths[-1] -= sentence_ends[last_sentence] - end
    paragraph, sentence, token = (int(values[begin]) for values in indices.values())
    sentence_lengths[0] -= token
    paragraph_ends = np.cumsum(tree.paragraph_lengths)
    inner_ends = paragraph_ends[
        (paragraph_ends > first_sentence) & (paragraph_ends <= last_sentence)
    ]
    return DocumentTree(
        tree.token_ids[begin:end],
        sentence_lengths,
        np.diff(np.concatenate([[first_sentence], inner_ends, [last_sentence + 1]])),
        (paragraph, sentence, token),
    )


@dataclasses.dataclass(frozen=True)
class ShardPair:
    """The training and validation shards of one slice of documents."""

    number: int
    shards: dict[str, Shard]

    @property
    def num_bytes(self) -> int:
        return sum(shard.bytes for shard in self.shards.values())


class WindowMaker:
    """Splits the documents of a pair of shards into windows."""

    def __init__(self, options: WindowOptions, documents_dir: pathlib.Path):
        self._options = options
        self._documents_dir = documents_dir
        manifest = Manifest.load(documents_dir)
        self._document_widths = manifest.number_widths
        self._widths = record_schema.number_widths(
            manifest.vocabulary["size"], options.capacity
        )

    def make(self, pair: ShardPair, folder: pathlib.Path) -> dict:
        """Writes the window shards of a pair and returns a report on them."""
        from seg_tf.data import examples

        entries = {}
        for split, shard in pair.shards.items():
            windows = (
                (window, document_id, permutation)
                for tree, document_id, _ in examples.read_trees(
                    self._documents_dir / shard.file, self._document_widths
                )
                for window, permutation in cut_windows(tree, document_id, self._options)
            )
            path = folder / shard_name(split, pair.number)
            entries[split] = vars(examples.write_windows(path, windows, self._widths))
        return {"shards": entries}


def check_word_pieces(tokenizer: str) -> None:
    """Raises ValueError unless `tokenizer` is "word_pieces", as windows require."""
    if tokenizer != encoding.WORD_PIECES:
        raise ValueError(
            "Windows are cut from documents of word pieces. Received: documents with "
            f"tokenizer={tokenizer}, which are read as one stream and need no windows: "
            "run only `seg-tf build-documents`, and train with its "
            "--output_dir as --records_dir"
        )


def build_windows(
    options: WindowOptions,
    documents_dir: pathlib.Path,
    output_dir: pathlib.Path,
    *,
    num_workers: int = 1,
    overwrite: bool = False,
    engine: LocalEngine | BeamEngine | None = None,
) -> Manifest:
    """Builds windows from the output of `build_documents` and returns the manifest.

    `output_dir` must not be `documents_dir`. See `build_documents` for `num_workers`,
    `overwrite` and `engine`. A build that is already complete is left unchanged. Raises
    ValueError if `documents_dir` does not contain documents of word pieces, and
    BuildError if `output_dir` contains another build or a folder is in use.
    """
    with files.locked_for_reading(documents_dir, sharded_build.in_use(documents_dir)):
        documents = Manifest.load(documents_dir)
        if documents.kind != "documents":
            raise ValueError(
                f"`documents_dir` must contain documents. Received: {documents_dir}, "
                f"which contains {documents.kind}"
            )
        check_word_pieces(documents.tokenizer)
        described = {
            **dataclasses.asdict(options),
            "documents_manifest_sha256": files.checksum(documents_dir / FILE_NAME),
        }
        all_options = {**documents.options, **described}
        if not overwrite:
            expected = {"kind": "windows", "options": all_options}
            finished = sharded_build.finished_manifest(output_dir, expected)
            if finished is not None:
                return finished

        build = ShardedBuild(output_dir, described)
        with build.opened(overwrite=overwrite):
            engine = engine or LocalEngine(num_workers)
            pairs = [
                ShardPair(number, dict(zip(SPLITS, shards, strict=True)))
                for number, shards in enumerate(
                    zip(*(documents.splits[split] for split in SPLITS), strict=True)
                )
            ]
            new_maker = functools.partial(
                WindowMaker, options, documents_dir.absolute()
            )
            reports = engine.make_windows(build, pairs, new_maker)
            manifest = dataclasses.replace(
                documents,
                kind="windows",
                options=all_options,
                number_widths=record_schema.number_widths(
                    documents.vocabulary["size"], options.capacity
                ),
                window_length=options.window_length,
                splits=sharded_build.shards_by_split(reports),
            )
            for name in (VOCABULARY_FILE, SENTENCE_PARAMETERS_FILE):
                content = (documents_dir / name).read_bytes()
                files.write_bytes(output_dir / name, content)
            manifest.save(output_dir)
            build.close()
        return manifest
