"""The command that draws attention."""

import numpy as np
import pytest

from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.commands import plot_attention
from seg_tf.inference import attention
from tests import command_calls
from tests.inference import tiny_slm, tiny_windows

pytestmark = pytest.mark.slow

TEXT = "\ufeffW1 w2. W3.\n\n W4 w5 w6 w7.\n"
# 10 of 23 word pieces, in 3 of 4 sentences.
LONG_TEXT = TEXT + "W8 " + "w9 " * 11 + "."


@pytest.fixture(name="runs", scope="module")
def _runs(tmp_path_factory):
    """Folders of a BERT and of a SegaBERT with a layer more."""
    folder = tmp_path_factory.mktemp("runs")
    tiny_windows.write_checkpoint(folder / "bert", tiny_windows.BERT)
    tiny_windows.write_checkpoint(folder / "sega", tiny_windows.SEGABERT, num_layers=3)
    return folder


@pytest.fixture(name="text")
def _text(tmp_path):
    path = tmp_path / "article.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture(name="drawn")
def _drawn(monkeypatch):
    """Arguments of each plot that is drawn."""
    calls = []

    def record(*arguments):
        calls.append(arguments)
        return heat_maps(*arguments)

    heat_maps = attention.heat_maps
    monkeypatch.setattr(attention, "heat_maps", record)
    return calls


def run(checkpoint, text, *arguments):
    command_calls.run(
        plot_attention, f"--checkpoint={checkpoint}", f"--text={text}", *arguments
    )


def slow_maps(run_dir, paragraphs):
    pretrained = load_pretrained(run_dir)
    tree = attention.read_tree(paragraphs, pretrained, tiny_slm.SPLITTER)
    window = attention.lay_out(tree, pretrained)
    return attention.attention_maps(pretrained.encoder, window)


def test_models_are_drawn_and_their_shares_told(runs, text, drawn, tmp_path, capsys):
    output = tmp_path / "maps.png"
    output.write_text("of an earlier run")
    run(f"{runs}/bert,{runs}/sega", text, f"--output={output}")
    command_calls.check_image(output)
    ((maps, layers, title),) = drawn
    assert title == "Attention in article.txt"
    # The layers that both have.
    assert layers == [0, 1]
    expected = {
        name: slow_maps(runs / name, ["W1 w2. W3.", "W4 w5 w6 w7."])
        for name in ("bert", "sega")
    }
    assert list(maps) == list(expected)
    for name, one in expected.items():
        np.testing.assert_allclose(maps[name].weights, one.weights, atol=1e-6)

    shown, errors = capsys.readouterr()
    assert "Note" not in errors
    assert shown.count("10 word pieces in 3 sentences, 2 paragraphs") == 2
    # Special tokens are two of twelve; sentences have 3, 2 and 5 pieces.
    assert f"{(9 + 4 + 25) / 10 / 12:.3f} ( 1.00 x)" in shown
    for maps in expected.values():
        for layer in range(2):
            weights = maps.weights[layer].mean(axis=0)
            special = (weights[1:-1, 0] + weights[1:-1, -1]).mean()
            assert f"{special:.3f} ({special * 6:5.2f} x)" in shown
    assert f"Written: {output}" in shown
    assert {path.name for path in tmp_path.iterdir()} == {"article.txt", "maps.png"}


def test_chosen_layers_are_drawn_in_their_order(runs, text, drawn, tmp_path):
    output = tmp_path / "maps.SVG"
    run(f"{runs}/sega", text, f"--output={output}", "--layers=2,0")
    assert output.read_bytes().startswith(b"<?xml")
    ((_, layers, _),) = drawn
    assert layers == [2, 0]


def test_each_model_reads_the_sentences_that_fit_in_its_window(
    runs, run_dir, text, drawn, tmp_path, capsys
):
    text.write_text(LONG_TEXT, encoding="utf-8")
    # The window of the SLM can hold the fourth sentence.
    run(f"{runs}/bert,{run_dir}", text, f"--output={tmp_path / 'maps.png'}")
    ((maps, _, _),) = drawn
    assert [one.window.is_piece.sum() for one in maps.values()] == [10, 23]
    errors = capsys.readouterr().err
    assert "Note: bert: the text has 23 word pieces in 4 sentences" in errors
    assert errors.count("Shown are the first 10, in 3\n") == 1


def test_what_cannot_be_drawn_is_refused(runs, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blank.txt").write_text("\n \n")
    bert, output = f"{runs}/bert", f"--output={tmp_path}/a.png"
    for arguments, expected in (
        ([bert, text, f"--output={tmp_path}/no/a.png"], "in a folder that exists"),
        ([bert, tmp_path / "blank.txt", output], "must hold a sentence.*blank.txt"),
        ([bert, text, output, "--layers=2"], "from 0 to 1. Received: 2"),
        ([bert, text, output, "--layers=-1"], "Received: -1"),
        ([bert, text, output, "--output=a.xyz"], "Format 'xyz' is not supported"),
    ):
        with pytest.raises(ValueError, match=expected):
            run(*arguments)
    assert not (tmp_path / "a.png").exists()


def test_other_models_are_refused(language_model_dir, text, tmp_path):
    with pytest.raises(ValueError, match=r"that reads windows.*TransformerXL"):
        run(language_model_dir, text, f"--output={tmp_path}/a.png")
