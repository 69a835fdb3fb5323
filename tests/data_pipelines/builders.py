"""Small sets of records for tests, made without any text."""

import itertools
import pathlib

import numpy as np

from data_pipelines.builds import windows
from seg_tf import files
from seg_tf.data import examples, record_schema
from seg_tf.data.manifest import SPLITS, Manifest
from seg_tf.text.encoding import SENTENCE_PARAMETERS_FILE
from seg_tf.text.punkt_parameters import PunktParameters
from seg_tf.text.tree import DocumentTree

SPECIAL_IDS = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
FIRST_PIECE = 10
WORD_IDS = {"eos": 0, "unk": 1}


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
    widths = record_schema.number_widths(vocab_size, window_length)
    options = windows.WindowOptions(
        window_length=window_length,
        short_window_rate=0.0,
        cut_sentences=cut_sentences,
        seed=seed,
    )
    document_id = 0
    splits = {}
    for split in SPLITS:
        entries = []
        for number, trees in enumerate(documents.get(split, [])):
            items = []
            for tree in trees:
                items += [
                    (window, document_id, permutation)
                    for window, permutation in windows.cut_windows(
                        tree, document_id, options
                    )
                ]
                document_id += 1
            path = folder / f"{split}-{number:05d}.tfrecord"
            entries.append(examples.write_windows(path, items, widths))
        splits[split] = tuple(entries)
    return _save_manifest(
        folder,
        tokens(vocab_size),
        {"lower_case": True, "special_ids": SPECIAL_IDS, "tokenizer": "word_pieces"},
        kind="windows",
        options={"seed": seed, "cut_sentences": cut_sentences},
        number_widths=widths,
        window_length=window_length,
        splits=splits,
    )


def write_word_documents(
    folder: pathlib.Path,
    documents: dict[str, list[list[DocumentTree]]],
    *,
    vocab_size: int,
) -> Manifest:
    """Writes shards of whole documents of words, as a build would.

    Args:
        folder: where they go.
        documents: split -> documents of each shard, without ends of paragraphs.
        vocab_size: number of words.
    """
    folder.mkdir(parents=True, exist_ok=True)
    widths = record_schema.number_widths(vocab_size, None)
    document_ids = itertools.count()
    splits = {}
    for split in SPLITS:
        splits[split] = tuple(
            examples.write_trees(
                folder / f"{split}-{number:05d}.tfrecord",
                [
                    (tree.with_paragraph_ends(WORD_IDS["eos"]), document_id, None)
                    for tree, document_id in zip(trees, document_ids, strict=False)
                ],
                widths,
            )
            for number, trees in enumerate(documents.get(split, []))
        )
    words = [*(f"<{name}>" for name in WORD_IDS)]
    words += [f"w{number}" for number in range(len(words), vocab_size)]
    return _save_manifest(
        folder,
        words,
        {"lower_case": False, "special_ids": WORD_IDS, "tokenizer": "words"},
        kind="documents",
        options={},
        number_widths=widths,
        window_length=None,
        splits=splits,
    )


def _save_manifest(
    folder: pathlib.Path, tokens: list[str], vocabulary: dict, **fields
) -> Manifest:
    """Writes the vocabulary and the manifest beside shards."""
    path = folder / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in tokens))
    parameters = PunktParameters(name="none")
    (folder / SENTENCE_PARAMETERS_FILE).write_bytes(parameters.to_bytes())
    manifest = Manifest(
        vocabulary={
            "file": path.name,
            "size": len(tokens),
            "sha256": files.checksum(path),
            **vocabulary,
        },
        sentence_splitter={
            "name": parameters.name,
            "parameters_sha256": parameters.checksum,
        },
        sources=(),
        rejected={},
        **fields,
    )
    manifest.save(folder)
    return manifest


def read_split(folder: pathlib.Path, split: str) -> list[DocumentTree]:
    """All trees of a split, in record order."""
    manifest = Manifest.load(folder)
    return [
        tree
        for shard in manifest.splits[split]
        for tree, _, _ in examples.read_trees(
            folder / shard.file, manifest.number_widths
        )
    ]


def read_all(folder: pathlib.Path) -> list[DocumentTree]:
    """All trees of all splits, split after split."""
    return [tree for split in SPLITS for tree in read_split(folder, split)]
