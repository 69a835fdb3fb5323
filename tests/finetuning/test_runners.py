"""Which runner a task has, with which flags; settings of papers, and given ones."""

import dataclasses

import pytest

from seg_tf.finetuning import runners
from seg_tf.finetuning.classification import ClassificationRunner
from seg_tf.finetuning.probing import ProbeRunner
from seg_tf.finetuning.runners import make_recipe
from seg_tf.finetuning.squad import SquadRunner
from seg_tf.tasks import finetuning_settings
from seg_tf.tasks.finetuning_settings import Setting
from tests.finetuning import task_folders, tiny_squad
from tests.finetuning.tiny_models import tiny

OPTIONS = {
    "limit": 8,
    "dev_limit": 3,
    "max_length": None,
    "randomly_initialized": True,
    "freeze_encoder": False,
    "dtype_policy": "float32",
    "predict_test": False,
    "save_model": False,
}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    task_folders.write_rte(folder)
    task_folders.write_bso(folder)
    content = tiny_squad.random_file(1, 3, "v1.1", num_words=20)
    return tiny_squad.write_files(folder, "v1.1", train=content, dev=content)


@pytest.mark.parametrize(
    ("task", "probe", "expected"),
    [
        ("glue/rte", None, ClassificationRunner),
        ("discoeval/bso/wiki", None, ClassificationRunner),
        ("discoeval/bso/wiki", "joint", ProbeRunner),
        ("squad/v1.1", None, SquadRunner),
    ],
)
def test_every_kind_of_task_has_a_runner_of_one_protocol(
    task, probe, expected, data_dir
):
    runner = runners.make_runner(
        tiny("slm"), task, data_dir, OPTIONS, probe=probe, report=bool
    )
    assert isinstance(runner, expected)
    assert runner.name == task
    assert runner.num_examples == 8
    assert runner.main_metric in runner.baselines["without a model"]
    assert set(runner.describe()) >= {"train", "dev"}


@pytest.mark.parametrize(
    ("task", "probe", "given", "message"),
    [
        ("glue/rte", None, "dev_limit", "`--dev_limit` is for SQuAD. .*glue/rte"),
        ("squad/v1.1", None, "predict_test", "`--predict_test` is for classification"),
        ("squad/v2.0", "joint", "probe", "is for probes"),
        ("discoeval/ssp", "joint", "epochs", "classification and SQuAD"),
        ("squad/v3", None, "limit", "`task` must be one of.*squad/v2.0.*'squad/v3'"),
    ],
)
def test_flags_of_other_kinds_are_refused(task, probe, given, message):
    with pytest.raises(ValueError, match=message):
        runners.check_flags(task, ["checkpoint", given], probe)


# === Settings ===


def test_default_is_one_setting_and_a_checkpoint_may_name_the_rate():
    recipe = make_recipe(tiny("bert"), "glue/rte")
    assert recipe.settings == (Setting(3e-5, 32, 3),)
    assert recipe.num_runs is recipe.row_length is None
    named = dataclasses.replace(tiny("bert"), finetuning_learning_rate=5e-4)
    assert make_recipe(named, "glue/rte").settings == (Setting(5e-4, 32, 3),)
    given = make_recipe(named, "glue/rte", learning_rates=[1e-5])
    assert given.settings == (Setting(1e-5, 32, 3),)
    assert 5e-4 not in make_recipe(named, "glue/rte", "paper").learning_rates


def test_given_values_are_all_tried_once():
    rates = [1e-5, 2e-5, 1e-5]
    recipe = make_recipe(tiny("bert"), "glue/rte", learning_rates=rates, epochs=[2, 3])
    assert recipe.settings == (
        Setting(1e-5, 32, 2),
        Setting(1e-5, 32, 3),
        Setting(2e-5, 32, 2),
        Setting(2e-5, 32, 3),
    )


def test_the_papers_grid_is_that_of_the_model():
    recipe = make_recipe(tiny("slm"), "discoeval/ssp", "paper")
    # Section 3.2: "we freeze the encoder and only fine-tune the output layer".
    assert recipe.freezes_encoder
    assert recipe.settings == finetuning_settings.get("slm", "discoeval/ssp").settings


def test_what_there_is_not_is_an_error():
    with pytest.raises(ValueError, match=r"`--grid=paper` needs.*--learning_rate"):
        make_recipe(tiny("reat"), "glue/rte", "paper")
    with pytest.raises(ValueError, match=r"`recipe` must be one of.*'other'"):
        make_recipe(tiny("bert"), "glue/rte", "other")


def test_a_probe_has_the_setting_of_its_protocol():
    recipe = make_recipe(tiny("bert"), "discoeval/ssp", probe="joint")
    assert recipe.settings == (Setting(1e-3, 64, 51),)
