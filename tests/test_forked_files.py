"""Files of tests in processes of their own: what ends with one, and what does not."""

import os
import pathlib
import subprocess
import sys

FIRST = """
import os
import pytest

STATE = []

@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("shared")

@pytest.mark.parametrize("number", range(3))
def test_state_lasts_for_the_file(number, folder):
    STATE.append(folder)
    assert len(STATE) == number + 1
    assert len(set(STATE)) == 1
    os.environ["LEFT"] = "behind"

def test_that_fails(capsys):
    print("seen by nobody")
    assert capsys.readouterr().out == "seen by all"

def test_that_kills_its_process():
    os._exit(3)

def test_after_it():
    assert not STATE

@pytest.mark.skip(reason="as it is")
def test_skipped(): ...
"""
SECOND = """
import os

import test_first

def test_nothing_is_left_of_the_other_file(tmp_path):
    assert not test_first.STATE
    assert "LEFT" not in os.environ
    assert not list(tmp_path.iterdir())
"""


def test_a_file_ends_with_its_process(tmp_path):
    (tmp_path / "test_first.py").write_text(FIRST)
    (tmp_path / "test_second.py").write_text(SECOND)
    command = [sys.executable, "-m", "pytest", "-p", "tests.forked_files", "-rA"]
    options = ["--numprocesses=1", "--dist=loadfile", "--no-loadscope-reorder", "-v"]
    done = subprocess.run(
        [*command, *options, "--rootdir", tmp_path, tmp_path],
        cwd=pathlib.Path(__file__).parents[1],
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=300,
    )
    lines = done.stdout.splitlines()
    assert "2 failed, 5 passed, 1 skipped in" in lines[-1], done.stdout
    (ended,) = [line for line in lines if line.startswith("the process of")]
    assert ended == "the process of test_first.py ended in this test: see its output"
    assert any("test_that_fails" in line and "FAILED" in line for line in lines)
    assert any("SKIPPED" in line and "as it is" in line for line in lines)
