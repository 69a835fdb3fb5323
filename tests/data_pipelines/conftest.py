"""File systems that look remote, and builds that several files test."""

import shutil

import fsspec
import pytest

from seg_tf import remote_files
from tests.data_pipelines import small_corpus
from tests.data_pipelines.failing_files import FailingFileSystem
from tests.worlds import made_once


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    """What fails is tried again at once."""
    monkeypatch.setattr(remote_files, "_PAUSE", 0.001)


@pytest.fixture
def memory():
    """The `memory://` file system, empty before and afterwards."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    yield system
    system.store.clear()


@pytest.fixture
def failing(memory, monkeypatch):
    """The same files as `failing://`, whose connection a test may cut."""
    del memory  # Whose store they share; it is emptied afterwards.
    monkeypatch.setattr(FailingFileSystem, "error", None)
    fsspec.register_implementation("failing", FailingFileSystem, clobber=True)
    return fsspec.filesystem("failing")


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """See `small_corpus.write_random`."""
    return made_once(tmp_path_factory, "corpus", small_corpus.write_random)


@pytest.fixture(scope="session")
def built(corpus, tmp_path_factory):
    return made_once(
        tmp_path_factory, "built", lambda folder: small_corpus.build(corpus, folder)
    )


@pytest.fixture(scope="session")
def cut_built(corpus, built, tmp_path_factory):
    """The same documents, but windows that cut sentences."""

    def write(folder):
        shutil.copytree(built / "documents", folder / "documents")
        small_corpus.build(corpus, folder, window_options=small_corpus.CUT_SENTENCES)

    return made_once(tmp_path_factory, "cut_built", write)
