"""The command that writes on."""

import pytest

from seg_tf.commands import generate_text
from tests import command_calls
from tests.inference import tiny_language_model as tiny
from tests.inference.test_generation import draw

pytestmark = pytest.mark.slow


def run(run_dir, *arguments):
    command_calls.run(generate_text, f"--checkpoint={run_dir}", *arguments)


def written(model, token_ids):
    """A text of separate words, after a prompt; a paragraph begins without a space."""
    words = model.vocabulary.tokens_of(token_ids)
    text = "".join(f" {word}" for word in words).replace(" <eos>", "\n")
    return text.replace("\n ", "\n")


def test_prompt_and_words_are_printed(language_model_dir, capsys):
    run(language_model_dir, "--prompt=The w2", "--num_words=24", "--seed=1")
    model = tiny.load(language_model_dir)
    expected = "The w2" + written(model, draw(model, 1))
    assert capsys.readouterr().out == expected + "\n"


def test_flags_say_how_words_are_drawn(language_model_dir, capsys):
    model = tiny.load(language_model_dir, memory_length=2)
    for settings in ({"temperature": 0.5}, {"top_k": 3}, {"top_p": 0.3}):
        arguments = [f"--{name}={value}" for name, value in settings.items()]
        run(
            language_model_dir,
            "--prompt=The w2",
            "--num_words=8",
            "--memory_length=2",
            *arguments,
        )
        drawn = draw(model, 0, count=8, **settings)
        expected = "The w2" + written(model, drawn)
        assert capsys.readouterr().out == expected + "\n"


def test_without_a_prompt_a_paragraph_begins(language_model_dir, capsys):
    run(language_model_dir, "--num_words=3")
    output = capsys.readouterr().out
    assert output.strip()
    assert output[0] not in " \n"


def test_users_errors_name_what_is_wrong(language_model_dir, run_dir):
    with pytest.raises(ValueError, match=r"`top_p` above 0.*top_p=0\.0"):
        run(language_model_dir, "--top_p=0")
    with pytest.raises(ValueError, match="must be of a language model"):
        run(run_dir, "--prompt=The")
