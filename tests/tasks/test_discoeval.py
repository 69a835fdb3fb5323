"""DiscoEval: its files, the settings of its probes, and their features."""

import collections
import pathlib
import pickle

import numpy as np
import pytest

from seg_tf import tasks
from seg_tf.tasks import discoeval
from tests.sample_data import sample_data
from tests.tasks import rst_pickles
from tests.tasks.test_glue import write

# Task, its file of a split, and the rows that are published.
FILES = [
    *(
        (f"discoeval/{task}/{domain}", split, f"{task.upper()}/{domain}/{file}", size)
        for task in ("sp", "bso")
        for domain in ("arxiv", "rocstory", "wiki")
        for split, file, size in (
            ("train", "train.txt", 10_000),
            ("dev", "valid.txt", 4_000),
            ("test", "test.txt", 4_000),
        )
    ),
    ("discoeval/dc/chat", "train", "DC/chat/train.txt", 5_816),
    ("discoeval/dc/chat", "dev", "DC/chat/valid.txt", 1_834),
    ("discoeval/dc/chat", "test", "DC/chat/test.txt", 2_418),
    ("discoeval/dc/wiki", "train", "DC/wiki/train.txt", 10_000),
    ("discoeval/dc/wiki", "dev", "DC/wiki/valid.txt", 4_000),
    ("discoeval/dc/wiki", "test", "DC/wiki/test.txt", 4_000),
    ("discoeval/ssp", "train", "SSP/abs/train.txt", 10_000),
    ("discoeval/ssp", "dev", "SSP/abs/valid.txt", 4_000),
    ("discoeval/ssp", "test", "SSP/abs/test.txt", 4_000),
    ("discoeval/pdtb/explicit", "train", "PDTB/Explicit/train.txt", 9_383),
    ("discoeval/pdtb/explicit", "dev", "PDTB/Explicit/valid.txt", 3_613),
    ("discoeval/pdtb/explicit", "test", "PDTB/Explicit/test.txt", 3_758),
    ("discoeval/pdtb/implicit", "train", "PDTB/Implicit/train.txt", 8_693),
    ("discoeval/pdtb/implicit", "dev", "PDTB/Implicit/valid.txt", 2_972),
    ("discoeval/pdtb/implicit", "test", "PDTB/Implicit/test.txt", 3_024),
]
IDS = [f"{name} {split}" for name, split, *_ in FILES]


@pytest.mark.parametrize("name, split, file, size", FILES, ids=IDS)
def test_real_files_are_read_whole(name, split, file, size):
    lines = sample_data("discoeval", file).read_bytes().decode().split("\n")[:-1]
    found = tasks.read(name, sample_data("discoeval"), split)
    assert len(lines) == size
    assert len(found) == tasks.get(name).split(split).num_examples
    assert len(found) == (2 * size if "/bso/" in name else size)
    if "/bso/" in name:
        lines = [
            "\t".join(order)
            for first, second in (line.split("\t") for line in lines)
            for order in (("1", first, second), ("0", second, first))
        ]
    assert ["\t".join((str(one.label), *one.texts)) for one in found] == lines
    counts = collections.Counter(one.label for one in found)
    assert sorted(counts) == list(range(len(tasks.get(name).labels)))


def test_rows_of_bso_give_both_orders(tmp_path):
    write(tmp_path / "BSO" / "wiki" / "valid.txt", "a .\tb .", "c .\td .")
    assert tasks.read("discoeval/bso/wiki", tmp_path, "dev") == [
        tasks.Example(("a .", "b ."), 1, "0 in order"),
        tasks.Example(("b .", "a ."), 0, "0 swapped"),
        tasks.Example(("c .", "d ."), 1, "1 in order"),
        tasks.Example(("d .", "c ."), 0, "1 swapped"),
    ]


@pytest.mark.parametrize(
    "name, row, message",
    [
        ("discoeval/sp/wiki", "5\ta\tb\tc\td\te", r"column 1 \(label\).*0, 1, 2, 3, 4"),
        ("discoeval/sp/wiki", "0\ta\tb\tc\td", "6 columns.*Received: 5"),
        ("discoeval/dc/chat", "a\tb\tc\td\te\tf", "7 columns.*Received: 6"),
        ("discoeval/bso/wiki", "1\ta\tb", r"2 columns \(text 1, text 2\).*Received: 3"),
        ("discoeval/ssp", "\ta", "the label is missing"),
    ],
)
def test_wrong_rows_are_named(tmp_path, name, row, message):
    write(tmp_path / "train.txt", row)
    with pytest.raises(ValueError, match=rf"train\.txt:1: .*{message}"):
        tasks.read(name, tmp_path, "train")


def pdtb(tmp_path, names, label=3):
    folder = tmp_path / "PDTB" / "Implicit"
    write(folder / "train.txt", f"{label}\tu .\tv .")
    write(folder / "labelset.txt", *names)
    return tasks.read("discoeval/pdtb/implicit", tmp_path, "train")


def test_labels_of_pdtb_are_lines_of_the_label_set(tmp_path):
    task = tasks.get("discoeval/pdtb/implicit")
    assert pdtb(tmp_path, task.labels) == [tasks.Example(("u .", "v ."), 3, "0")]
    assert task.labels[3] == "Contingency.Pragmatic cause"
    with pytest.raises(
        ValueError, match=r"train\.txt:1: column 1 .* 9, 10\. Rec.*'11'"
    ):
        pdtb(tmp_path, task.labels, label=11)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda names: names[::-1], r":1: .* 'Comparison.Concession'.*'Temporal.Synch"),
        (lambda names: (*names, "More"), r":12: .*has 11 labels.*'More'"),
        (lambda names: names[:-1], "must have 11 lines.*Received: 10"),
    ],
)
def test_another_label_set_is_refused(tmp_path, change, message):
    labels = tasks.get("discoeval/pdtb/implicit").labels
    with pytest.raises(ValueError, match=rf"labelset\.txt.*{message}"):
        pdtb(tmp_path, change(labels))


# === RST ===


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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"a": 1}, "node 0 must be a relation"),
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


# === Probes ===


def slow_features(name, texts):
    """Features of one example, number by number."""
    first, *others = texts
    if name in ("only", "concatenated"):
        return [number for text in texts for number in text]
    found = list(first)
    if name == "first_and_differences":
        for other in others:
            found += [a - b for a, b in zip(first, other, strict=True)]
        return found
    (second,) = others
    found += list(second)
    pairs = list(zip(first, second, strict=True))
    if name == "pair_and_difference":
        return found + [a - b for a, b in pairs]
    return found + [a * b for a, b in pairs] + [abs(a - b) for a, b in pairs]


@pytest.mark.parametrize("task", discoeval.TASKS, ids=lambda task: task.name)
def test_features_are_those_of_slow_loops(task):
    name = discoeval.settings_of(task).features
    vectors = np.random.default_rng(1).normal(size=(3, task.num_texts, 4))
    expected = [slow_features(name, example) for example in vectors.tolist()]
    np.testing.assert_array_equal(discoeval.combine_vectors(name, vectors), expected)


@pytest.mark.parametrize(
    "name, shape, message",
    [
        ("sum", (2, 2, 4), "`features` must be one of only, .*'sum'"),
        ("only", (2, 2, 4), r"\(num_examples, 1, size\) for 'only'.*\(2, 2, 4\)"),
        ("pair_and_difference", (2, 3, 4), r"\(num_examples, 2, size\)"),
        ("concatenated", (2, 4), r"shape \(2, 4\)"),
    ],
)
def test_wrong_vectors_are_refused(name, shape, message):
    with pytest.raises(ValueError, match=message):
        discoeval.combine_vectors(name, np.zeros(shape))


def test_another_benchmark_has_no_probes():
    with pytest.raises(ValueError, match=r"of DiscoEval.*'glue/rte'"):
        discoeval.settings_of(tasks.get("glue/rte"))
