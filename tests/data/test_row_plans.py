"""Plans of large splits: made group by group and once, of the rows of small ones."""

import collections
import shutil
import threading

import numpy as np
import pytest

from seg_tf.data import packing
from seg_tf.data.manifest import Manifest
from tests.data import test_packed_window_inputs as windows
from tests.data import test_reat_inputs as texts
from tests.data.test_window_inputs import assert_same_rows, take

pytestmark = pytest.mark.slow


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
    monkeypatch.setattr(packing, "_ENOUGH_FOR_A_GROUP", 1)
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


def test_ranks_that_start_together_wait_for_one(form, monkeypatch):
    _, form, build, _ = form
    write, written = packing._write, []

    def noted(parent, name, *arguments):
        written.append(name)
        write(parent, name, *arguments)

    monkeypatch.setattr(packing, "_write", noted)
    threads = [threading.Thread(target=lambda: read(build())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(written) == len(set(written)) >= form.plans_of_train


def test_other_settings_have_another_plan(form):
    records_dir, form, build, _ = form
    read(build())
    count = len(list((records_dir / "plans").glob("train-*")))
    read(form.build(records_dir, seed=1))
    assert len(list((records_dir / "plans").glob("train-*"))) > count


@pytest.mark.parametrize("planned_at_once", ["packed windows"], indirect=True)
def test_plans_of_records_that_cannot_be_written_to(form, tmp_path, monkeypatch):
    records_dir, _, build, _ = form
    # Tests may run as a user who may write anywhere.
    (records_dir / "plans").write_text("no folder")
    read(build())
    assert list((tmp_path / "cache" / "seg_tf" / "plans").glob("train-*"))


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


def test_groups_are_consecutive_shards_of_enough_windows(form, monkeypatch):
    records_dir, *_ = form
    manifest = Manifest.load(records_dir)
    sizes = [shard.records for shard in manifest.splits["train"]]
    for enough in (1, sizes[0] + 1, sum(sizes), 10**9):
        monkeypatch.setattr(packing, "_ENOUGH_FOR_A_GROUP", enough)
        groups = packing.groups_of_shards(manifest, "train", "records")
        assert [n for group in groups for n in group] == list(range(len(sizes)))
        for group in groups[:-1]:
            assert sum(sizes[n] for n in group) >= enough
            assert sum(sizes[n] for n in group[:-1]) < enough
