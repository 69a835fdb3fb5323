"""Sentences by a user's function: all of the text, or an error in words."""

import pickle
import re
import sys

import pytest

from seg_tf.text.graph.punkt import GraphSentenceSplitter
from seg_tf.text.splitters import (
    FunctionSplitter,
    SentenceFunctionError,
    load_parameters,
    make_splitter,
    read_parameters,
)

MODULE = """
import re

def at_bars(paragraph):
    return [part + " " for part in re.split(r"(?<=[|])", paragraph)]

def one_string(paragraph):
    return paragraph

def shouted(paragraph):
    return [paragraph.upper()]

def the_first(paragraph):
    return paragraph.split("|")[:1]

def the_last(paragraph):
    return paragraph.split("|")[1:]

def failing(paragraph):
    return 1 / 0

"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a module with sentence functions."""
    (tmp_path / "sentences_of_tests.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield "sentences_of_tests"
    sys.modules.pop("sentences_of_tests", None)


def splitter_of(module, name):
    return make_splitter(load_parameters(f"function:{module}:{name}"))


def test_sentences_are_those_of_the_function(module):
    splitter = splitter_of(module, "at_bars")
    assert isinstance(splitter, FunctionSplitter)
    assert splitter.spans("  one|two |  | two") == [(2, 6), (6, 11), (13, 14), (15, 18)]
    assert splitter.split("one|one") == ["one|", "one"]
    assert splitter.split(" ") == []
    again = pickle.loads(pickle.dumps(splitter))
    assert again.split("one|one") == ["one|", "one"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("one_string", "failed: TypeError: expected a list of strings, found 'a|b'"),
        ("shouted", "returned 'A|B', expected what follows at character 0: 'a|b'"),
        ("the_first", "left out what follows: '|b'"),
        ("the_last", "returned 'b', expected what follows at character 0"),
        ("failing", "failed: ZeroDivisionError: division by zero"),
    ],
)
def test_text_is_not_lost(module, name, message):
    with pytest.raises(SentenceFunctionError, match=re.escape(message)) as caught:
        splitter_of(module, name).split("a|b")
    assert str(caught.value).startswith(f"{module}:{name}, the function that splits")
    assert pickle.loads(pickle.dumps(caught.value)).paragraph == "a|b"


def test_function_is_kept_by_its_name(module, tmp_path):
    parameters = load_parameters(f"function:{module}:at_bars")
    path = tmp_path / "sentence_parameters.json"
    path.write_bytes(parameters.to_bytes())
    assert read_parameters(path) == parameters
    with pytest.raises(ValueError, match=f"{re.escape(str(path))} names it, and"):
        make_splitter(read_parameters(path))
    with pytest.raises(ValueError, match="Received: 'os:system'"):
        load_parameters(str(path), "os:system")
    named = load_parameters(str(path), f"{module}:at_bars")
    assert make_splitter(named).split("one|one") == ["one|", "one"]
    other = load_parameters(f"function:{module}:failing")
    assert other.checksum != parameters.checksum
    path.write_text('{"format": "sentence_function", "format_version": 1}')
    with pytest.raises(ValueError, match=r"names, None\. Received: None"):
        read_parameters(path)


def test_graph_cannot_hold_a_function(module):
    with pytest.raises(ValueError, match="Received: function:sentences_of_tests:at_b"):
        GraphSentenceSplitter(load_parameters(f"function:{module}:at_bars"))
