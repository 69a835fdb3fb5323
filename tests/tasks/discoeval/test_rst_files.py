"""Pickled discourse trees: read as published, and nothing in them is run."""

import collections
import pathlib
import pickle

import pytest

from seg_tf import tasks
from tests.tasks.discoeval import rst_pickles

NODE = ("NN-Joint", ["one"], ["two", "three"])


class Touch:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return pathlib.Path.touch, (self.path,)


def test_nodes_are_read_in_order(tmp_path):
    nodes = rst_pickles.write(tmp_path / "RST", train=7, dev=3)
    for split, name in (("train", "train"), ("dev", "dev")):
        for folder in (tmp_path, tmp_path / "RST"):
            examples = tasks.read("discoeval/rst", folder, name)
            labels = tasks.get("discoeval/rst").labels
            assert [
                (labels[one.label], *(text.split("\n") for text in one.texts))
                for one in examples
            ] == nodes[split]
    with pytest.raises(FileNotFoundError, match=r"RST_TEST\.pkl"):
        tasks.read("discoeval/rst", tmp_path, "test")


def test_white_space_in_a_unit_ends_none(tmp_path):
    nodes = [("NS-Cause", ["a\nb "], ["c"])]
    (tmp_path / "RST_DEV.pkl").write_bytes(pickle.dumps(nodes))
    (example,) = tasks.read("discoeval/rst", tmp_path, "dev")
    assert example.texts == ("a b", "c")


def test_labels_are_the_relations_of_all_orders():
    labels = tasks.get("discoeval/rst").labels
    assert len(labels) == len({*labels}) == 41
    orders = collections.Counter(label[:2] for label in labels)
    assert orders == {"NN": 12, "NS": 15, "SN": 14}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"a": 1}, r"must be a pickled list\. Received: dict"),
        ([NODE, ("NN-Joint", ["one"])], "node 1 must be a relation"),
        ([("XX", ["one"], ["two"])], r"node 0 must be .*\('XX'"),
        ([("NN-Joint", [], ["two"])], "node 0 must be .*two lists"),
        ([("NN-Joint", ["one"], [" "])], "node 0 must be .*two lists"),
        ([("NN-Joint", "one", ["two"])], "node 0 must be .*two lists"),
        ([7], "node 0 must be a relation .*Received: '7'"),
    ],
)
def test_what_is_no_tree_is_named(tmp_path, content, message):
    (tmp_path / "RST_DEV.pkl").write_bytes(pickle.dumps(content))
    with pytest.raises(ValueError, match=rf"RST_DEV\.pkl.* {message}"):
        tasks.read("discoeval/rst", tmp_path, "dev")


def test_nothing_in_a_file_is_run(tmp_path):
    path = tmp_path / "RST_DEV.pkl"
    path.write_bytes(pickle.dumps([Touch(tmp_path / "touched")]))
    with pytest.raises(ValueError, match=r"RST_DEV\.pkl must be .*it holds a"):
        tasks.read("discoeval/rst", tmp_path, "dev")
    assert not (tmp_path / "touched").exists()
    for content in (b"", b"no pickle", pickle.dumps([NODE])[:-9]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"RST_DEV\.pkl must be a pickled list"):
            tasks.read("discoeval/rst", tmp_path, "dev")
