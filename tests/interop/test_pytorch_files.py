"""PyTorch's files, and weights in several files.

Most tests have a stand-in in place of PyTorch, which the project does not install: it
unpickles nothing and says with which arguments it was called. Those named after the
real one run where it is.
"""

import json
import os
import pickle
import sys
import types

import numpy as np
import pytest
import safetensors.numpy

from seg_tf.interop import hugging_face
from seg_tf.interop.weights import ForeignWeightsError
from tests.interop import foreign_files

QUERY = "bert.encoder.layer.1.attention.self.query.weight"


class Tensor:
    """As much of `torch.Tensor` as is called."""

    def __init__(self, value):
        self.value = np.asarray(value)
        self.shape, self.dtype = self.value.shape, self.value.dtype

    def is_floating_point(self):
        return self.value.dtype.kind == "f"

    def detach(self):
        return self

    def float(self):
        return Tensor(self.value.astype(np.float32))

    def numpy(self):
        return self.value


class StandIn(types.ModuleType):
    """A PyTorch whose files hold safetensors, so that no test needs a pickle."""

    Tensor = Tensor
    __version__ = "2.6.0+cpu"

    def __init__(self):
        super().__init__("torch")
        self.calls = []

    def load(self, path, **arguments):
        self.calls.append((path.name, arguments))
        try:
            tensors = safetensors.numpy.load_file(path)
        except safetensors.SafetensorError as error:
            raise pickle.UnpicklingError("Weights only load failed. Do it.") from error
        return {name: Tensor(value) for name, value in tensors.items()}


@pytest.fixture(name="torch")
def _torch(monkeypatch):
    stand_in = StandIn()
    monkeypatch.setitem(sys.modules, "torch", stand_in)
    return stand_in


def write_pytorch(folder, tensors):
    foreign_files.write_hugging_face(folder, tensors)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    return folder


def write_shards(folder, name, save, tensors):
    """The tensors in two files, every second in each, with an index."""
    foreign_files.write_hugging_face(folder, tensors)
    (folder / "model.safetensors").unlink()
    stem, _, ending = name.partition(".")
    shards = [f"{stem}-0000{number}-of-00002.{ending}" for number in (1, 2)]
    weight_map = {one: shards[i % 2] for i, one in enumerate(sorted(tensors))}
    for shard in shards:
        save(
            {one: tensors[one] for one in tensors if weight_map[one] == shard},
            folder / shard,
        )
    index = {"metadata": {"total_size": 1}, "weight_map": weight_map}
    (folder / f"{name}.index.json").write_text(json.dumps(index))
    return folder


def assert_same(foreign, tensors):
    assert set(foreign.store.shapes) == set(tensors)
    for name, value in tensors.items():
        assert foreign.store.shapes[name] == value.shape
        np.testing.assert_array_equal(foreign.store.read(name), value)


def test_pytorch_reads_weights_alone(tmp_path, torch):
    tensors = foreign_files.hugging_face_tensors()
    foreign = hugging_face.read(write_pytorch(tmp_path / "theirs", tensors))
    assert torch.calls == [
        ("pytorch_model.bin", {"map_location": "cpu", "weights_only": True})
    ]
    assert_same(foreign, tensors)
    assert [path.name for path in foreign.files] == ["pytorch_model.bin"]


def test_safetensors_come_before_pickles(tmp_path, torch):
    tensors = foreign_files.hugging_face_tensors()
    folder = foreign_files.write_hugging_face(tmp_path / "theirs", tensors)
    (folder / "pytorch_model.bin").write_bytes(b"no pickle")
    assert_same(hugging_face.read(folder), tensors)
    assert not torch.calls


def test_without_pytorch_the_error_names_both_ways(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    folder = write_pytorch(tmp_path / "theirs", foreign_files.hugging_face_tensors())
    with pytest.raises(ForeignWeightsError) as raised:
        hugging_face.read(folder)
    for part in (
        "`--from` must hold model.safetensors, or pytorch_model.bin where PyTorch is",
        "Install PyTorch (the package torch)",
        "safetensors.torch.save_file({name: tensor.clone() for name, tensor in",
    ):
        assert part in str(raised.value)
    (folder / "pytorch_model.bin").rename(folder / "segabert.pt")
    with pytest.raises(ForeignWeightsError, match=r"which has none$"):
        hugging_face.read(folder)


@pytest.mark.parametrize("version", ["2.5.1", "1.13.0a0", "unknown"])
def test_old_versions_of_pytorch_are_refused(tmp_path, torch, version):
    torch.__version__ = version
    folder = write_pytorch(tmp_path / "theirs", foreign_files.hugging_face_tensors())
    with pytest.raises(ForeignWeightsError, match=r"must be 2\.6 or newer") as raised:
        hugging_face.read(folder)
    assert version in str(raised.value)
    assert not torch.calls


def test_what_is_no_file_of_tensors(tmp_path, torch):
    folder = write_pytorch(tmp_path / "theirs", foreign_files.hugging_face_tensors())
    path = folder / "pytorch_model.bin"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ForeignWeightsError, match=r"cut short .*: Weights only load f"):
        hugging_face.read(folder)
    for content, found in (
        ([1], "of list"),
        ({"model": {}}, "'model', of dict"),
        ({3: Tensor(1.0)}, "3, of Tensor"),
    ):
        torch.load = lambda path, content=content, **arguments: content
        with pytest.raises(ForeignWeightsError, match="tensors by name") as raised:
            hugging_face.read(folder)
        assert found in str(raised.value)


def test_integers_are_no_weights(tmp_path, torch):
    tensors = foreign_files.hugging_face_tensors()
    tensors[QUERY] = tensors[QUERY].astype("int32")
    foreign = hugging_face.read(write_pytorch(tmp_path / "theirs", tensors))
    with pytest.raises(ForeignWeightsError, match=r"floating-point .* int32") as raised:
        foreign.store.read(QUERY)
    assert repr(QUERY) in str(raised.value)


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_weights_in_several_files(tmp_path, torch, name):
    tensors = foreign_files.hugging_face_tensors()
    save = safetensors.numpy.save_file
    folder = write_shards(tmp_path / "theirs", name, save, tensors)
    foreign = hugging_face.read(folder)
    assert_same(foreign, tensors)
    assert foreign.files[0].name == f"{name}.index.json"
    assert len(foreign.files) == 3
    assert len(torch.calls) == (2 if name.endswith("bin") else 0)


def test_wrong_indexes_of_several_files(tmp_path):
    tensors = foreign_files.hugging_face_tensors()
    save = safetensors.numpy.save_file
    folder = write_shards(tmp_path / "theirs", "model.safetensors", save, tensors)
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    weight_map = index["weight_map"]
    first, second = sorted(set(weight_map.values()))
    for content, said in (
        ("{", "not valid JSON"),
        ([], "must hold a JSON object"),
        (
            {"weight_map": {QUERY: "../elsewhere"}},
            "`weight_map` must be of names of files beside it. Found: ",
        ),
        ({"weight_map": {QUERY: 3}}, "of names of files beside it. Found: .*3"),
        ({"weight_map": weight_map | {"more": first}}, "the tensor 'more' must be"),
    ):
        path.write_text(content if content == "{" else json.dumps(content))
        with pytest.raises(ForeignWeightsError, match=said):
            hugging_face.read(folder)
    path.write_text(json.dumps(index))
    (folder / second).unlink()
    with pytest.raises(FileNotFoundError, match=second):
        hugging_face.read(folder)


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_files_of_the_real_pytorch(tmp_path, dtype, legacy):
    torch = pytest.importorskip("torch")
    folder = tmp_path / "theirs"
    rounded = {
        name: torch.tensor(value).to(getattr(torch, dtype))
        for name, value in foreign_files.hugging_face_tensors().items()
    }
    foreign_files.write_hugging_face(folder, foreign_files.hugging_face_tensors())
    (folder / "model.safetensors").unlink()
    torch.save(
        rounded,
        folder / "pytorch_model.bin",
        _use_new_zipfile_serialization=not legacy,
    )
    expected = {name: value.float().numpy() for name, value in rounded.items()}
    assert_same(hugging_face.read(folder), expected)


class Intruder:
    """Makes a folder where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_the_real_pytorch_runs_no_code(tmp_path):
    torch = pytest.importorskip("torch")
    folder = tmp_path / "theirs"
    tensors = foreign_files.hugging_face_tensors()
    foreign_files.write_hugging_face(folder, tensors)
    (folder / "model.safetensors").unlink()
    intruded = tmp_path / "intruded"
    torch.save({"weight": Intruder(intruded)}, folder / "pytorch_model.bin")
    with pytest.raises(ForeignWeightsError, match="no PyTorch file of tensors alone"):
        hugging_face.read(folder)
    assert not intruded.exists()
