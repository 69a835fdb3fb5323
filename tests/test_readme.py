"""Examples of the README and of the docs run, with the models of the package."""

import contextlib
import doctest
import re
import shlex

import pytest

from tests import command_calls
from tests.command_calls import REPOSITORY

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
pytestmark = pytest.mark.slow

# What makes a command end soon.
SHORT = {
    "pretrain": (
        "--config.training.num_updates=2",
        "--config.optimizer.warmup_updates=1",
        "--config.model.num_layers=1",
    )
}


def commands_of(text: str) -> list[str]:
    blocks = re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL)
    lines = "".join(blocks).replace("\\\n", "").splitlines()
    commands = [line[2:] for line in lines if line.startswith("$ seg-tf ")]
    # Choosing settings for a time is tested in test_pretrain_folder.
    return [command for command in commands if "--minutes" not in command]


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 150


@pytest.mark.parametrize("name", ["README.md", "docs/layers.md"])
def test_python_prints_what_the_page_says(name):
    text = (REPOSITORY / name).read_text(encoding="utf-8")
    blocks = re.findall(r"```pycon\n(.*?)```", text, flags=re.DOTALL)
    source = "\n".join(blocks).replace("…", "...")
    test = doctest.DocTestParser().get_doctest(source, {}, name, name, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test)
    assert runner.summarize(verbose=False) == (0, len(test.examples))
    assert test.examples


def test_commands_of_the_readme_run(tmp_path):
    texts = tmp_path / "my_texts"
    texts.mkdir()
    for page in sorted((REPOSITORY / "docs").glob("*.md")):
        for number, section in enumerate(page.read_text("utf-8").split("\n## ")):
            path = texts / f"{page.stem}_{number}.txt"
            path.write_text(section, encoding="utf-8")
    (tmp_path / "README.md").write_text(README, encoding="utf-8")
    commands = commands_of(README)
    assert len(commands) >= 4
    for command in commands:
        smaller = re.sub(r"--vocab_size=\d+", "--vocab_size=600", command)
        _, name, *arguments = shlex.split(smaller)
        with contextlib.chdir(tmp_path):
            done = command_calls.call(name, *arguments, *SHORT.get(name, ()))
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr[-3000:]}"
    assert (tmp_path / "runs" / "mine" / "log.jsonl").exists()
