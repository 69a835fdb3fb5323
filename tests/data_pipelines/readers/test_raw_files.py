"""Remote files: read as local ones, and an error that stops instead of a rejection."""

import bz2
import gzip
import json

import pytest

from data_pipelines import readers
from data_pipelines.readers import streams
from tests.data_pipelines.failing_files import FailingFileSystem

LINES = "".join(json.dumps({"text": f"Line {n}."}) + "\n" for n in range(20_000))


def collect(items, into):
    """Keeps what was read, even if reading ends in an error."""
    for item in items:
        into.append(item)


def test_remote_files_are_read_as_local_ones(tmp_path, memory):
    contents = {
        "a.jsonl": LINES.encode(),
        "b/c.jsonl.gz": gzip.compress(LINES.encode()),
        "b/d.jsonl.bz2": bz2.compress(b"\xef\xbb\xbf" + LINES.encode()),
        "b/e.jsonl.gz": gzip.compress(LINES.encode())[:-50],
        "b/f.txt": b"of another format",
        ".g.jsonl": b"hidden",
    }
    for name, data in contents.items():
        memory.pipe(f"/corpus/{name}", data)
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    reader = readers.get_reader("json_lines")
    local = list(reader.read_input(tmp_path))
    assert list(reader.read_input("memory://corpus")) == local
    assert len(local) > 60_000
    assert local[-1].reason == "truncated_gzip"
    sizes = [path.stat().st_size for path in reader.files("memory://corpus")]
    assert sizes == [path.stat().st_size for path in reader.files(tmp_path)]


@pytest.mark.parametrize(
    "error", [ConnectionError, TimeoutError, PermissionError, RuntimeError]
)
@pytest.mark.parametrize("name", ["file.jsonl", "file.jsonl.gz"])
def test_lost_connection_stops_instead_of_rejecting(failing, monkeypatch, error, name):
    monkeypatch.setattr(FailingFileSystem, "error", error("the connection was reset"))
    data = LINES.encode()
    if name.endswith(".gz"):
        data = gzip.compress(data, compresslevel=0)
    failing.pipe(f"/{name}", data)
    items = readers.get_reader("json_lines").read_input(f"failing://{name}")
    with pytest.raises(streams.UnreachableError, match=f"{error.__name__}.*again"):
        collect(items, read := [])
    assert read, "what precedes"
    assert all(isinstance(item, readers.Document) for item in read)
