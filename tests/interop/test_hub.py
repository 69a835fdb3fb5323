"""Models of the hub, behind a stand-in of its client; no test asks a hub.

The stand-in copies files that match the patterns, as the client does, into a folder
named after a commit.
"""

import fnmatch
import shutil
import sys

import huggingface_hub
import numpy as np
import pytest
from huggingface_hub import constants

from seg_tf.checkpoints.pretrained import load_encoder
from seg_tf.commands import import_weights
from seg_tf.interop import convert
from seg_tf.interop.weights import ForeignWeightsError
from tests import command_calls
from tests.interop import foreign_files

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """The hub's client, of one model."""

    def __init__(self, source, cache):
        self.source, self.folder, self.calls = source, cache / COMMIT, []

    def snapshot_download(self, repo_id, revision=None, allow_patterns=None):
        self.calls.append((repo_id, revision))
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in self.source.rglob("*"):
            name = path.relative_to(self.source)
            wanted = any(fnmatch.fnmatch(str(name), one) for one in allow_patterns)
            if path.is_file() and wanted:
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, self.folder / name)
        return str(self.folder)

    def downloaded(self):
        paths = sorted(self.folder.rglob("*"))
        return [str(one.relative_to(self.folder)) for one in paths if one.is_file()]


@pytest.fixture(name="serve")
def _serve(tmp_path, monkeypatch):
    """Makes a folder the model of the hub."""

    def serve(source):
        stand_in = Hub(source, tmp_path / "cache" / "snapshots")
        monkeypatch.setattr(
            huggingface_hub, "snapshot_download", stand_in.snapshot_download
        )
        return stand_in

    return serve


def hugging_face(tmp_path):
    """A model with files that nobody reads."""
    folder = foreign_files.write_hugging_face(
        tmp_path / "theirs", foreign_files.hugging_face_tensors()
    )
    for name in ("pytorch_model.bin", "tf_model.h5", "flax_model.msgpack", "README.md"):
        (folder / name).write_bytes(b"large")
    return folder


def test_only_what_is_read_is_downloaded(tmp_path, serve):
    stand_in = serve(hugging_face(tmp_path))
    foreign = convert.open_model("hf://org/name")
    assert stand_in.downloaded() == ["config.json", "model.safetensors", "vocab.txt"]
    # Weights are those of the commit that the config was of.
    assert stand_in.calls == [("org/name", None), ("org/name", COMMIT)]
    assert foreign.notes == (f"downloaded as hf://org/name, revision {COMMIT}",)


def test_a_revision_is_asked_for(tmp_path, serve):
    stand_in = serve(hugging_face(tmp_path))
    convert.open_model("hf://bert-base_x.1@refs/pr/2")
    assert stand_in.calls[0] == ("bert-base_x.1", "refs/pr/2")


def test_pickles_are_downloaded_where_pytorch_is(tmp_path, serve, monkeypatch):
    folder = hugging_face(tmp_path)
    (folder / "model.safetensors").unlink()
    stand_in = serve(folder)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ForeignWeightsError, match=r"PyTorch is not installed$"):
        convert.download("hf://org/name")
    assert stand_in.downloaded() == ["config.json", "vocab.txt"]
    monkeypatch.setitem(sys.modules, "torch", object())
    assert convert.download("hf://org/name") == stand_in.folder
    assert "pytorch_model.bin" in stand_in.downloaded()


def test_other_formats_of_the_hub(tmp_path, serve):
    google = foreign_files.write_google(tmp_path / "google")
    stand_in = serve(google)
    assert convert.open_model("hf://org/google").format == "google"
    assert stand_in.downloaded() == sorted(
        path.name for path in google.iterdir() if path.suffix != ".meta"
    )


def test_models_that_cannot_be_read_cost_no_weights(tmp_path, serve):
    folder = foreign_files.write_hugging_face(
        tmp_path / "theirs",
        foreign_files.hugging_face_tensors(),
        model_type="roberta",
    )
    stand_in = serve(folder)
    with pytest.raises(ForeignWeightsError, match="`model_type` must be 'bert'"):
        convert.open_model("hf://org/name")
    assert "model.safetensors" not in stand_in.downloaded()
    (tmp_path / "empty").mkdir()
    serve(tmp_path / "empty").folder /= "empty"
    with pytest.raises(
        ForeignWeightsError, match=r"hf://org/name must have config\.js"
    ):
        convert.open_model("hf://org/name")


@pytest.mark.parametrize(
    "url", ["hf://", "hf://a/b/c", "hf://a b", "hf:///etc", "hf://a/b@", "hf://a/b@x y"]
)
def test_names_that_are_none(url, monkeypatch):
    monkeypatch.setattr(huggingface_hub, "snapshot_download", None)
    with pytest.raises(ForeignWeightsError, match="must be hf://organisation/name"):
        convert.download(url)


def test_names_that_the_hub_refuses():
    with pytest.raises(ForeignWeightsError, match=r"HFValidationError: .*a--b"):
        convert.download("hf://org/a--b")


def test_without_a_network_one_line_names_the_model(tmp_path, monkeypatch):
    """The client itself, which finds nobody at a port that is closed."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    with pytest.raises(ForeignWeightsError) as raised:
        convert.download("hf://org/name")
    message = str(raised.value)
    assert message.startswith(
        "hf://org/name could not be downloaded, and is not in the cache: ConnectError: "
    )
    assert "HF_ENDPOINT=http://127.0.0.1:9, HF_HUB_OFFLINE=unset" in message
    assert "\n" not in message


def test_without_leave_to_go_online(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ForeignWeightsError, match=r"HF_HUB_OFFLINE=1$") as raised:
        convert.download("hf://org/name")
    assert "hf://org/name could not be downloaded" in str(raised.value)


def test_import_weights_takes_a_model_of_the_hub(tmp_path, serve, capsys):
    serve(hugging_face(tmp_path))
    output = tmp_path / "ours"
    command_calls.run(import_weights, "--from=hf://org/name", f"--output_dir={output}")
    assert f"Note: downloaded as hf://org/name, revision {COMMIT}" in (
        capsys.readouterr().out
    )
    encoder, _ = load_encoder(output)
    words = foreign_files.hugging_face_tensors()[
        "bert.embeddings.word_embeddings.weight"
    ]
    np.testing.assert_array_equal(encoder.token_embedding.embeddings, words)
