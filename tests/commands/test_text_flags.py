"""Texts of any format, as the commands that apply a model read them."""

import io
import types

import pytest
from absl import flags

from data_pipelines import readers
from seg_tf.commands import (
    encode_text,
    evaluate_perplexity,
    find_sentences,
    model_flags,
    plot_attention,
    reorder_sentences,
)
from tests import command_calls

WRAPPED = """\
It was late when the carriage at last reached
the gate, and nobody came to open. We waited.

Then it rained, as it does here in May.
"""
PARAGRAPHS = [
    "It was late when the carriage at last reached the gate, and nobody came to open. "
    "We waited.",
    "Then it rained, as it does here in May.",
]


def read(path, *arguments):
    with command_calls.flags_of_one_command():
        model_flags.define_text_flags()
        flags.FLAGS(["command", *arguments])
        return list(map(list, model_flags.read_documents(path)))


def test_hard_wrapped_lines_are_joined_and_markdown_is_parsed(
    tmp_path, caplog, monkeypatch
):
    monkeypatch.setattr(readers, "_wrapped_files", set())
    path = tmp_path / "a.md"
    path.write_text("# A *title*\n\nOne\nsentence, [linked](b.md).\n")
    assert read(path) == [["A title", "One sentence, linked."]]
    path = tmp_path / "a.txt"
    path.write_text("One. Two.\nThree.\n\nFour.\n")
    assert read(path) == [["One. Two.", "Three."], ["Four."]]
    for name in ("b.txt", "c.txt", "b.txt"):
        (tmp_path / name).write_text(WRAPPED)
        assert read(tmp_path / name) == [PARAGRAPHS]
    (message,) = [text for text in caplog.messages if "look hard-wrapped" in text]
    assert message.startswith(f"{tmp_path}/b.txt: ")
    lines = read(tmp_path / "b.txt", "--reader_options=documents=blank_lines")
    assert [len(document) for document in lines] == [2, 1]


def test_flags_name_formats_and_options(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b'{"body": "Caf\xe9.\\nTwo."}')
    options = "--reader_options=text_field=body,encoding=cp1252"
    assert read(path, "--format=json_lines", options) == [["Café.", "Two."]]
    with pytest.raises(ValueError, match="`format` must be one of"):
        read(path, "--format=jsonl")


def test_stdin_is_a_text_too(monkeypatch):
    stdin = types.SimpleNamespace(buffer=io.BytesIO(WRAPPED.encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    assert read("-") == [PARAGRAPHS]
    stdin.buffer.seek(0)
    assert model_flags.read_lines("-")[2] == "Then it rained, as it does here in May."


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        (encode_text, ["--text={0}/a.md", "--output_dir={0}"]),
        (find_sentences, ["--corpus={0}/a.md", "--index_dir={0}/index"]),
        (reorder_sentences, ["--text={0}/a.md"]),
        (plot_attention, ["--text={0}/a.md", "--output={0}/a.png"]),
        (evaluate_perplexity, ["--text={0}/a.md"]),
    ],
)
def test_commands_read_texts_by_these_flags(
    run_dir, language_model_dir, tmp_path, module, arguments
):
    (tmp_path / "a.md").write_text("One.")
    model = language_model_dir if module is evaluate_perplexity else run_dir
    arguments = [argument.format(tmp_path) for argument in arguments]
    options = ["--format=plain_text", "--reader_options=documents=pages"]
    with pytest.raises(ValueError, match="`documents` must be one of"):
        command_calls.run(module, f"--checkpoint={model}", *arguments, *options)
