"""Probes: however a process ends, the doctor has facts or one sentence."""

import os
import sys
import time

import pytest

from seg_tf.doctor import probes


def run(code, time_limit=60, **variables):
    return probes.run([sys.executable, "-c", code], time_limit, **variables)


def test_facts_are_found_among_other_output():
    answer = run("print('hello'); print('[0]<stdout>:seg_tf.doctor: {\"a\": [1]}')")
    assert answer.facts == {"a": [1]}
    assert answer.failure == ""
    assert "hello" in answer.output


@pytest.mark.parametrize(
    "code, failure",
    [
        ("import no_such_package", "ModuleNotFoundError: No module named 'no_such"),
        ("import os; os.kill(os.getpid(), 11)", "was killed by SIGSEGV"),
        ("import sys; print('odd'); sys.exit(3)", "exit status 3: odd"),
        ("raise SystemExit(4)", "exit status 4: it printed nothing"),
        (
            "print('[1]<stderr>:ssh: Permission denied\\nbye'); raise SystemExit(1)",
            "ssh: Permission denied",
        ),
        # What was printed before a failure is not believed.
        ("print('seg_tf.doctor: {}'); raise ValueError('late')", "ValueError: late"),
    ],
)
def test_a_failure_is_one_sentence(code, failure):
    answer = run(code)
    assert failure in answer.failure
    assert "\n" not in answer.failure
    assert answer.facts == {}


@pytest.mark.slow
def test_a_process_that_hangs_is_ended_with_those_it_started(tmp_path, monkeypatch):
    monkeypatch.setattr(probes, "_SECONDS_TO_END", 0.5)
    code = f"""
import pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path({str(tmp_path / "pid")!r}).write_text(str(child.pid))
print("started", flush=True)
time.sleep(600)
"""
    answer = run(code, time_limit=5)
    assert answer.failure == "no answer within 5 s"
    assert "started" in answer.output
    child = int((tmp_path / "pid").read_text())
    for _ in range(100):
        # Its parent is gone, so that some other process has to collect it.
        if not os.path.exists(f"/proc/{child}") or " Z " in _stat(child):
            break
        time.sleep(0.1)
    else:
        pytest.fail(f"process {child} is alive")


def _stat(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read()
    except FileNotFoundError:
        return " Z "


def test_a_program_that_is_missing_is_named():
    answer = probes.run(["/no/such/program"], 1)
    assert "/no/such/program cannot be started" in answer.failure


def test_ranks_of_a_run_are_not_inherited(monkeypatch):
    monkeypatch.setenv("HOROVOD_RANK", "1")
    monkeypatch.setenv("SLURM_PROCID", "1")
    code = "import os; assert not {'HOROVOD_RANK', 'SLURM_PROCID'} & {*os.environ}"
    answer = run(f"{code}; print('seg_tf.doctor: {{}}', os.environ['GIVEN'])", GIVEN="")
    assert answer.failure == ""


def test_the_installation_of_this_machine():
    facts = probes.run(probes.command_of("installation"), 60).facts
    assert facts == probes.installation()
    assert facts["packages"]["tensorflow"].startswith("2.20")
