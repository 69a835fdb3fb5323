"""Docstrings: which are found, and what of them is prose."""

import textwrap

import pytest

from data_pipelines import readers
from data_pipelines.readers import python_docs
from tests.data_pipelines.readers import helpers

MODULE = '''\
"""Tools to open doors and windows.

They work with both hands.
"""
import os

CONSTANT = 1
"""Text after a constant is no docstring at all."""


class Door:
    """A door that can be opened and closed.

    Example:
        >>> Door().open()
    """

    def open(self):
        """Opens the door as wide as it goes.

        Args:
            width: The width of the opening, in whole metres.
        """

        def helper():
            """Helps with doors that are very heavy."""

    async def close(self):
        """They work with both hands."""


try:
    import windows
except ImportError:

    def window():
        r"""Stands in for windows where there are none."""
'''


def read(folder, text):
    return helpers.read_text(folder, "python_docs", text)


def found(docstring):
    return list(python_docs.prose_paragraphs(textwrap.dedent(docstring).strip()))


def test_docstrings_come_in_order_and_once(tmp_path):
    (document,) = read(tmp_path, MODULE)
    assert document.paragraphs == (
        "Tools to open doors and windows.",
        "They work with both hands.",
        "A door that can be opened and closed.",
        "Opens the door as wide as it goes.",
        "Helps with doors that are very heavy.",
        "Stands in for windows where there are none.",
    )


@pytest.mark.parametrize(
    "paragraph",
    [
        "Returns the number of doors.",
        "(In parentheses, it is one as well.)",
        "It has two sentences. The second one announces this:",
        "It stands where it is, and there\nit. is.",
        "Computes 3 out of 4 cases in 2.5 seconds.",
    ],
)
def test_prose(paragraph):
    assert found(paragraph) == [paragraph.replace("\n", " ")]


@pytest.mark.parametrize(
    "docstring",
    [
        "Open doors",
        "There are two ways to do it:",
        ">>> open_the_door()\nThe door is open now, sir.",
        "width : float\n    The width of the door in metres.",
        "Args:\n  width: The width of the door in metres.",
        ":param width: the width of the door.",
        ".. note:: This is what the directive says.",
        "- The first item of a long list.",
        "| The row | of a | table, is | it.",
        "x = f(a, b) + g(c_1, d_2) returns it.",
        "Copyright 2020 The Authors of this fine work.",
        "This has a \0 character in it, alas.",
        "Returns\n-------\nThe number of doors that are open.",
        "See Also\n--------\nx : Shuts the door.\n\nAnother one that shuts it, too.",
        "```\nThis would be a sentence of code.\n\nAnd this is another, too.\n```",
    ],
)
def test_no_prose(docstring):
    assert list(python_docs.prose_paragraphs(docstring)) == []


def test_installed_packages_read_as_prose():
    reader = readers.get_reader("python_docs")
    files = reader.files("")
    names = [reader.source_name(file, "") for file in files]
    assert names == sorted(set(names))
    assert {"argparse.py", "email/parser.py", "keras/src/models/model.py"} <= {*names}
    # Neither tests nor the tools of developers make a difference.
    left_out = ("/", "site-packages", "test/", "pytest", "_pytest", "nltk")
    assert not any(name.startswith(left_out) for name in names)
    assert not any("/tests/" in name or name.endswith("_test.py") for name in names)
    items = [item for path in files[::50] for item in reader.read(path)]
    words = " ".join(text for item in items for text in item.paragraphs).split()
    # A fiftieth of about a million words, as English as English is.
    assert 7_000 < len(words) < 60_000
    share = sum(word.lower() in ("the", "a", "of", "to", "is") for word in words)
    assert share > 0.12 * len(words)
