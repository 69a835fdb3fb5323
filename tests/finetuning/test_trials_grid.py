"""Grids: those of papers, and given values."""

import dataclasses

import pytest

from seg_tf.finetuning.trial import Setting
from seg_tf.finetuning.trials_grid import make_grid
from tests.finetuning.tiny_models import tiny


def test_default_is_one_setting_and_one_seed():
    grid = make_grid(tiny("bert"), "glue/rte")
    assert grid.settings == (Setting(3e-5, 32, 3),)
    assert grid.seeds == (1,)
    assert grid.row_length is None


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
        ("segabert", "glue/rte", 72, 4, None),
        ("bert", "glue/mnli", 1, 4, None),
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
    ],
)
def test_what_there_is_not_is_an_error(kind, arguments, message):
    with pytest.raises(ValueError, match=message):
        make_grid(tiny(kind), "glue/rte", **arguments)
