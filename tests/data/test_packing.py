"""Packing and plans of rows: nothing lost, tight, shuffled, and planned once."""

import collections
import shutil

import numpy as np
import pytest

from seg_tf.data import packing
from tests.data import test_packed_window_inputs as windows
from tests.data import test_reat_inputs as texts
from tests.data.test_window_inputs import assert_same_rows, take

pytestmark = pytest.mark.slow


ROW_LENGTH = 64


def rows_of(packs):
    return [
        packs.members[begin:end].tolist()
        for begin, end in zip(packs.offsets[:-1], packs.offsets[1:], strict=True)
    ]


def spaces_of_plain_best_fit(lengths, row_length, max_windows):
    """Best-fit decreasing, one window and one row at a time."""
    rows = []
    for length in sorted(lengths, reverse=True):
        fits = [
            row
            for row in rows
            if row_length - sum(row) >= length and len(row) < max_windows
        ]
        if fits:
            min(fits, key=lambda row: row_length - sum(row)).append(length)
        else:
            rows.append([length])
    return sorted(row_length - sum(row) for row in rows)


LENGTHS = {
    "random": np.random.default_rng(0).integers(3, ROW_LENGTH + 1, 700),
    "mostly long": 64 - np.random.default_rng(1).geometric(0.2, 500).clip(max=61),
    "mostly short": np.random.default_rng(2).geometric(0.1, 500).clip(3, 64),
    "shortest only": np.full(500, 3),
    "all full": np.full(20, 64),
    "half and a bit more": np.array([33] * 9 + [32] * 7 + [31] * 5),
    "one": np.array([7]),
    "none": np.zeros(0, int),
}
all_lengths = pytest.mark.parametrize(
    "lengths", [pytest.param(value, id=name) for name, value in LENGTHS.items()]
)


@all_lengths
@pytest.mark.parametrize("max_windows", [1, 2, 3, 8, 64])
def test_every_window_is_in_one_row_that_holds_it(lengths, max_windows):
    packs = packing.pack(lengths, ROW_LENGTH, max_windows, seed=0)
    rows = rows_of(packs)
    assert len(packs) == len(rows)
    assert sorted(packs.members) == list(range(len(lengths)))
    for row in rows:
        assert 1 <= len(row) <= max_windows
        assert sum(lengths[row]) <= ROW_LENGTH
    if max_windows == 1:
        assert len(rows) == len(lengths)


@all_lengths
def test_spaces_are_those_of_best_fit_one_by_one(lengths):
    # Without a limit: rows with the same space are the same to best fit then.
    packs = packing.pack(lengths, ROW_LENGTH, ROW_LENGTH, seed=0)
    spaces = sorted(ROW_LENGTH - sum(lengths[row]) for row in rows_of(packs))
    assert spaces == spaces_of_plain_best_fit(lengths, ROW_LENGTH, ROW_LENGTH)


def test_the_seed_alone_decides():
    lengths = LENGTHS["random"]
    first, again, other = (
        rows_of(packing.pack(lengths, ROW_LENGTH, 8, seed=seed)) for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other
    assert [sorted(lengths[row]) for row in first] == [
        sorted(lengths[row]) for row in other
    ]


def test_the_packs_are_the_same_in_every_version():
    # A change of these numbers would break the resumption of running jobs.
    packs = packing.pack(np.array([9, 3, 3, 5, 10, 4, 3, 7]), 12, 3, seed=42)
    assert rows_of(packs) == GOLDEN_ROWS


GOLDEN_ROWS = [[7, 3], [0, 2], [5, 1, 6], [4]]


@pytest.mark.parametrize("length", [0, ROW_LENGTH + 1])
def test_windows_that_no_row_can_hold_are_refused(length):
    with pytest.raises(ValueError, match=rf"`row_length`=64.*{length}"):
        packing.pack(np.array([5, length]), ROW_LENGTH, 8, seed=0)


class PackedWindows:
    """Records of windows, packed; plans are of the training split alone."""

    plans_of_train = 1

    @staticmethod
    def write(folder):
        lengths = [*windows.EXTREMES, *np.random.default_rng(4).integers(1, 50, 40)]
        return windows.write(folder, lengths)

    build = staticmethod(windows.build)

    @staticmethod
    def content(rows):
        """How often each window, with its masks, is in the rows."""
        return collections.Counter(
            (windows.original_pieces(window), *window["masked_positions"].tolist())
            for window in windows.split_rows(rows)
        )


class Texts:
    """Records of windows as rows of texts: a plan for short and one for long ones."""

    plans_of_train = 2
    write = staticmethod(texts.write)
    build = staticmethod(texts.build)

    @staticmethod
    def content(rows):
        """How often each sentence of a short text is in the rows."""
        return collections.Counter(
            tuple(sentence)
            for _, _, text in texts.texts_of(rows)
            for _, sentence in text
        )


FORMS = {"packed windows": PackedWindows, "texts": Texts}


def read(inputs):
    return take(inputs.train_dataset(4), inputs.num_train_samples)


@pytest.fixture(scope="module", params=FORMS)
def planned_at_once(request, tmp_path_factory):
    """The form, its records, arguments to build it, and its rows planned at once."""
    form = FORMS[request.param]
    records_dir = form.write(tmp_path_factory.mktemp("records"))
    # Long texts are drawn from all of them.
    arguments = {"long_rate": 0.0} if form is Texts else {}
    with pytest.MonkeyPatch.context() as monkeypatch:
        cache = tmp_path_factory.mktemp("cache")
        monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
        at_once = read(form.build(records_dir, **arguments))
    assert not (records_dir / "plans").exists()
    return form, records_dir, arguments, at_once


@pytest.fixture
def form(planned_at_once, tmp_path, monkeypatch):
    """Records of shards that are a group each, the form, and rows planned at once."""
    form, written, arguments, at_once = planned_at_once
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    records_dir = shutil.copytree(written, tmp_path / "records")
    monkeypatch.setattr(packing, "_GROUP_SIZE", 1)
    return records_dir, form, lambda: form.build(records_dir, **arguments), at_once


def test_every_window_is_in_a_row_as_if_planned_at_once(form):
    _, form, build, at_once = form
    inputs = build()
    rows = read(inputs)
    assert form.content(rows) == form.content(at_once)
    assert inputs.fill == pytest.approx(rows["padding_mask"].mean())
    assert rows["token_ids"].shape != at_once["token_ids"].shape  # fewer fill a row


def test_a_plan_is_made_once(form, monkeypatch):
    records_dir, form, build, _ = form
    rows = read(build())
    plans = sorted((records_dir / "plans").glob("train-*"))
    assert len(plans) == form.plans_of_train
    assert not list((records_dir / "plans").glob(".aside*"))

    def never(*_):
        raise AssertionError("planned again")

    monkeypatch.setattr(packing, "_write", never)
    assert_same_rows(read(build()), rows)


@pytest.mark.parametrize("planned_at_once", ["packed windows"], indirect=True)
def test_a_damaged_plan_is_named(form):
    records_dir, _, build, _ = form
    read(build())
    (plan,) = (records_dir / "plans").glob("train-*")
    with open(plan / "members", "ab") as file:
        file.write(b"x")
    with pytest.raises(ValueError, match=f"{plan}/members: expected .* bytes, found"):
        read(build())


@pytest.mark.parametrize("planned_at_once", ["packed windows"], indirect=True)
def test_a_killed_plan_is_made_anew(form, monkeypatch):
    records_dir, _, build, at_once = form

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(packing.files, "write_json", killed)
        with pytest.raises(KeyboardInterrupt):
            read(build())
    assert not list((records_dir / "plans").glob("train-*"))
    assert PackedWindows.content(read(build())) == PackedWindows.content(at_once)
