"""The examples in docstrings run and print what they say."""

import doctest
import importlib
import pathlib

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
PROMPT = ">>> "
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def modules_with_examples() -> list[str]:
    paths = [
        path
        for package in ("seg_tf", "data_pipelines", "configs")
        for path in sorted((REPOSITORY / package).rglob("*.py"))
        if PROMPT in path.read_text(encoding="utf-8")
    ]
    return [
        ".".join(path.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(
            ".__init__"
        )
        for path in paths
    ]


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_print_what_they_say(name):
    result = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert result.attempted > 0, f"no example found, though {PROMPT!r} stands in it"
    assert result.failed == 0
