"""Tiny corpora, records and checkpoints, made once for all processes.

Tests read these folders and never change them. A fixture asks for a folder by name; the
first process writes it.
"""

import os
import pathlib
from collections.abc import Callable

import filelock
import numpy as np
import pytest

# Sizes of `records`.
LENGTH, VOCAB_SIZE = 24, 60


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


def _write_slm(folder: pathlib.Path) -> None:
    from tests.inference import tiny_slm

    tiny_slm.write_checkpoint(folder)


def _write_language_model(folder: pathlib.Path) -> None:
    from tests.inference import tiny_language_model

    tiny_language_model.write_checkpoint(folder)


@pytest.fixture(scope="session")
def records(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Records of windows."""
    return made_once(tmp_path_factory, "window_records", write_records)


@pytest.fixture(scope="session")
def records_without_validation(
    tmp_path_factory: pytest.TempPathFactory,
) -> pathlib.Path:
    """The same without a held-out part."""
    return made_once(
        tmp_path_factory, "unvalidated_records", lambda path: write_records(path, 0)
    )


@pytest.fixture(scope="session")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Output folder of a run of a tiny SLM."""
    return made_once(tmp_path_factory, "slm", _write_slm)


@pytest.fixture(scope="session")
def language_model_dir(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Output folder of a run of a tiny Sega-Transformer-XL."""
    return made_once(tmp_path_factory, "language_model", _write_language_model)
