"""Settings of papers: their tables, and tasks that there are."""

import math

import pytest

from seg_tf import tasks
from seg_tf.tasks import finetuning_settings
from seg_tf.tasks.finetuning_settings import OptimizerSettings, Setting

# SLM, table 8, as printed but for SSP, which it misspells.
SLM_TABLE_8 = """
squad/v1.1 2 5e-5
squad/v2.0 2 3e-5
glue/cola 4 1e-5
glue/sst-2 3 3e-5
glue/mrpc 3 3e-5
glue/sts-b 4 1e-5
glue/qqp 4 3e-5
glue/mnli 2 3e-5
glue/qnli 2 3e-5
glue/rte 5 1e-5
discoeval/sp 13 1e-4
discoeval/bso 13 5e-5
discoeval/dc 15 5e-5
discoeval/ssp 10 1e-4
discoeval/pdtb 15 1e-4
"""
ROWS = [line.split() for line in SLM_TABLE_8.split("\n") if line]
SQUAD = {"squad/v1.1", "squad/v2.0"}


@pytest.mark.parametrize("prefix, epochs, rate", ROWS, ids=[row[0] for row in ROWS])
def test_best_of_slm_is_table_8(prefix, epochs, rate):
    of_prefix = [
        finetuning_settings.get("slm", name)
        for name in finetuning_settings.RECIPES["slm"]
        if name == prefix or name.startswith(f"{prefix}/")
    ]
    assert of_prefix
    for recipe in of_prefix:
        assert recipe.best == Setting(float(rate), 32, int(epochs))
        lengths = {"squad": 512, "glue": 128, "discoeval": None}
        assert recipe.row_length == lengths[prefix.split("/")[0]]
        assert (recipe.num_runs, recipe.score) == (5, "best")
        assert recipe.optimizer == OptimizerSettings()


@pytest.mark.parametrize("recipe", ["segatron", "segabert_base"])
def test_segatron_has_the_defaults_of_the_scripts_of_2020(recipe):
    for task, of_task in finetuning_settings.RECIPES[recipe].items():
        assert of_task.optimizer == OptimizerSettings(
            warmup_share=0.0, weight_decay=0.0, epsilon=1e-8, clip_norm=1.0
        )
        assert of_task.row_length == (384 if task in SQUAD else 128)


def test_settings_that_cannot_be_are_refused():
    for values in ((0.0, 1, 1), (math.nan, 1, 1), (1e-5, -1, 1), (1e-5, 1, math.inf)):
        with pytest.raises(ValueError, match=r"must be (above 0|at least 1)"):
            Setting(*values)


@pytest.mark.parametrize("task", ["cola", "mrpc", "rte", "sst-2", "sts-b"])
def test_small_tasks_of_segatron_have_a_grid(task):
    recipe = finetuning_settings.get("segatron", f"glue/{task}")
    expected = {
        Setting(rate, size, epochs)
        for rate in (2e-5, 3e-5, 5e-5)
        for size in (16, 24, 32)
        for epochs in range(3, 11)
    }
    assert len(recipe.settings) == 72
    assert set(recipe.settings) == expected
    assert recipe.best is None
    assert (recipe.num_runs, recipe.score) == (4, "mean")


@pytest.mark.parametrize(
    "recipe, task, rate, size, epochs",
    [
        ("segatron", "glue/qqp", 3e-5, 256, 3),
        ("segatron", "glue/mnli", 3e-5, 256, 3),
        ("segatron", "glue/qnli", 3e-5, 256, 3),
        ("segatron", "squad/v1.1", 3e-5, 128, 4),
        ("segatron", "squad/v2.0", 3e-5, 128, 4),
        ("segabert_base", "glue/rte", 3e-5, 256, 3),
        ("segabert_base", "squad/v1.1", 3e-5, 128, 4),
    ],
)
def test_other_tasks_of_segatron_have_one_setting(recipe, task, rate, size, epochs):
    found = finetuning_settings.get(recipe, task)
    assert found.settings == (found.best,) == (Setting(rate, size, epochs),)


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
