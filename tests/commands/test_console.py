"""`seg-tf`: the command that is meant, and its own help."""

import importlib.util
import sys

import pytest

from seg_tf.commands import console
from tests import command_calls


def call(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["seg-tf", *arguments])
    console.main()


def test_every_command_is_a_module_with_a_summary(capsys, monkeypatch):
    call(monkeypatch)
    output = capsys.readouterr().out
    found = console.commands()
    assert found["seg_tf.commands"]["encode-text"] == "seg_tf.commands.encode_text"
    assert found["data_pipelines"]["readers"] == "data_pipelines.readers"
    names = [name for of_package in found.values() for name in of_package]
    assert len(names) == len(set(names)) > 25
    assert "console" not in names
    for of_package in found.values():
        for name, module in of_package.items():
            assert importlib.util.find_spec(module)
            (line,) = [
                line for line in output.splitlines() if line.startswith(f"  {name} ")
            ]
            assert len(line.split()) > 3


def test_another_name_is_refused_with_what_may_be_meant(monkeypatch):
    with pytest.raises(SystemExit) as ended:
        call(monkeypatch, "pretrane")
    assert str(ended.value).startswith("error: there is no command `pretrane`. Did you")
    assert "`pretrain`" in str(ended.value)


def test_a_removed_command_is_refused_with_what_to_use(monkeypatch):
    message = r"^error: `compare-records` was removed in 0\.3; .*`diff -r`"
    with pytest.raises(SystemExit, match=message):
        call(monkeypatch, "compare_records")


def test_a_command_gets_its_arguments_and_shows_its_help(monkeypatch, capsys):
    documentation = sys.modules["__main__"].__doc__
    # Another test may have imported it, of which `runpy` warns.
    monkeypatch.delitem(sys.modules, "data_pipelines.build_word_vocab", raising=False)
    try:
        with command_calls.flags_of_one_command(), pytest.raises(SystemExit):
            call(monkeypatch, "build_word_vocab", "--nonsense=1")
        assert sys.argv[0] == "seg-tf build-word-vocab"
        assert "nonsense" in capsys.readouterr().err
        assert sys.modules["__main__"].__doc__.startswith("Counts the words")
    finally:
        sys.modules["__main__"].__doc__ = documentation


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("encode_text", "text output output_dir show"),
        ("evaluate_perplexity", "text records_dir memory_length target_length lanes"),
        ("find_sentences", "corpus index_dir context_sentences limit vectors"),
        ("generate_text", "prompt_file temperature top_p seed"),
        ("plot_attention", "text output output_table layers heads"),
        ("reorder_sentences", "text sentences output vocab_file"),
    ],
)
def test_help_shows_the_docstring_and_the_flags(name, names):
    module = f"seg_tf.commands.{name}"
    _, output, errors = command_calls.call(module, "--help")
    assert f"seg-tf {name.replace('_', '-')} --checkpoint=" in output
    for flag in ("checkpoint", *names.split()):
        assert f"--{flag}" in output
    assert "Traceback" not in errors
