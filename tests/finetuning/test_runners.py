"""Which runner a task has, and which flags mean something for it."""

import pytest

from seg_tf import tasks
from seg_tf.finetuning import runners
from seg_tf.finetuning.classification.runner import ClassificationRunner
from seg_tf.finetuning.probing.probe_runner import ProbeRunner
from seg_tf.finetuning.spans.squad_runner import SquadRunner
from tests.finetuning import task_folders, tiny_squad
from tests.finetuning.tiny_models import tiny

OPTIONS = {
    "limit": 8,
    "dev_limit": 3,
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


def test_all_tasks_have_a_kind():
    names = runners.task_names()
    assert set(tasks.names()) < set(names)
    kinds = {name: runners.kind_of(name) for name in names}
    squad = {name for name, kind in kinds.items() if kind is runners.SQUAD}
    assert squad == {"squad/v1.1", "squad/v2.0"}
    assert runners.kind_of("discoeval/ssp", "joint") is runners.PROBE


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


def test_flags_that_apply_are_not():
    everywhere = ["limit", "max_length", "randomly_initialized", "seeds", "output_dir"]
    everywhere.append("sentence_parameters")
    runners.check_flags("glue/rte", [*everywhere, "grid", "epochs", "predict_test"])
    of_squad = ["grid", "epochs", "dev_limit"]
    runners.check_flags("squad/v1.1", [*everywhere, *of_squad])
    runners.check_flags("discoeval/ssp", [*everywhere, "probe"], "joint")
