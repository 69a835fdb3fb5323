"""The doctor, on this installation and on broken ones."""

import os
import subprocess
import sys

import pytest

from seg_tf import doctor


def run_doctor(*flags, **variables):
    return subprocess.run(
        [sys.executable, "-m", "seg_tf.doctor", *flags],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_this_installation_is_in_order():
    finished = run_doctor()
    problems = [s for s in finished.stdout.splitlines() if s.startswith("problem")]
    # This machine may have GPUs without the libraries for them.
    assert all("GPU" in line for line in problems), finished.stdout
    assert finished.returncode == bool(problems)
    assert "tensorflow 2.20" in finished.stdout
    if "Horovod is not installed" not in finished.stdout:
        assert "two processes sum a tensor on the" in finished.stdout


def test_a_broken_tensorflow_is_reported(tmp_path):
    (tmp_path / "tensorflow.py").write_text("raise ImportError('libfoo: too short')")
    finished = run_doctor("--noall_reduce", PYTHONPATH=str(tmp_path))
    assert (finished.returncode, finished.stderr) == (1, "")
    message = "problem  TensorFlow and Keras: exit status 1: ImportError: libfoo: too"
    assert message in finished.stdout


def test_gpus_backends_and_horovod_are_compared(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    facts = {"versions": "tensorflow 2.20.0", "backend": "tensorflow", "gpus": ["H100"]}
    assert all(line[:2] == "ok" for line in doctor.check_tensorflow(facts, 1))
    assert "sees 1 of 2 GPUs" in doctor.check_tensorflow(facts, 2)[-1]
    jax = doctor.check_tensorflow({**facts, "backend": "jax"}, 1)
    assert any("export KERAS_BACKEND=tensorflow" in line for line in jax)
    build = "0.28.1+tf2.20.0.patch2c6f686a"
    for version, tensorflow, level in [
        (build, "2.20.0", "ok"),
        (build, "2.21.0", "problem"),
        ("0.28.1", "2.20.0", "warning"),
        ("", "2.20.0", "warning"),
    ]:
        assert doctor.check_build(version, tensorflow).startswith(level)
    facts = {"size": 1, "sum": [1.0, 2.5], "device": "CPU"}
    assert doctor.check_sum(facts).startswith("problem")


def test_a_failed_probe_says_how(monkeypatch):
    # Ranks of a run are not inherited.
    monkeypatch.setenv("HOROVOD_RANK", "1")
    for code, failure in [
        ("import os; exit(4 + ('HOROVOD_RANK' in os.environ))", "exit status 4: "),
        ("import time; print(1); time.sleep(600)", "no answer within 1 s"),
    ]:
        facts = doctor.run_probe(sys.executable, "-c", code, time_limit=1)
        assert failure in facts["failure"]
