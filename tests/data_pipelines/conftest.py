"""File systems that look remote."""

import fsspec
import pytest

from tests.data_pipelines.failing_files import FailingFileSystem


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
