"""Children that break in every way: what is said of them, and nothing is left."""

import os
import pathlib
import sys
import time

import pytest

from seg_tf.doctor import children

CHECK = "check_tensorflow_text"


def break_import(folder, code):
    """Puts a `tensorflow_text` that does `code` before the installed one."""
    package = folder / "tensorflow_text"
    package.mkdir()
    (package / "__init__.py").write_text(code)
    return {"PYTHONPATH": str(folder)}


def run(folder, code, time_limit=60.0):
    return children.run_probe(CHECK, time_limit, **break_import(folder, code))


def test_an_exception_is_told_with_the_step(tmp_path):
    outcome = run(tmp_path, "raise ImportError('libfoo.so: undefined symbol: bar')")
    assert outcome.ending == children.RAISED
    assert outcome.failure == (
        "ImportError: libfoo.so: undefined symbol: bar while importing tensorflow_text"
    )
    assert "Traceback" in outcome.log


def test_an_error_that_retells_another_is_cut_down_to_it(tmp_path):
    code = """
import traceback
try:
    raise ImportError("libcore.so: file too short")
except ImportError:
    raise ImportError(f"{traceback.format_exc()}\\n\\nFailed to load the runtime.")
"""
    outcome = run(tmp_path, code)
    assert outcome.error == "ImportError: libcore.so: file too short"


def test_an_error_of_many_lines_is_one_line(tmp_path):
    outcome = run(tmp_path, "raise ValueError('one\\n   two\\n' + 'x' * 10_000)")
    assert outcome.error.startswith("ValueError: one two xxx")
    assert len(outcome.error) == 600


def test_a_segmentation_fault_is_told(tmp_path):
    outcome = run(tmp_path, "import ctypes; ctypes.string_at(0)")
    assert outcome.ending == children.KILLED
    assert outcome.failure == (
        "the process was killed by SIGSEGV while importing tensorflow_text"
    )


def test_a_process_that_exits_by_itself_is_told(tmp_path):
    outcome = run(tmp_path, "import os; print('no licence', flush=True); os._exit(7)")
    assert outcome.ending == children.RAISED
    assert outcome.error == "no licence"


def test_leaving_without_an_error_is_no_success(tmp_path):
    outcome = run(tmp_path, "raise SystemExit(0)")
    assert outcome.ending == children.RAISED
    assert "SystemExit" in outcome.error


def test_leaving_at_once_with_status_0_is_no_success(tmp_path):
    outcome = run(tmp_path, "import os; os._exit(0)")
    assert outcome.ending == children.RAISED
    assert outcome.failure == "exit status 0 while importing tensorflow_text"


def test_a_hang_ends_with_all_that_it_started(tmp_path):
    code = f"""
import subprocess, sys, time
sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open({str(tmp_path / "pid")!r}, "w").write(str(sleeper.pid))
time.sleep(600)
"""
    outcome = run(tmp_path, code, time_limit=4)
    assert outcome.ending == children.HUNG
    assert outcome.failure == "nothing came within 4 s while importing tensorflow_text"
    assert ends(int((tmp_path / "pid").read_text()))


def ends(process: int) -> bool:
    """Whether a process is gone, or is soon: it may still have to be reaped."""
    for _ in range(100):
        try:
            state = pathlib.Path(f"/proc/{process}/stat").read_text()
        except OSError:
            return True
        if state.rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False


def test_noise_does_not_disturb(tmp_path):
    code = """
import os, sys
os.write(1, b"\\x00\\xff{]" * 100_000)
print('{"values": {"ids": "from the noise"}}')
class FastBertTokenizer:
    def __init__(self, *args, **kwargs):
        raise ValueError("the end")
"""
    outcome = run(tmp_path, code)
    assert outcome.ending == children.RAISED
    assert outcome.error == "ValueError: the end"
    assert set(outcome.values) == {"path"}
    assert len(outcome.log) <= 200_000
    assert outcome.log.endswith("ValueError: the end\n")


def test_a_report_outlives_its_process(tmp_path):
    code = f"""
import os
from seg_tf.doctor.children import Report
report = Report({str(tmp_path / "report.json")!r})
report.step("one")
report.add(a=[1, 2], b={{"c": "ä"}})
report.step("two")
os.abort()
"""
    status = children.run_command(
        [sys.executable, "-c", code], tmp_path / "log", 60, os.environ
    )
    outcome = children.read_outcome(
        status, tmp_path / "report.json", tmp_path / "log", 60
    )
    assert outcome.values == {"a": [1, 2], "b": {"c": "ä"}}
    assert outcome.failure == "the process was killed by SIGABRT while two"


@pytest.mark.parametrize("content", [None, "", "{half"])
def test_a_report_that_cannot_be_read_is_a_failure(tmp_path, content):
    if content is not None:
        (tmp_path / "report.json").write_text(content)
    (tmp_path / "log").write_text("horovodrun: bad interpreter\n\n")
    outcome = children.read_outcome(127, tmp_path / "report.json", tmp_path / "log", 60)
    assert outcome.failure == "horovodrun: bad interpreter while starting"


def test_a_command_that_is_not_there_is_an_error_of_the_caller(tmp_path):
    with pytest.raises(FileNotFoundError):
        children.run_command(["/no/such/program"], tmp_path / "log", 60, {})


def test_a_child_does_not_inherit_a_place_among_processes(monkeypatch):
    for name in ("HOROVOD_RANK", "HOROVOD_GLOO_RENDEZVOUS_ADDR", "PMI_RANK"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("HOROVOD_LOG_LEVEL", "debug")
    kept = children.environment()
    assert "HOROVOD_LOG_LEVEL" in kept
    assert not {"HOROVOD_RANK", "HOROVOD_GLOO_RENDEZVOUS_ADDR", "PMI_RANK"} & set(kept)
