"""The doctor as a whole: run for real, and where a check of its own breaks."""

import json
import os
import subprocess
import sys

import pytest

from seg_tf.doctor import __main__ as doctor
from seg_tf.doctor import findings
from tests import command_calls

pytestmark = pytest.mark.slow


def run_doctor(*flags, **variables):
    return subprocess.run(
        [sys.executable, "-m", "seg_tf.doctor", *flags],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_this_installation_is_in_order(tmp_path):
    finished = run_doctor("--json", f"--output_dir={tmp_path}", "--time_limit=300")
    answer = json.loads(finished.stdout)
    assert finished.returncode == int(not answer["ok"])
    checks = [finding["check"] for finding in answer["findings"]]
    assert set(checks) == set(doctor.checks(doctor.Options()))
    problems = [f for f in answer["findings"] if f["level"] == "problem"]
    # This machine may have GPUs and not the libraries for them.
    assert all("GPU" in f["title"] for f in problems), problems
    titles = " ".join(finding["title"] for finding in answer["findings"])
    assert "TensorFlow 2.20" in titles
    if "Horovod is not installed" not in titles:
        assert "two processes here, which add up on the" in titles


def test_a_broken_installation_is_told_in_lines_and_status(tmp_path):
    """All of TensorFlow is broken at once, so the other checks fail with it."""
    (tmp_path / "tensorflow").mkdir()
    broken = tmp_path / "tensorflow" / "__init__.py"
    broken.write_text("raise ImportError('libtensorflow_cc.so.2: file too short')")
    finished = run_doctor("--noall_reduce", PYTHONPATH=str(tmp_path))
    assert finished.returncode == 1
    assert finished.stderr == ""
    assert "problem  TensorFlow does not work\n" in finished.stdout
    cause = "ImportError: libtensorflow_cc.so.2: file too short"
    assert f"         cause: {cause}" in finished.stdout
    assert "         cure:  " in finished.stdout
    # The checks that do not need TensorFlow are still there.
    assert "free in /dev/shm" in finished.stdout
    assert not finished.stdout.endswith(" 0 problems\n")


def test_without_absl_it_still_answers(tmp_path):
    (tmp_path / "absl.py").write_text("raise ImportError('not here')")
    (tmp_path / "tensorflow.py").write_text("raise ImportError('not here either')")
    finished = run_doctor("--json", PYTHONPATH=str(tmp_path))
    assert finished.returncode == 1
    assert "flags are not read" in finished.stderr
    assert "not here either" in finished.stdout


def test_an_old_python_is_told_before_anything_is_imported():
    code = "import sys; sys.version_info = (3, 9, 2); import seg_tf.doctor"
    finished = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert finished.returncode == 1
    assert "3.11 to 3.13 is needed" in finished.stderr
    assert "Traceback" not in finished.stderr


def test_help_teaches():
    finished = command_calls.call("seg_tf.doctor", "--help")
    assert "python -m seg_tf.doctor --hosts=host1:8,host2:8" in finished.stdout
    for flag in ("json", "all_reduce", "hosts", "output_dir", "time_limit"):
        assert f"--{flag}" in finished.stdout.replace("--[no]", "--")


def test_arguments_that_are_no_flags_are_refused():
    finished = command_calls.call("seg_tf.doctor", "quick")
    assert finished.returncode != 0
    assert "unexpected argument 'quick'" in finished.stderr


def test_a_check_that_breaks_is_a_finding():
    def check():
        raise KeyError("gpus")

    (finding,) = doctor.run_check(check)
    assert finding.level == findings.PROBLEM
    assert finding.cause == "KeyError: 'gpus'"


@pytest.mark.parametrize(
    "levels, status", [(["ok"], 0), (["ok", "warning"], 0), (["warning", "problem"], 1)]
)
def test_only_problems_fail(monkeypatch, capsys, levels, status):
    found = [findings.Finding(level, "title") for level in levels]
    monkeypatch.setattr(doctor, "checks", lambda options: {"One": lambda: found})
    assert doctor._status(doctor.run(doctor.Options())) == status
    printed = capsys.readouterr().out
    assert printed.count("title") == len(levels)


def test_findings_are_printed_with_cause_and_cure():
    assert str(findings.problem("It broke", "a cause", "a cure")) == (
        "problem  It broke\n         cause: a cause\n         cure:  a cure"
    )
    assert str(findings.ok("It works")) == "ok       It works"


def test_the_summary_counts_each_level():
    levels = ["ok", "warning", "ok", "problem", "problem"]
    found = [findings.Finding(level, "title") for level in levels]
    assert findings.summary(found) == "2 ok, 1 warning, 2 problems"
    assert findings.summary([]) == "0 ok, 0 warnings, 0 problems"
