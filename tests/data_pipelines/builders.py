"""Small sets of records for tests, made without any text."""

import pathlib

import numpy as np

from data_pipelines import records, tree_shards, windows
from data_pipelines.manifest import SPLITS, Manifest
from seg_tf import files
from seg_tf.text.tree import DocumentTree

SPECIAL_IDS = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
FIRST_PIECE = 10


def random_tree(
    generator: np.random.Generator, max_pieces: int, vocab_size: int
) -> DocumentTree:
    """A document of random paragraphs and sentences with at most `max_pieces`."""
    num_pieces = int(generator.integers(1, max_pieces + 1))
    sentence_lengths = _random_parts(generator, num_pieces, mean=7)
    paragraph_lengths = _random_parts(generator, len(sentence_lengths), mean=3)
    token_ids = generator.integers(FIRST_PIECE, vocab_size, num_pieces)
    return DocumentTree(token_ids, sentence_lengths, paragraph_lengths)


def _random_parts(generator: np.random.Generator, total: int, mean: int) -> np.ndarray:
    parts = []
    while total:
        part = min(total, int(generator.geometric(1 / mean)))
        parts.append(part)
        total -= part
    return np.array(parts)


def tokens(vocab_size: int) -> list[str]:
    """A vocabulary whose special tokens have the ids above."""
    names = [*(f"[{name.upper()}]" for name in SPECIAL_IDS), "[unused0]"]
    return [*names, *(f"w{number}" for number in range(len(names), vocab_size))]


def write_windows(
    folder: pathlib.Path,
    documents: dict[str, list[list[DocumentTree]]],
    *,
    window_length: int,
    vocab_size: int,
    cut_sentences: bool = False,
    seed: int = 0,
) -> Manifest:
    """Writes window shards of given documents, as a build would.

    Args:
        folder: where they go.
        documents: split -> documents of each shard.
        window_length: positions of a window.
        vocab_size: number of word pieces.
        cut_sentences: whether windows are filled to the last piece.
        seed: seed of the build.
    """
    folder.mkdir(parents=True, exist_ok=True)
    widths = records.number_widths(vocab_size, window_length)
    document_id = 0
    splits = {}
    for split in SPLITS:
        entries = []
        for number, trees in enumerate(documents.get(split, [])):
            items = []
            for tree in trees:
                for window in windows.cut_windows(
                    tree,
                    document_id,
                    capacity=window_length - 2,
                    short_window_rate=0.0,
                    cut_sentences=cut_sentences,
                    seed=seed,
                ):
                    items.append(
                        (window.tree, document_id, window.shuffled_sentence_indices)
                    )
                document_id += 1
            path = folder / f"{split}-{number:05d}.tfrecord"
            entries.append(tree_shards.write_windows(path, items, widths))
        splits[split] = tuple(entries)
    (folder / "vocab.txt").write_text("".join(f"{t}\n" for t in tokens(vocab_size)))
    manifest = Manifest(
        kind="windows",
        vocabulary={
            "file": "vocab.txt",
            "size": vocab_size,
            "sha256": files.checksum(folder / "vocab.txt"),
            "lower_case": True,
            "special_ids": SPECIAL_IDS,
        },
        sentence_splitter={"name": "none", "parameters_sha256": ""},
        options={"seed": seed, "cut_sentences": cut_sentences},
        number_widths=widths,
        window_length=window_length,
        sources=(),
        rejected={},
        splits=splits,
    )
    manifest.save(folder)
    return manifest


def read_windows(folder: pathlib.Path, split: str) -> list[DocumentTree]:
    """All windows of a split, in record order."""
    manifest = Manifest.load(folder)
    return [
        tree
        for shard in manifest.splits[split]
        for tree, _, _ in tree_shards.read_trees(
            folder / shard.file, manifest.number_widths
        )
    ]
