"""DiscoEval: its files, the settings of its probes, and their features."""

import numpy as np
import pytest

from seg_tf import tasks
from seg_tf.tasks import discoeval
from tests.sample_data import sample_data
from tests.tasks.test_glue import write

DOMAINS = ("arxiv", "rocstory", "wiki")
FOLDERS = {
    **{f"sp/{domain}": f"SP/{domain}" for domain in DOMAINS},
    **{f"bso/{domain}": f"BSO/{domain}" for domain in DOMAINS},
    **{f"dc/{source}": f"DC/{source}" for source in ("chat", "wiki")},
    **{"ssp": "SSP/abs", "pdtb/explicit": "PDTB/Explicit"},
    "pdtb/implicit": "PDTB/Implicit",
}


@pytest.mark.parametrize(
    "split, file", [("train", "train"), ("dev", "valid"), ("test", "test")]
)
@pytest.mark.parametrize("name", FOLDERS)
def test_real_files_are_read_whole(name, split, file):
    path = sample_data("discoeval", f"{FOLDERS[name]}/{file}.txt")
    lines = path.read_bytes().decode().split("\n")[:-1]
    task = tasks.get(f"discoeval/{name}")
    found = tasks.read(task, sample_data("discoeval"), split)
    if name.startswith("bso/"):
        lines = [
            "\t".join(order)
            for first, second in (line.split("\t") for line in lines)
            for order in (("1", first, second), ("0", second, first))
        ]
    assert len(found) == len(lines) == task.split(split).num_examples
    assert ["\t".join((str(one.label), *one.texts)) for one in found] == lines
    assert {one.label for one in found} == {*range(len(task.labels))}


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


def test_another_label_set_is_refused(tmp_path):
    labels = tasks.get("discoeval/pdtb/implicit").labels
    for names in (labels[::-1], (*labels, "More"), labels[:-1]):
        with pytest.raises(ValueError, match=r"labelset\.txt must have the lines Comp"):
            pdtb(tmp_path, names)


# === Probes ===


def slow_features(name, texts):
    """Features of one example, number by number."""
    first, *others = texts
    if name == "concatenated":
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
    settings = discoeval.settings_of(task)
    name = settings.features
    if name in ("first_and_differences", "pair_and_difference"):  # SP and BSO
        assert settings.l2 == (1e-5, 1e-4, 1e-3, 1e-2)
    vectors = np.random.default_rng(1).normal(size=(3, task.num_texts, 4))
    expected = [slow_features(name, example) for example in vectors.tolist()]
    np.testing.assert_array_equal(discoeval.combine_vectors(name, vectors), expected)


def test_another_benchmark_has_no_probes():
    with pytest.raises(ValueError, match=r"of DiscoEval.*'glue/rte'"):
        discoeval.settings_of(tasks.get("glue/rte"))
