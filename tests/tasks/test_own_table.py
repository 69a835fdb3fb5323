"""Tasks of tables of one's own: columns, kinds of labels, held-out rows, errors."""

import json

import numpy as np
import pytest

from seg_tf.finetuning.classification import bag_of_words
from seg_tf.tasks import own_table
from seg_tf.tasks.task import Example

WORDS = ("good", "fine", "bad", "poor")


def write_csv(path, rows, header="review,stars"):
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture(name="reviews")
def _reviews(tmp_path):
    """100 different reviews, each twice: quoted, with a line feed, 1 to 4 stars."""
    rows = [f'"A {WORDS[n % 4]} film,\nsaid {n // 4}.",{n % 4 + 1}' for n in range(100)]
    bad = ' ,1\n"No stars",\nNot quoted, really,1'
    return write_csv(tmp_path / "reviews.csv", [*rows, bad, *rows])


def test_classes_and_held_out_rows(reviews, capsys):
    task, splits = own_table.read(reviews, ["review"], "stars")
    assert task.name == "table/reviews"
    assert task.labels == ("1", "2", "3", "4")
    assert "3 rows without all of review, stars are left out" in capsys.readouterr().err
    texts = {name: {one.texts for one in some} for name, some in splits.items()}
    assert {name: len(some) for name, some in splits.items()} == {
        name: 2 * len(some) for name, some in texts.items()
    }
    assert not texts["train"] & texts["dev"]  # copies stay together
    assert 3 <= len(texts["dev"]) <= 20
    assert sum(map(len, texts.values())) == 100
    for one in splits["train"]:
        assert f"A {WORDS[one.label]} film,\nsaid" in one.texts[0]


def test_scores_pairs_and_a_dev_file(tmp_path):
    rows = [{"a": f"x{n}", "b": f"y{n}", "score": n / 4} for n in range(30)]
    train, dev = tmp_path / "train.jsonl", tmp_path / "dev.tsv"
    train.write_text("\n".join(map(json.dumps, rows)))
    dev.write_text("score\tb\ta\n2\tyes\tno\n")
    task, splits = own_table.read(str(train), ["a", "b"], "score", str(dev))
    assert task.is_regression
    assert (task.num_texts, task.score_range) == (2, (0.0, 7.25))
    assert task.score_scale == (3.625, pytest.approx((899 / 12 / 16) ** 0.5))
    assert splits["train"][3] == Example(("x3", "y3"), 0.75, f"{train}:4")
    assert [(one.texts, one.label) for one in splits["dev"]] == [(("no", "yes"), 2.0)]
    for value, expected in ((True, True), (None, False)):
        path = write_csv(tmp_path / "c.csv", [f"t{n},{n % 3}" for n in range(60)])
        task, _ = own_table.read(path, ["review"], "stars", regression=value)
        assert task.is_regression == expected


@pytest.mark.parametrize(
    ("rows", "label", "message"),
    [
        (["a,1", "b,2"] * 9, "star", "csv:2: .* 'star'.*review, stars. Did.*'stars'"),
        (["a,1"] * 9, "stars", "hold out|at least 2 classes"),
        ([f"t{n},id{n}" for n in range(90)], "stars", "classes that repeat.*'stars'"),
        (['"a,1', "b,2"], "stars", "must be CSV, .*: unexpected end of data"),
    ],
)
def test_tables_that_are_refused(tmp_path, rows, label, message):
    path = write_csv(tmp_path / "train.csv", rows)
    with pytest.raises(ValueError, match=message):
        own_table.read(path, ["review"], label)


def test_a_quotation_mark_of_a_tsv_hides_no_rows(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text('text\tlabel\n"Why not,\t1\nShe left.\t0\nhe said."\t1\n')
    with pytest.raises(ValueError, match="line 4: a tab between quotation marks"):
        own_table.read(str(path), ["text"], "label")


def test_labels_of_the_dev_file_are_known(tmp_path, reviews):
    dev = write_csv(tmp_path / "dev.csv", ["a,1", "b,7"])
    with pytest.raises(ValueError, match=r"dev.csv:3: `stars` must be .*4. Rec.*'7'"):
        own_table.read(reviews, ["review"], "stars", dev)
    with pytest.raises(ValueError, match="column of numbers, for regression"):
        own_table.read(reviews, ["stars"], "review", reviews, True)


def test_a_bag_of_words_learns_words(reviews):
    task, splits = own_table.read(reviews, ["review"], "stars")
    texts = [(f"{word}!",) for word in WORDS]
    found = bag_of_words(task, splits["train"], texts)
    np.testing.assert_array_equal(found, range(4))
    assert bag_of_words(task, splits["train"][:1], texts) is None
