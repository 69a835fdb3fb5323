"""Grids: those of papers, and given values."""

import dataclasses
import math

import pytest

from seg_tf.finetuning.trials.grid import make_grid, probe_grid
from seg_tf.finetuning.trials.trial import Setting
from tests.finetuning.tiny_models import tiny


def test_default_is_one_setting_and_one_seed():
    grid = make_grid(tiny("bert"), "glue/rte")
    assert grid.settings == (Setting(3e-5, 32, 3),)
    assert grid.seeds == (1,)
    assert grid.row_length is None


def test_a_checkpoint_may_name_the_learning_rate():
    named = dataclasses.replace(tiny("bert"), finetuning_learning_rate=5e-4)
    assert make_grid(named, "glue/rte").settings == (Setting(5e-4, 32, 3),)
    given = make_grid(named, "glue/rte", learning_rates=[1e-5])
    assert given.settings == (Setting(1e-5, 32, 3),)
    of_paper = make_grid(named, "glue/rte", "paper").settings
    assert 5e-4 not in {one.learning_rate for one in of_paper}


def test_given_values_are_all_tried_once():
    grid = make_grid(
        tiny("bert"),
        "glue/rte",
        learning_rates=[1e-5, 2e-5, 1e-5],
        epochs=[2, 3],
        seeds=[5, 4, 5],
    )
    assert grid.settings == (
        Setting(1e-5, 32, 2),
        Setting(1e-5, 32, 3),
        Setting(2e-5, 32, 2),
        Setting(2e-5, 32, 3),
    )
    assert grid.seeds == (5, 4)


@pytest.mark.parametrize(
    ("kind", "task", "num_settings", "num_seeds", "row_length"),
    [
        # 3 rates, 3 batch sizes, 3 to 10 epochs.
        ("segabert", "glue/rte", 72, 4, 128),
        ("bert", "glue/mnli", 1, 4, 128),
        ("slm", "glue/rte", 12, 5, 128),
        ("segabert_slm", "glue/rte", 12, 5, 128),
    ],
)
def test_the_papers_grid_is_that_of_the_model(
    kind, task, num_settings, num_seeds, row_length
):
    grid = make_grid(tiny(kind), task, "paper")
    assert len(set(grid.settings)) == len(grid.settings) == num_settings
    assert grid.seeds == tuple(range(1, 1 + num_seeds))
    assert grid.row_length == row_length


def test_given_values_take_the_place_of_the_papers():
    grid = make_grid(tiny("slm"), "glue/rte", "paper", epochs=[1], seeds=[9])
    assert [dataclasses.astuple(one) for one in grid.settings] == [
        (1e-5, 32, 1),
        (3e-5, 32, 1),
        (5e-5, 32, 1),
    ]
    assert grid.seeds == (9,)


def test_another_papers_grid_can_be_named():
    grid = make_grid(tiny("slm"), "glue/rte", "segabert_base")
    assert grid.settings == (Setting(3e-5, 256, 3),)


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        ("reat", {"grid": "paper"}, "`--grid=paper` needs.*ReATConfig.*--learning"),
        ("bert", {"grid": "other"}, "`recipe` must be one of.*'other'"),
        ("bert", {"epochs": [3, 0]}, r"`epochs` must be positive.*\[3, 0\]"),
        ("bert", {"learning_rates": [-1.0]}, "`learning_rates` must be positive"),
        ("bert", {"learning_rates": [math.inf]}, r"positive and finite.*\[inf\]"),
        ("bert", {"learning_rates": [math.nan]}, r"positive and finite.*\[nan\]"),
        ("bert", {"seeds": [1, -1]}, r"`seeds` must be 0 or more.*\[1, -1\]"),
    ],
)
def test_what_there_is_not_is_an_error(kind, arguments, message):
    with pytest.raises(ValueError, match=message):
        make_grid(tiny(kind), "glue/rte", **arguments)


def test_probes_have_seeds_like_others():
    assert probe_grid("discoeval/ssp", [0, 3, 0]).seeds == (0, 3)
    with pytest.raises(ValueError, match="`seeds` must be 0 or more"):
        probe_grid("discoeval/ssp", [-1])


@pytest.mark.parametrize(
    ("kind", "task", "grid", "freezes"),
    [
        # Section 3.2: "we freeze the encoder and only fine-tune the output layer".
        ("slm", "discoeval/ssp", "paper", True),
        ("slm", "glue/rte", "paper", False),
        ("slm", "discoeval/ssp", None, False),
        ("bert", "discoeval/bso/wiki", "slm", True),
        ("bert", "glue/rte", "paper", False),
    ],
)
def test_the_encoder_is_frozen_where_the_paper_froze_it(kind, task, grid, freezes):
    assert make_grid(tiny(kind), task, grid).freezes_encoder == freezes


def test_what_a_paper_leaves_open_is_told():
    assert make_grid(tiny("bert"), "glue/rte", "paper").notes == ()
    (note,) = make_grid(tiny("bert"), "squad/v2.0", "paper").notes
    assert "does not say how many runs" in note
    (note,) = make_grid(tiny("slm"), "glue/rte", "paper").notes
    assert "reports the best of 5 runs" in note
    assert make_grid(tiny("bert"), "glue/rte").notes == ()
