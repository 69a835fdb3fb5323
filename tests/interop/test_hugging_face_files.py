"""Files of Hugging Face: the hub, PyTorch's pickles, and sharded weights.

A stand-in of the hub's client copies files that match the patterns, as the client does,
into a folder named after a commit. PyTorch's stand-in reads safetensors, since the
project does not install PyTorch.
"""

import fnmatch
import importlib.machinery
import json
import os
import pickle
import shutil
import sys
import types

import huggingface_hub
import numpy as np
import pytest
import safetensors.numpy
from huggingface_hub import constants

from seg_tf.checkpoints.errors import CheckpointError
from seg_tf.finetuning import TextClassifier
from seg_tf.inference.sentence_encoder import SentenceEncoder
from seg_tf.interop import convert, hugging_face
from seg_tf.interop.weights import ForeignWeightsError
from tests.interop import foreign_files

QUERY = "bert.encoder.layer.1.attention.self.query.weight"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """The hub's client, for one model."""

    def __init__(self, source, cache):
        self.source, self.folder, self.calls = source, cache / COMMIT, []

    def snapshot_download(self, repo_id, revision=None, allow_patterns=None):
        self.calls.append((repo_id, revision))
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in self.source.rglob("*"):
            name = path.relative_to(self.source)
            matches = any(fnmatch.fnmatch(str(name), one) for one in allow_patterns)
            if path.is_file() and matches:
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, self.folder / name)
        return str(self.folder)

    def downloaded(self):
        paths = sorted(self.folder.rglob("*"))
        return [str(one.relative_to(self.folder)) for one in paths if one.is_file()]


@pytest.fixture(name="serve")
def _serve(tmp_path, monkeypatch):
    """Serves a folder as the model of the hub."""

    def serve(source):
        hub = Hub(source, tmp_path / "cache" / source.name)
        monkeypatch.setattr(huggingface_hub, "snapshot_download", hub.snapshot_download)
        return hub

    return serve


class Tensor:
    """The methods of `torch.Tensor` that are called."""

    def __init__(self, value):
        self.value = np.asarray(value)
        self.shape, self.dtype = self.value.shape, self.value.dtype

    def is_floating_point(self):
        return self.value.dtype.kind == "f"

    def float(self):
        return Tensor(self.value.astype(np.float32))

    def numpy(self):
        return self.value


class Torch(types.ModuleType):
    Tensor = Tensor
    __version__ = "2.6.0+cpu"
    __spec__ = importlib.machinery.ModuleSpec("torch", None)

    def __init__(self):
        super().__init__("torch")
        self.__spec__ = Torch.__spec__
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
    stand_in = Torch()
    monkeypatch.setitem(sys.modules, "torch", stand_in)
    return stand_in


TENSORS = foreign_files.hugging_face_tensors


def write_model(folder, name="model.safetensors"):
    foreign_files.write_hugging_face(folder, TENSORS())
    (folder / "model.safetensors").rename(folder / name)
    return folder


def write_shards(folder, name):
    """The tensors in two files, alternating, with an index."""
    write_model(folder, name).joinpath(name).unlink()
    tensors, (stem, _, ending) = TENSORS(), name.partition(".")
    shards = [f"{stem}-0000{number}-of-00002.{ending}" for number in (1, 2)]
    weight_map = {one: shards[i % 2] for i, one in enumerate(sorted(tensors))}
    for shard in shards:
        part = {one: tensors[one] for one in tensors if weight_map[one] == shard}
        safetensors.numpy.save_file(part, folder / shard)
    index = {"metadata": {"total_size": 1}, "weight_map": weight_map}
    (folder / f"{name}.index.json").write_text(json.dumps(index))
    return folder


def assert_same(foreign):
    assert set(foreign.store.shapes) == set(TENSORS())
    for name, value in TENSORS().items():
        assert foreign.store.shapes[name] == value.shape
        np.testing.assert_array_equal(foreign.store.read(name), value)


# === The hub ===


def test_only_necessary_files_are_downloaded(tmp_path, serve):
    folder = write_model(tmp_path / "theirs")
    for name in ("pytorch_model.bin", "tf_model.h5", "flax_model.msgpack", "README.md"):
        (folder / name).write_bytes(b"large")
    hub = serve(folder)
    foreign = convert.open_model("hf://org/name")
    assert hub.downloaded() == ["config.json", "model.safetensors", "vocab.txt"]
    # The weights are of the config's commit.
    assert hub.calls == [("org/name", None), ("org/name", COMMIT)]
    assert foreign.notes == (f"downloaded as hf://org/name, revision {COMMIT}",)
    convert.open_model("hf://bert-base_x.1@refs/pr/2")
    assert hub.calls[2] == ("bert-base_x.1", "refs/pr/2")


def test_pickles_are_downloaded_if_pytorch_is_installed(
    tmp_path, serve, monkeypatch, torch
):
    hub = serve(write_model(tmp_path / "theirs", "pytorch_model.bin"))
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ForeignWeightsError, match=r"PyTorch is not installed$"):
        convert.download("hf://org/name")
    assert hub.downloaded() == ["config.json", "vocab.txt"]
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert convert.download("hf://org/name") == hub.folder
    assert "pytorch_model.bin" in hub.downloaded()


def test_google_s_format_on_the_hub(tmp_path, serve):
    google = foreign_files.write_google(tmp_path / "google")
    hub = serve(google)
    assert convert.open_model("hf://org/google").format == "google"
    assert hub.downloaded() == sorted(path.name for path in google.iterdir())


def test_weights_of_unreadable_models_are_not_downloaded(tmp_path, serve):
    tensors = foreign_files.hugging_face_tensors()
    folder = foreign_files.write_hugging_face(
        tmp_path / "theirs", tensors, model_type="roberta"
    )
    hub = serve(folder)
    with pytest.raises(ForeignWeightsError, match="`model_type` must be 'bert'"):
        convert.open_model("hf://org/name")
    assert "model.safetensors" not in hub.downloaded()
    (tmp_path / "empty").mkdir()
    serve(tmp_path / "empty")
    with pytest.raises(ForeignWeightsError, match=r"hf://org/name must have config\.j"):
        convert.open_model("hf://org/name")


@pytest.mark.parametrize(
    "url", ["hf://", "hf://a/b/c", "hf://a b", "hf:///etc", "hf://a/b@", "hf://a/b@x y"]
)
def test_invalid_names(url, monkeypatch):
    monkeypatch.setattr(huggingface_hub, "snapshot_download", None)
    with pytest.raises(ForeignWeightsError, match="must be hf://organisation/name"):
        convert.download(url)


@pytest.mark.parametrize(
    ("offline", "name", "reason"),
    [
        (False, "org/name", "ConnectError: "),
        (True, "org/name", "OfflineModeIsEnabled"),
        (False, "org/a--b", "HFValidationError: "),
    ],
)
def test_failed_downloads_are_one_line(tmp_path, monkeypatch, offline, name, reason):
    """The client itself, with a port that is closed."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
    with pytest.raises(ForeignWeightsError) as raised:
        convert.download(f"hf://{name}")
    message = str(raised.value)
    assert message.startswith(f"hf://{name} could not be downloaded, and is not in the")
    assert reason in message
    assert "\n" not in message


# === PyTorch ===


def test_pytorch_reads_tensors_only(tmp_path, torch):
    folder = write_model(tmp_path / "theirs", "pytorch_model.bin")
    foreign = hugging_face.read(folder)
    options = {"map_location": "cpu", "weights_only": True}
    assert torch.calls == [("pytorch_model.bin", options)]
    assert_same(foreign)
    assert [path.name for path in foreign.files] == ["pytorch_model.bin"]
    # Safetensors come first.
    (folder / "pytorch_model.bin").rename(folder / "model.safetensors")
    (folder / "pytorch_model.bin").write_bytes(b"no pickle")
    assert_same(hugging_face.read(folder))
    assert len(torch.calls) == 1


def test_the_error_without_pytorch_names_both_ways(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    folder = write_model(tmp_path / "theirs", "pytorch_model.bin")
    with pytest.raises(ForeignWeightsError, match=r"Install torch.*torch.save_file"):
        hugging_face.read(folder)
    (folder / "pytorch_model.bin").rename(folder / "segabert.pt")
    with pytest.raises(ForeignWeightsError, match=r"which has neither$"):
        hugging_face.read(folder)


@pytest.mark.parametrize("version", ["2.5.1", "1.13.0a0", "unknown"])
def test_old_versions_of_pytorch_are_refused(tmp_path, torch, version):
    torch.__version__ = version
    folder = write_model(tmp_path / "theirs", "pytorch_model.bin")
    with pytest.raises(ForeignWeightsError, match=rf"2\.6 or newer .*{version}"):
        hugging_face.read(folder)
    assert not torch.calls


def test_pickles_without_tensors(tmp_path, torch):
    folder = write_model(tmp_path / "theirs", "pytorch_model.bin")
    path = folder / "pytorch_model.bin"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ForeignWeightsError, match=r"cut short .*: Weights only load f"):
        hugging_face.read(folder)
    for content, found in (
        ([1], "list"),
        ({"model": {}}, "'model', dict"),
        ({3: Tensor(1.0)}, "3, float64"),
        ({QUERY: Tensor(1)}, f"{QUERY!r}, int64"),
    ):
        torch.load = lambda path, content=content, **arguments: content
        with pytest.raises(ForeignWeightsError, match="tensors by name") as raised:
            hugging_face.read(folder)
        assert found in str(raised.value)


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_files_of_the_real_pytorch(tmp_path, dtype, legacy):
    torch = pytest.importorskip("torch")
    rounded = {
        name: torch.tensor(value).to(getattr(torch, dtype))
        for name, value in TENSORS().items()
    }
    folder = write_model(tmp_path / "theirs", "pytorch_model.bin")
    path = folder / "pytorch_model.bin"
    torch.save(rounded, path, _use_new_zipfile_serialization=not legacy)
    foreign = hugging_face.read(folder)
    for name, value in rounded.items():
        np.testing.assert_array_equal(foreign.store.read(name), value.float().numpy())
    torch.save({"model": os.system}, path)
    with pytest.raises(ForeignWeightsError, match="cut short"):
        hugging_face.read(folder)


# === Shards ===


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_sharded_weights(tmp_path, torch, name):
    foreign = hugging_face.read(write_shards(tmp_path / "theirs", name))
    assert_same(foreign)
    assert foreign.files[0].name == f"{name}.index.json"
    assert len(foreign.files) == 3
    assert len(torch.calls) == (2 if name.endswith("bin") else 0)


def test_wrong_indexes_of_shards(tmp_path):
    folder = write_shards(tmp_path / "theirs", "model.safetensors")
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    weight_map = index["weight_map"]
    first, second = sorted(set(weight_map.values()))
    for content, message in (
        ([], "must be a JSON object"),
        ({"weight_map": {QUERY: "../elsewhere"}}, "files in the same folder"),
        ({"weight_map": {QUERY: 3}}, "files in the same folder. Found: .*3"),
        ({"weight_map": weight_map | {"more": first}}, "have the tensor 'more'"),
    ):
        path.write_text(json.dumps(content))
        with pytest.raises(ForeignWeightsError, match=message):
            hugging_face.read(folder)
    path.write_text(json.dumps(index))
    (folder / second).unlink()
    with pytest.raises(FileNotFoundError, match=second):
        hugging_face.read(folder)


# === from_preset ===


def test_from_preset_takes_models_of_other_programs(tmp_path, serve, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    outputs = np.load(foreign_files.HUGGING_FACE_DIR / "outputs.npz")
    folder = tmp_path / "theirs"
    shutil.copytree(foreign_files.HUGGING_FACE_DIR, folder)
    classifier = TextClassifier.from_preset(folder, num_classes=2, seed=1)
    features = {
        **foreign_files.position_features(
            outputs["token_ids"], outputs["mask"].astype(bool)
        ),
        "token_type": outputs["token_types"],
    }
    np.testing.assert_allclose(
        np.asarray(classifier.encoder(features))[outputs["mask"] > 0],
        outputs["sequence"][outputs["mask"] > 0],
        atol=1e-5,
    )
    # As in transformers, the head starts with the pretrained pooler.
    pooler = TENSORS()["bert.pooler.dense.weight"].T
    np.testing.assert_array_equal(classifier.pooler.kernel, pooler)
    expected = SentenceEncoder.from_preset(folder).encode(["w1 w2"])
    hub = serve(folder)
    found = SentenceEncoder.from_preset("hf://org/name").encode(["w1 w2"])
    np.testing.assert_array_equal(found, expected)
    # Conversions are cached, and changed files are converted again.
    monkeypatch.setattr(convert, "convert", None)
    SentenceEncoder.from_preset(folder)
    SentenceEncoder.from_preset("hf://org/name")
    assert len(hub.calls) == 4
    os.utime(folder / "vocab.txt", (1, 1))
    with pytest.raises(TypeError):
        SentenceEncoder.from_preset(folder)
    with pytest.raises(CheckpointError, match="must be a checkpoint"):
        SentenceEncoder.from_preset(tmp_path / "cache")
