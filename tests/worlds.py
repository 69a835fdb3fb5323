"""Tiny corpora, records and checkpoints, made once for all processes.

Tests read these folders and never change them. A fixture asks for a folder by name; the
first process writes it.
"""

import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

import filelock
import numpy as np
import pytest

# Sizes of `records`, and of the other ones.
LENGTH, VOCAB_SIZE = 24, 60
NUM_WORDS, SENTENCE_LENGTH, TEXT_LENGTH = 40, 48, 600
# One sentence, one word, five hundred sentences (as many as pieces but for the last:
# every row has to merge), nothing in some lines and in all, one endless sentence.
ODD_TEXTS = (
    "The only sentence here.",
    "word",
    "\n".join(["Go on. Stop! Why?"] * 166 + ["One. Two."]),
    "\u200b\n\u200b \u200b\nA line between.\n\u200b",
    "\u200b",
    "and " * 200 + "so on",
)


def made_once(
    factory: pytest.TempPathFactory, name: str, write: Callable[[pathlib.Path], object]
) -> pathlib.Path:
    """Returns the folder of that name, filled by `write` on first use.

    Args:
        factory: its base folder is shared by all workers.
        name: name of the folder.
        write: fills an empty folder.
    """
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    folder = root / name
    with filelock.FileLock(root / f"{name}.lock"):
        if not folder.exists():
            # A failure leaves a folder of another name.
            unfinished = factory.mktemp(name)
            write(unfinished)
            unfinished.rename(folder)
    return folder


# Many tests run without TensorFlow, which the writers import.


def write_records(folder: pathlib.Path, num_validation: int = 8) -> None:
    """Windows of random documents, some of them held out."""
    from tests.data_pipelines import builders

    generator = np.random.default_rng(0)
    documents = {
        split: [[builders.random_tree(generator, 60, VOCAB_SIZE) for _ in range(count)]]
        for split, count in (("train", 40), ("validation", num_validation))
    }
    builders.write_windows(
        folder, documents, window_length=LENGTH, vocab_size=VOCAB_SIZE
    )


def _write_word_records(folder: pathlib.Path) -> None:
    from tests.data_pipelines import builders

    generator = np.random.default_rng(0)
    documents = {
        split: [[builders.random_tree(generator, 40, NUM_WORDS) for _ in range(count)]]
        for split, count in (("train", 8), ("validation", 4))
    }
    builders.write_word_documents(folder, documents, vocab_size=NUM_WORDS)


def _write_sentence_records(folder: pathlib.Path) -> None:
    from data_pipelines.builds import documents, windows

    with open(folder / "text.jsonl", "w") as file:
        for _ in range(6):  # so that every kind is held out, too
            for text in ODD_TEXTS:
                file.write(json.dumps({"text": text}) + "\n")
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]"]
    letters = [*"abcdefghijklmnopqrstuvwxyz.!?"]
    pieces = [*specials, *letters, *(f"##{one}" for one in letters), "and", "go", "on"]
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    options = documents.DocumentOptions(
        format="json_lines",
        input=str(folder / "text.jsonl"),
        vocab_file=str(folder / "vocab.txt"),
        validation_fraction=0.2,
    )
    documents.build_documents(options, folder / "documents")
    options = windows.WindowOptions(window_length=SENTENCE_LENGTH)
    windows.build_windows(options, folder / "documents", folder)


def _write_slm(folder: pathlib.Path) -> None:
    from tests.inference import tiny_slm

    tiny_slm.write_checkpoint(folder)


def _write_segabert(folder: pathlib.Path) -> None:
    from tests.inference import tiny_windows

    tiny_windows.write_checkpoint(folder, tiny_windows.SEGABERT)


def _write_reat(folder: pathlib.Path) -> None:
    from tests.inference import tiny_reat, tiny_slm

    tiny_slm.write_checkpoint(folder, tiny_reat.CONFIG)


def _write_language_model(folder: pathlib.Path) -> None:
    from tests.inference import tiny_language_model

    tiny_language_model.write_checkpoint(folder)


def _world(name: str, write: Callable[[pathlib.Path], object]) -> Any:
    """Fixture of that name: the folder that `write` fills."""

    def world(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
        return made_once(tmp_path_factory, name, write)

    return pytest.fixture(scope="session", name=name)(world)


# Records: windows, the same without a held-out part, words, odd texts in windows (and
# their documents, in `documents`). Output folders of runs, each with a checkpoint: of
# an SLM, a SegaBERT, a ReAT and a Sega-Transformer-XL.
_RECORDS = _world("records", write_records)
_UNVALIDATED = _world("records_without_validation", lambda path: write_records(path, 0))
_WORDS = _world("word_records", _write_word_records)
_SENTENCES = _world("sentence_records", _write_sentence_records)
_SLM = _world("run_dir", _write_slm)
_SEGABERT = _world("segabert_dir", _write_segabert)
_REAT = _world("reat_dir", _write_reat)
_LANGUAGE_MODEL = _world("language_model_dir", _write_language_model)


@pytest.fixture(scope="session")
def text_records(
    sentence_records: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> pathlib.Path:
    """Windows as long as texts of ReAT, of the documents of `sentence_records`."""
    from data_pipelines.builds import windows

    options = windows.WindowOptions(window_length=TEXT_LENGTH)
    documents = sentence_records / "documents"
    return made_once(
        tmp_path_factory,
        "text_records",
        lambda folder: windows.build_windows(options, documents, folder),
    )
