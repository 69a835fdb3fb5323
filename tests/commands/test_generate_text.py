"""The command that writes on."""

import pytest
from absl import flags

from seg_tf.commands import generate_text
from tests import command_calls
from tests.inference import tiny_language_model as tiny
from tests.inference.test_generation import draw

pytestmark = pytest.mark.slow


def run(run_dir, *arguments):
    command_calls.run(generate_text, f"--checkpoint={run_dir}", *arguments)


def written(model, token_ids):
    """Pattern of a text of separate words, after a prompt."""
    words = model.vocabulary.tokens_of(token_ids)
    return "".join(f" {word}" for word in words).replace(" <eos>", "\n")


def without_indents(text):
    """A paragraph begins without a space."""
    return text.replace("\n ", "\n")


def test_prompt_and_words_are_printed(language_model_dir, capsys):
    arguments = ("--prompt=The w2", "--num_words=24", "--seed=1")
    run(language_model_dir, *arguments)
    output = capsys.readouterr().out
    model = tiny.load(language_model_dir)
    expected = "The w2" + without_indents(written(model, draw(model, 1)))
    assert output == expected + "\n"
    run(language_model_dir, *arguments)
    assert capsys.readouterr().out == output


def test_flags_say_how_words_are_drawn(language_model_dir, capsys):
    model = tiny.load(language_model_dir, memory_length=2)
    for settings in ({"temperature": 0.0}, {"top_k": 3}, {"top_p": 0.3}):
        arguments = [f"--{name}={value}" for name, value in settings.items()]
        run(
            language_model_dir,
            "--prompt=The w2",
            "--num_words=8",
            "--memory_length=2",
            *arguments,
        )
        drawn = draw(model, 0, count=8, **settings)
        expected = "The w2" + without_indents(written(model, drawn))
        assert capsys.readouterr().out == expected + "\n"


def test_a_prompt_from_a_file(language_model_dir, tmp_path, capsys):
    path = tmp_path / "prompt.txt"
    path.write_bytes(b"\xef\xbb\xbfThe w1 strange\n\n")
    run(language_model_dir, f"--prompt_file={path}", "--num_words=3")
    captured = capsys.readouterr()
    first, rest = captured.out.split("\n", 1)
    assert first == "The w1 strange"
    assert not rest.startswith((" ", "\n"))
    assert "does not know 1 of the 4 words" in captured.err


def test_without_a_prompt_a_paragraph_begins(language_model_dir, capsys):
    run(language_model_dir, "--num_words=3")
    captured = capsys.readouterr()
    assert captured.out.strip()
    assert captured.out[0] not in " \n"
    assert "does not know" not in captured.err


def test_users_errors_name_what_is_wrong(language_model_dir, run_dir, tmp_path):
    (tmp_path / "latin").write_bytes(b"Caf\xe9.")
    for arguments, message in (
        (["--prompt=a", "--prompt_file=b"], "`--prompt` and `--prompt_file`"),
        ([f"--prompt_file={tmp_path / 'latin'}"], "UTF-8 text.*at byte 3"),
        (["--top_p=0"], r"`top_p` above 0.*top_p=0\.0"),
    ):
        with pytest.raises(ValueError, match=message):
            run(language_model_dir, *arguments)
    with pytest.raises(OSError, match="No such file"):
        run(language_model_dir, f"--prompt_file={tmp_path / 'none'}")
    for flag in ("--num_words=0", "--temperature=-1", "--top_k=-1", "--top_p=2"):
        with pytest.raises(flags.IllegalFlagValueError, match=flag[2:].split("=")[0]):
            run(language_model_dir, flag)
    with pytest.raises(ValueError, match="must be of a language model"):
        run(run_dir, "--prompt=The")
