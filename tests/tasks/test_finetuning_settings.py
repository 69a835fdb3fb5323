"""Settings of papers: grids, and tasks that there are."""

import dataclasses
import math

import pytest

from seg_tf import tasks
from seg_tf.tasks import finetuning_settings
from seg_tf.tasks.finetuning_settings import Setting

SQUAD = {"squad/v1.1", "squad/v2.0"}


def test_settings_that_cannot_be_are_refused():
    for values in ((0.0, 1, 1), (math.nan, 1, 1), (1e-5, -1, 1), (1e-5, 1, math.inf)):
        with pytest.raises(ValueError, match=r"must be (above 0|at least 1)"):
            Setting(*values)


def test_a_grid_has_a_setting_for_every_combination():
    recipe = finetuning_settings.get("segatron", "glue/cola")
    assert len(recipe.settings) == len(set(recipe.settings)) > 1
    for field in dataclasses.fields(Setting):
        values = {getattr(one, field.name) for one in recipe.settings}
        others = {
            dataclasses.replace(one, **{field.name: 1}) for one in recipe.settings
        }
        assert len(values) * len(others) == len(recipe.settings)
    assert recipe.best is None


def test_slm_freezes_the_encoder_for_discoeval_alone():
    for name, recipe in finetuning_settings.RECIPES["slm"].items():
        assert recipe.freezes_encoder == name.startswith("discoeval/")


@pytest.mark.parametrize("recipe", finetuning_settings.RECIPES)
def test_recipes_are_sound(recipe):
    for task, found in finetuning_settings.RECIPES[recipe].items():
        assert task in {*tasks.names(), *SQUAD}
        assert "arXiv" in found.source
        assert found.best is None or found.best in found.settings


@pytest.mark.parametrize(
    "recipe, task, message",
    [
        ("reat", "glue/qqp", "`recipe` must be one of segatron, .* 'reat'"),
        ("slm", "glue/wnli", "`task` must be one of squad/v1.1, .* 'glue/wnli'"),
    ],
)
def test_what_no_paper_has_is_refused(recipe, task, message):
    with pytest.raises(ValueError, match=message):
        finetuning_settings.get(recipe, task)
