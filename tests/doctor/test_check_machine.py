"""The machine: every limit is a warning with a reason, none a problem."""

import resource

import pytest

from seg_tf.doctor import check_machine

GIB = 2**30
FACTS = {
    "cores": 16,
    "memory": 64 * GIB,
    "output_dir": "/data/runs",
    "disk": 500 * GIB,
    "writable": True,
    "shared_memory": 8 * GIB,
    "open_files": 65536,
    "ssh": "/usr/bin/ssh",
    "gpus": 8,
}


def warnings(**changes):
    findings = check_machine.judge({**FACTS, **changes})
    assert len(findings) == 5
    assert {finding.level for finding in findings} <= {"ok", "warning"}
    return [finding for finding in findings if finding.level == "warning"]


def test_all_is_well():
    assert warnings() == []


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"memory": 3 * GIB}, "3.0 GiB of memory"),
        ({"cores": 8}, "8 cores, 64.0 GiB of memory for 8 GPUs"),
        ({"disk": 5 * GIB}, "5.0 GiB free for /data/runs"),
        ({"writable": False}, "cannot be written to"),
        ({"shared_memory": None}, "no /dev/shm"),
        ({"shared_memory": 64 * 2**20}, "0.1 GiB free in /dev/shm"),
        ({"open_files": 256}, "256 open files"),
        ({"ssh": ""}, "no ssh client"),
    ],
)
def test_each_shortage_is_one_warning(changes, words):
    (finding,) = warnings(**changes)
    assert words in finding.title
    assert finding.cause
    assert finding.cure


def test_what_only_several_gpus_need_is_not_asked_of_others():
    assert warnings(shared_memory=64 * 2**20, cores=1, gpus=0) == []


def test_no_limit_is_no_small_limit():
    assert warnings(open_files=resource.RLIM_INFINITY) == []


def test_the_folder_of_runs_need_not_be_there(tmp_path):
    facts = check_machine.gather(str(tmp_path / "a" / "b"))
    assert facts["output_dir"] == str(tmp_path / "a" / "b")
    assert facts["writable"]
    assert facts["disk"] > 0
    assert facts["cores"] >= 1
    assert not (tmp_path / "a").exists()
