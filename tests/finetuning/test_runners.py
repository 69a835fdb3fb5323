"""Which runner a task has, with which flags; grids of papers, and of given values."""

import dataclasses
import math

import pytest

from seg_tf.finetuning import runners
from seg_tf.finetuning.classification import ClassificationRunner
from seg_tf.finetuning.probing import ProbeRunner
from seg_tf.finetuning.runners import make_grid
from seg_tf.finetuning.squad import SquadRunner
from seg_tf.finetuning.trials import Setting
from tests.finetuning import task_folders, tiny_squad
from tests.finetuning.tiny_models import tiny

OPTIONS = {
    "limit": 8,
    "dev_limit": 3,
    "max_rejected_share": 0.0,
    "max_length": None,
    "randomly_initialized": True,
    "keep_pooler": True,
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
    task, probe, expected, data_dir, tmp_path
):
    said = []
    runner = runners.make_runner(
        tiny("slm"),
        task,
        data_dir,
        OPTIONS,
        probe=probe,
        folder=tmp_path,
        report=said.append,
    )
    assert isinstance(runner, expected)
    assert runner.name == task
    assert runner.num_examples == 8
    assert runner.main_metric in runner.baseline
    assert isinstance(runner.baseline_name, str)
    assert set(runner.describe()) >= {"train", "dev"}
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("task", "probe", "given", "message"),
    [
        ("glue/rte", None, "dev_limit", "`--dev_limit` must be left out.*for SQuAD"),
        ("squad/v1.1", None, "predict_test", "`--predict_test` must.*task squad/v1.1"),
        ("squad/v2.0", None, "freeze_encoder", "it is for tasks of classification"),
        ("squad/v2.0", "joint", "probe", "it is for probes of a frozen encoder"),
        ("discoeval/ssp", "joint", "epochs", "classification.* and SQuAD"),
        ("discoeval/ssp", "joint", "early_stopping", "`--early_stopping` must be"),
        ("squad/v3", None, "limit", "`task` must be one of.*squad/v2.0.*perhaps for"),
    ],
)
def test_flags_of_other_kinds_are_refused(task, probe, given, message):
    with pytest.raises(ValueError, match=message):
        runners.check_flags(task, ["checkpoint", given], probe)


# === Grids ===


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
    probe = {"task": "discoeval/ssp", "probe": "joint"}
    grid = make_grid(tiny("bert"), seeds=[0, 3, 0], **probe)
    assert grid.seeds == (0, 3)
    assert [str(one) for one in grid.settings] == ["probe, joint"]
    with pytest.raises(ValueError, match="`seeds` must be 0 or more"):
        make_grid(tiny("bert"), seeds=[-1], **probe)


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
