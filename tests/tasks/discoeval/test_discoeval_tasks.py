"""DiscoEval's files: the real ones, and what each task makes of a row."""

import collections

import pytest

from seg_tf import tasks
from tests.sample_data import sample_data
from tests.tasks.glue.test_glue_tasks import write

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


def num_examples(name, num_rows):
    """Rows of BSO make two examples."""
    return 2 * num_rows if "/bso/" in name else num_rows


@pytest.mark.parametrize("name, split, file, size", FILES, ids=IDS)
def test_sizes_are_the_published_ones(name, split, file, size):
    assert tasks.get(name).split(split).num_examples == num_examples(name, size)


@pytest.mark.parametrize("name, split, file, size", FILES, ids=IDS)
def test_real_files_are_read_whole(name, split, file, size):
    lines = sample_data("discoeval", file).read_bytes().decode().split("\n")[:-1]
    found = tasks.read(name, sample_data("discoeval"), split)
    assert len(lines) == size
    assert len(found) == num_examples(name, size)
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


def test_a_sentence_that_looks_like_a_label_is_text(tmp_path):
    write(tmp_path / "train.txt", "1\t2 .")
    assert tasks.read("discoeval/ssp", tmp_path, "train") == [
        tasks.Example(("2 .",), 1, "0")
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


def test_a_missing_label_set_is_named(tmp_path):
    write(tmp_path / "train.txt", "0\tu .\tv .")
    with pytest.raises(FileNotFoundError, match="labelset"):
        tasks.read("discoeval/pdtb/explicit", tmp_path, "train")
