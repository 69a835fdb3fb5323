"""Files of Hugging Face: the hub, sharded weights, and `from_preset`.

A stand-in of the hub's client copies files that match the patterns, as the client does,
into a folder named after a commit.
"""

import fnmatch
import json
import os
import shutil

import huggingface_hub
import numpy as np
import pytest
import safetensors.numpy
from huggingface_hub import constants

from seg_tf.checkpoints.weight_files import CheckpointError
from seg_tf.finetuning import TextClassifier
from seg_tf.inference.sentence_encoder import SentenceEncoder
from seg_tf.interop import convert, hugging_face
from seg_tf.interop.weights import ForeignWeightsError
from tests.interop import foreign_files
from tests.interop.foreign_files import write_hugging_face
from tests.interop.test_weights_in import encode

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


TENSORS = foreign_files.hugging_face_tensors


# === The hub ===


def test_only_necessary_files_are_downloaded(tmp_path, serve):
    folder = write_hugging_face(tmp_path / "theirs")
    for name in ("pytorch_model.bin", "tf_model.h5", "flax_model.msgpack", "README.md"):
        (folder / name).write_bytes(b"large")
    (folder / "added_tokens.json").write_text("{}")
    settings = json.loads((folder / "config.json").read_text())
    settings["attention_probs_dropout_prob"] = 0.3
    (folder / "config.json").write_text(json.dumps(settings))
    hub = serve(folder)
    foreign = convert.open_model("hf://org/name")
    assert foreign.source == str(hub.folder)
    assert (foreign.model.dropout, foreign.model.attention_dropout) == (0.1, 0.3)
    names = ["added_tokens.json", "config.json", "model.safetensors", "vocab.txt"]
    assert hub.downloaded() == names
    # The weights are of the config's commit.
    assert hub.calls == [("org/name", None), ("org/name", COMMIT)]
    convert.open_model("hf://bert-base_x.1@refs/pr/2")
    assert hub.calls[2] == ("bert-base_x.1", "refs/pr/2")
    google = foreign_files.write_google(tmp_path / "google")
    hub = serve(google)
    assert convert.open_model("hf://org/google").format == "google"
    assert hub.downloaded() == sorted(path.name for path in google.iterdir())


def test_weights_of_unreadable_models_are_not_downloaded(tmp_path, serve):
    hub = serve(write_hugging_face(tmp_path / "theirs", model_type="roberta"))
    with pytest.raises(ForeignWeightsError, match="`model_type` must be 'bert'"):
        convert.open_model("hf://org/name")
    assert "model.safetensors" not in hub.downloaded()
    (tmp_path / "empty").mkdir()
    serve(tmp_path / "empty")
    with pytest.raises(ForeignWeightsError, match=r"hf://org/name, a folder with none"):
        convert.open_model("hf://org/name")


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


# === Files of weights ===


def test_sharded_weights(tmp_path):
    folder = write_hugging_face(tmp_path / "theirs")
    (folder / "model.safetensors").unlink()
    shards = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    weight_map = {name: shards[n % 2] for n, name in enumerate(sorted(TENSORS()))}
    for shard in shards:
        part = {
            name: TENSORS()[name] for name in weight_map if weight_map[name] == shard
        }
        safetensors.numpy.save_file(part, folder / shard)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    foreign = hugging_face.read(folder)
    np.testing.assert_equal(dict(foreign.tensors), TENSORS())
    assert [path.name for path in foreign.files] == [index.name, *shards]
    (folder / shards[1]).unlink()
    with pytest.raises(FileNotFoundError, match=shards[1]):
        hugging_face.read(folder)
    index.write_text(json.dumps({"weight_map": {"a": "../elsewhere"}}))
    with pytest.raises(ForeignWeightsError, match="must name files next to it"):
        hugging_face.read(folder)


def test_pickles_are_for_others_to_convert(tmp_path):
    folder = write_hugging_face(tmp_path / "theirs")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ForeignWeightsError, match=r"must have model\.s.*torch\.save_f"):
        hugging_face.read(folder)


# === from_preset ===


def test_from_preset_takes_models_of_other_programs(tmp_path, serve, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    outputs = np.load(foreign_files.HUGGING_FACE_DIR / "outputs.npz")
    folder = tmp_path / "theirs"
    shutil.copytree(foreign_files.HUGGING_FACE_DIR, folder)
    classifier = TextClassifier.from_preset(folder, num_classes=2, seed=1)
    mask = outputs["mask"].astype(bool)
    found = encode(classifier, outputs["token_ids"], outputs["token_types"], mask)
    np.testing.assert_allclose(found[mask], outputs["sequence"][mask], atol=1e-5)
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
    rule = "^`preset` must be a checkpoint .* `from_preset` takes directly"
    with pytest.raises(CheckpointError, match=rule):
        SentenceEncoder.from_preset(tmp_path / "cache")
