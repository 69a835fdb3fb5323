"""Docstrings: which are found, and what of them is prose."""

import gc
import sys
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


@pytest.mark.parametrize("code", ["x = 1\n", '"""Too short."""\n', "# Nothing.\n"])
def test_module_without_prose_is_no_document(tmp_path, code):
    assert read(tmp_path, code) == []


def test_code_of_another_version_is_rejected(tmp_path):
    code = '"""This module is of another age."""\n\nprint "hello"\n'
    (item,) = read(tmp_path, code)
    assert (item.reason, item.location) == ("not_python", "line 3")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"Expected code of Python {version}, found: " in item.message
    assert gc.isenabled()  # It is put off while code is parsed.


@pytest.mark.parametrize(
    "paragraph",
    [
        "Returns the number of doors.",
        "Is this a sentence or a question?",
        "(In parentheses, it is one as well.)",
        'The second argument is called "width", as above.',
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
        pytest.param("Open doors", id="no full stop"),
        pytest.param("Opens a door.", id="fewer than five words"),
        pytest.param("There are two ways to do it:", id="announcement"),
        pytest.param(">>> open_the_door()\nThe door is open now, sir.", id="doctest"),
        pytest.param(
            "width : float\n    The width of the door in metres.", id="numpydoc entry"
        ),
        pytest.param("Args:\n  width: The width of the door in metres.", id="Google"),
        pytest.param(":param width: the width of the door.", id="field"),
        pytest.param(".. note:: This is what the directive says.", id="directive"),
        pytest.param("- The first item of a long list.", id="list item"),
        pytest.param("1. The first item of a long list.", id="numbered item"),
        pytest.param("| The row | of a | table, is | it.", id="table row"),
        pytest.param("x = f(a, b) + g(c_1, d_2) returns it.", id="formula"),
        pytest.param("open_door, close_door and so on_and on_and.", id="names"),
        pytest.param("Copyright 2020 The Authors of this fine work.", id="licence"),
        pytest.param("This has a \0 character in it, alas.", id="control character"),
        pytest.param(
            "Returns\n-------\nThe number of doors that are open.", id="section"
        ),
        pytest.param(
            "See Also\n--------\nshut_it : Shuts the door again.\n\n"
            "Another one that shuts the door again.",
            id="whole section",
        ),
        pytest.param(
            "```\nThis would be a sentence of code.\n\nAnd this is another, too.\n```",
            id="fenced",
        ),
    ],
)
def test_no_prose(docstring):
    assert list(python_docs.prose_paragraphs(docstring)) == []


@pytest.mark.parametrize(
    "marked, expected",
    [
        ("``x`` and `y`", "x and y"),
        ("a :class:`~house.doors.Door` or :func:`open`", "a Door or open"),
        (":ref:`the manual <manual>`", "the manual"),
        ("`a link <http://x.org>`_ and [another](http://y.org)", "a link and another"),
        ("*very* **very** late", "very very late"),
        ("2 * 3 * 4 and *args stay", "2 * 3 * 4 and *args stay"),
        ("as follows::", "as follows:"),
    ],
)
def test_marks_are_removed(marked, expected):
    assert python_docs.strip_marks(marked) == expected


@pytest.fixture(scope="module")
def installed_files():
    return readers.get_reader("python_docs").files("")


class TestInstalledPackages:
    def test_list_is_fixed_and_holds_library_and_packages(self, installed_files):
        reader = readers.get_reader("python_docs")
        files = installed_files
        names = [reader.source_name(file, "") for file in files]
        assert names == sorted(names)
        assert len(set(names)) == len(names)
        assert {"argparse.py", "email/parser.py", "keras/src/models/model.py"} <= set(
            names
        )
        assert not any(
            name.startswith(("/", "site-packages", "test/")) for name in names
        )
        assert not any("/tests/" in name or name.endswith("_test.py") for name in names)
        # Tools of developers make no difference.
        assert not any(name.startswith(("pytest", "_pytest", "nltk")) for name in names)
        assert reader.files("") == files

    def test_first_documents_read_as_prose(self, installed_files):
        reader = readers.get_reader("python_docs")
        items = [
            item
            for path in installed_files[::50]
            for item in reader.read(path, reader.source_name(path, ""))
        ]
        assert all(isinstance(item, readers.Document) for item in items)
        words = [
            word for item in items for text in item.paragraphs for word in text.split()
        ]
        # A fiftieth of about a million words, as English as English is.
        assert 7_000 < len(words) < 60_000
        share = sum(word.lower() in ("the", "a", "of", "to", "is") for word in words)
        assert share > 0.12 * len(words)

    def test_other_packages_are_read_by_their_folder(self, tmp_path):
        package = tmp_path / "house"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "doors.py").write_text(MODULE)
        (document,) = readers.get_reader("python_docs").read_input(tmp_path)
        assert document.source == "house/doors.py"
