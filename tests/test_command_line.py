"""How a script ends: what is said to its user."""

import signal

import pytest

from tests import command_calls

SCRIPT = """
from seg_tf import command_line
def main(_):
    raise {error}
command_line.run(main{arguments})
"""


TERMINATED = """
import os, signal
from seg_tf import command_line
def main(_):
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
    finally:
        print("ended what it had started")
command_line.run(main, goes_on=True)
"""

OPEN_FILES = """
import resource
from seg_tf import command_line
resource.setrlimit(resource.RLIMIT_NOFILE, (300, 700))
command_line.run(lambda _: print(resource.getrlimit(resource.RLIMIT_NOFILE)))
"""


def test_as_many_files_may_be_open_as_the_system_allows():
    process = command_calls.python("-c", OPEN_FILES)
    output, errors = process.communicate()
    assert (output, errors) == ("(700, 700)\n", "")


def test_sigterm_ends_what_a_command_has_started():
    process = command_calls.python("-c", TERMINATED)
    output, errors = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    assert output == "ended what it had started\n"
    assert errors == "terminated. Run the same command again to go on\n"


@pytest.mark.slow
def test_help_tells_of_the_flags_of_all_modules():
    output = command_calls.call("data_pipelines.build_records", "--help").stdout
    for name in ("format", "min_line_words", "engine", "report", "window_length"):
        assert f"--{name}:" in output or f"--[no]{name}:" in output
    # Not absl's own, which --helpfull has.
    assert "--logtostderr" not in output


@pytest.mark.parametrize(
    "error, arguments, expected",
    [
        ("KeyboardInterrupt", "", "interrupted\n"),
        (
            "KeyboardInterrupt",
            ", goes_on=True",
            "interrupted. Run the same command again to go on\n",
        ),
        ("ValueError('of yours')", "", "error: of yours\n"),
        ("KeyError('of yours')", ", KeyError", "error: 'of yours'\n"),
    ],
)
def test_end_of_a_script_is_one_line(error, arguments, expected):
    code = SCRIPT.format(error=error, arguments=arguments)
    process = command_calls.python("-c", code)
    _, errors = process.communicate()
    assert process.returncode == 1
    assert errors == expected
