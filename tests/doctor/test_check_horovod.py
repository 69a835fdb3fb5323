"""Horovod: another TensorFlow's, none, without NCCL; and two processes."""

import sys

import pytest

from seg_tf.doctor import check_all_reduce, check_horovod
from seg_tf.doctor.children import FINISHED, HUNG, KILLED, RAISED, Outcome

STARTS = Outcome({"built_with": ["gloo"], "size": 1})
FACTS = {
    "version": "0.28.1+tf2.20.0.patch2c6f686a",
    "built_for": "2.20.0",
    "tensorflow": "2.20.0",
    "patch": "2c6f686a",
    "processes": "",
    "launcher": "",
    "gpus": 0,
}
UNDEFINED = Outcome(
    {},
    RAISED,
    "NotFoundError: mpi_lib.so: undefined symbol: _ZN10tensorflow",
    "importing horovod.tensorflow",
)


def judge(outcome=STARTS, **facts):
    return check_horovod.judge(outcome, {**FACTS, **facts})


def test_all_is_well():
    (finding,) = judge()
    assert finding.level == "ok"
    assert finding.title.endswith("built with gloo")


def test_a_build_with_options_has_the_same_label():
    version = FACTS["version"] + ".options12345678"
    (finding,) = judge(version=version)
    assert finding.level == "ok"


@pytest.mark.parametrize("outcome", [STARTS, UNDEFINED])
@pytest.mark.parametrize("built_for", ["2.19.1", ""])
def test_a_build_for_another_tensorflow_is_a_problem(outcome, built_for):
    """From its label where the build's own file is missing, imported or not."""
    (finding,) = judge(
        outcome, version="0.28.1+tf2.19.1.patch2c6f686a", built_for=built_for
    )
    assert finding.level == "problem"
    assert finding.title.endswith("is built for TensorFlow 2.19.1")
    assert "TensorFlow 2.20.0 is installed" in finding.cause
    assert finding.cure.endswith("third_party/horovod/build_horovod.py")


def test_an_older_patch_is_a_warning():
    (finding,) = judge(patch="ffffffff")
    assert finding.level == "warning"
    assert "ffffffff" in finding.cause
    assert "2c6f686a" in finding.cause


def test_a_build_from_elsewhere_is_a_warning():
    (finding,) = judge(version="0.28.1")
    assert finding.level == "warning"
    assert "was not built here" in finding.title


def test_gpus_without_nccl_are_a_warning():
    ours, finding = judge(gpus=8)
    assert (ours.level, finding.level) == ("ok", "warning")
    assert finding.cure.startswith("HOROVOD_GPU_OPERATIONS=NCCL make setup")
    with_nccl = Outcome({"built_with": ["gloo", "nccl", "cuda"], "size": 1})
    assert [f.level for f in judge(with_nccl, gpus=8)] == ["ok"]


def test_nccls_library_is_missing():
    outcome = Outcome(
        {}, RAISED, "NotFoundError: libnccl.so.2: cannot open", "importing"
    )
    (finding,) = judge(outcome)
    assert "apt-get install libnccl2" in finding.cure


def test_a_library_that_does_not_load_is_a_problem():
    (finding,) = judge(UNDEFINED)
    assert "undefined symbol" in finding.cause
    assert "build_horovod.py" in finding.cure


def test_a_crash_at_the_start_is_told_apart_from_one_at_the_import():
    starting = "starting Horovod in one process"
    outcome = Outcome({"built_with": ["gloo"]}, KILLED, "SIGABRT", starting)
    (finding,) = judge(outcome)
    assert finding.title.endswith("does not start in one process")
    (finding,) = judge(Outcome({}, HUNG, "60 s", "importing horovod.tensorflow"))
    assert "--time_limit" in finding.cure


def test_horovod_is_a_wish_unless_it_started_us():
    (finding,) = check_horovod.judge_missing({**FACTS, "version": ""})
    assert finding.level == "warning"
    assert "everything works in one process" in finding.cause
    assert finding.cure == "make setup HOROVOD=require"
    started = {**FACTS, "processes": "16", "launcher": "horovodrun"}
    (finding,) = check_horovod.judge_missing(started)
    assert finding.level == "problem"
    assert "horovodrun started 16 processes" in finding.title


def test_processes_of_mpirun_do_not_meet_without_mpi():
    ours, finding = judge(processes="4", launcher="mpirun")
    assert (ours.level, finding.level) == ("ok", "problem")
    assert "mpirun started 4 processes" in finding.title
    with_mpi = Outcome({"built_with": ["gloo", "mpi"], "size": 1})
    assert [f.level for f in judge(with_mpi, processes="4", launcher="mpirun")] == [
        "ok"
    ]
    assert len(judge(processes="4", launcher="horovodrun")) == 1


@pytest.mark.parametrize(
    "variable, launcher",
    [("HOROVOD_SIZE", "horovodrun"), ("OMPI_COMM_WORLD_SIZE", "mpirun")],
)
def test_the_launcher_is_known_by_what_it_sets(monkeypatch, variable, launcher):
    for name in ("HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert check_horovod.gather()["launcher"] == ""
    monkeypatch.setenv(variable, "1")
    assert check_horovod.gather()["launcher"] == ""
    monkeypatch.setenv(variable, "4")
    facts = check_horovod.gather()
    assert (facts["launcher"], facts["processes"]) == (launcher, "4")


def test_started_by_horovodrun_but_not_importable():
    (finding,) = judge(UNDEFINED, processes="16")
    assert finding.level == "problem"
    assert finding.title.endswith("and this is one of 16 processes")


def test_the_real_build_is_read():
    facts = check_horovod.gather()
    if not facts["version"]:
        pytest.skip("Horovod is not installed")
    assert facts["built_for"] == facts["tensorflow"]
    assert f"patch{facts['patch']}" in facts["version"]


def test_two_processes_add_up():
    # Rank 0 sends (1, 2.5), rank 1 twice that.
    assert check_all_reduce.judge(Outcome({"size": 2, "sum": [3.0, 7.5]})).level == "ok"


def test_nccl_is_tried_where_each_process_has_a_gpu():
    values = {"size": 2, "sum": [3.0, 7.5], "device": "GPU"}
    assert check_all_reduce.judge(Outcome(values)).title.endswith("GPUs, by NCCL")
    hidden = {"CUDA_VISIBLE_DEVICES": "-1"}
    assert hidden.items() <= check_all_reduce.variables(["nccl", "gloo"], 1).items()
    assert hidden.items() <= check_all_reduce.variables(["gloo"], 8).items()
    assert "CUDA_VISIBLE_DEVICES" not in check_all_reduce.variables(["nccl"], 2)


def test_a_failure_is_not_hidden_by_a_warning():
    failure, warning = judge(UNDEFINED, patch="ffffffff")
    assert (failure.level, warning.level) == ("problem", "warning")
    assert "undefined symbol" in failure.cause


def test_the_cure_keeps_nccl_where_there_are_gpus():
    outcome = Outcome({}, RAISED, "ImportError: x", "importing horovod.tensorflow")
    (finding,) = judge(outcome, gpus=8, built_for="2.19.1")
    assert finding.cure.startswith("HOROVOD_GPU_OPERATIONS=NCCL ")


@pytest.mark.parametrize("values", [
    {"size": 2, "sum": [1.0, 2.5]},
    {"size": 1, "sum": [3.0, 7.5]},
])  # fmt: skip
def test_processes_that_did_not_meet_are_a_problem(values):
    finding = check_all_reduce.judge(Outcome(values, FINISHED))
    assert finding.level == "problem"
    assert str(values["sum"]) in finding.cause


def test_the_first_error_of_either_process_is_the_cause():
    log = """\
[0]<stdout>:fine
[1]<stderr>:Traceback (most recent call last):
[1]<stderr>:  File "x.py", line 1, in <module>
[1]<stderr>:horovod.common.exceptions.HorovodInternalError: connect timed out
Process 1 exit with status code 1.
RuntimeError: Horovod detected that one or more processes exited
"""
    outcome = Outcome({}, RAISED, "exit status 1", "starting", log)
    finding = check_all_reduce.judge(outcome)
    assert finding.cause == "HorovodInternalError: connect timed out"
    assert finding.cure.endswith(check_all_reduce.TRY_BY_HAND)


def test_a_hang_of_two_processes_is_told():
    outcome = Outcome({}, HUNG, "60 s", "meeting the other process")
    finding = check_all_reduce.judge(outcome)
    assert "nothing came within 60 s while meeting the other process" in finding.cause


def test_horovodrun_has_to_be_that_of_this_environment():
    facts = {"usable": "", "on_path": "/usr/bin/horovodrun"}
    (finding,) = check_all_reduce.judge_launcher(facts, ["gloo"])
    assert finding.level == "problem"
    assert "/usr/bin/horovodrun is another's" in finding.cause
    facts = {"usable": sys.executable, "on_path": "/usr/bin/horovodrun"}
    (finding,) = check_all_reduce.judge_launcher(facts, ["gloo"])
    assert finding.level == "warning"
    facts = {"usable": sys.executable, "on_path": sys.executable}
    assert check_all_reduce.judge_launcher(facts, ["gloo"]) == []


def test_without_gloo_it_is_not_tried():
    facts = {"usable": sys.executable, "on_path": ""}
    (finding,) = check_all_reduce.judge_launcher(facts, ["mpi"])
    assert finding.level == "warning"
    assert "was not tried" in finding.title
