"""The command that puts sentences in order."""

import io
import json
import types

import numpy as np
import pytest

from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.checkpoints.weight_files import CheckpointError
from seg_tf.commands import reorder_sentences
from seg_tf.inference import ordering
from seg_tf.inference.texts import Sentence
from tests import command_calls
from tests.inference import tiny_slm
from tests.inference.tiny_slm import sentence

pytestmark = pytest.mark.slow


@pytest.fixture
def sentences():
    generator = np.random.default_rng(0)
    return [sentence(generator, length) for length in (3, 4, 5, 6, 7, 2)]


def run(run_dir, *arguments):
    command_calls.run(reorder_sentences, f"--checkpoint={run_dir}", *arguments)


def expected_groups(run_dir, sentences, paragraphs=None):
    paragraphs = paragraphs or [0] * len(sentences)
    text = [
        Sentence(one, "", paragraph=number)
        for one, number in zip(sentences, paragraphs, strict=True)
    ]
    return ordering.SentenceOrderer(load_pretrained(run_dir)).order([text])[0]


def test_prints_sentences_in_order_with_places_and_confidences(
    run_dir, sentences, tmp_path, capsys
):
    path = tmp_path / "shuffled.txt"
    path.write_text("\n\n".join(sentences) + "\n \n")
    run(run_dir, f"--sentences={path}")
    output = capsys.readouterr().out
    rows = [line.split(maxsplit=3) for line in output.splitlines()]
    rows = [row for row in rows if row and row[0].isdecimal()]
    assert [int(row[0]) for row in rows] == [1, 2, 3, 4, 5, 6]
    groups = expected_groups(run_dir, sentences)
    order = [number for group in groups for number in group.order]
    assert [int(row[1]) - 1 for row in rows] == order
    confidences = [one for group in groups for one in group.confidences]
    np.testing.assert_allclose([float(row[2]) for row in rows], confidences, atol=1e-3)
    assert [row[3] for row in rows] == [sentences[number] for number in order]
    for group in groups:
        assert f"confidence of the whole order {group.confidence:.3g}" in output


@pytest.mark.parametrize("flag", ["--text=-", "--sentences=-", None])
def test_stdin_is_read(run_dir, sentences, capsys, monkeypatch, flag):
    content = io.BytesIO("\n".join(sentences[:3]).encode())
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=content))
    run(run_dir, *([flag] if flag else []))
    output = capsys.readouterr().out
    assert all(one in output for one in sentences[:3])


def test_many_texts_become_json_lines(run_dir, sentences, tmp_path, capsys):
    folder = tmp_path / "texts"
    folder.mkdir()
    content = f"\ufeff{' '.join(sentences[:2])}\n\n{sentences[2]}"
    (folder / "b.txt").write_text(content, encoding="utf-8")
    (folder / "a.txt").write_text("W1" + " w2" * 80 + ". " + sentences[0])
    (folder / "empty.txt").write_text("\n\n")
    output = tmp_path / "orders.jsonl"
    run(run_dir, f"--text={folder}", f"--output={output}")
    assert f"3 texts in order: {output}" in capsys.readouterr().out
    first, second, empty = map(json.loads, output.read_text().splitlines())
    assert [first["source"], second["source"]] == ["a.txt", "b.txt"]
    assert [group["first"] for group in first["groups"]] == [0, 1]
    assert [group["cut"] for group in first["groups"]] == [[0], []]
    (group,) = second["groups"]
    (expected,) = expected_groups(run_dir, sentences[:3], [0, 0, 1])
    assert group["order"] == list(expected.order)
    assert group["sentences"] == [sentences[number] for number in expected.order]
    assert group["confidence"] == pytest.approx(expected.confidence, abs=1e-5)
    np.testing.assert_allclose(group["confidences"], expected.confidences, atol=1e-5)
    assert empty == {"source": "empty.txt", "groups": []}
    assert [path.name for path in tmp_path.iterdir() if path.name[0] == "."] == []


def test_users_errors_name_what_is_wrong(run_dir, tmp_path):
    (tmp_path / "latin").write_bytes(b"Fine.\nCaf\xe9.")
    with pytest.raises(ValueError, match=r"latin, .*: Expected UTF-8"):
        run(run_dir, f"--text={tmp_path / 'latin'}")
    with pytest.raises(ValueError, match=r"Only one of .* Received: both"):
        run(run_dir, "--text=a", "--sentences=b")
    with pytest.raises(FileNotFoundError, match="Received: '/nowhere'"):
        run(run_dir, "--text=/nowhere")
    with pytest.raises(CheckpointError, match="Received: /nowhere"):
        run("/nowhere", f"--text={tmp_path / 'latin'}")
    with pytest.raises(ValueError, match=r"in a folder that exists.*/no/orders"):
        run("/nowhere", f"--text={tmp_path}", "--output=/no/orders")


def test_model_of_another_kind_is_one_line(tmp_path):
    run_dir = tiny_slm.write_checkpoint(tmp_path, tiny_slm.config())
    code, _, errors = command_calls.call(
        "reorder-sentences",
        f"--checkpoint={run_dir}",
        stdin="One. Two.",
    )
    assert code == 1
    assert "Traceback" not in errors
    assert "error: `checkpoint` must be of a model that was" in errors
