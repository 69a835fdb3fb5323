"""How a script ends: what is said to its user."""

import io
import signal

import pytest

from seg_tf.command_line import Progress
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


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_file_gets_a_plain_line_for_each_report():
    stream = io.StringIO()
    display = Progress(1_000, done=100, stream=stream)
    display.advance(101)
    display.show(
        150, {"loss": 2.5, "learning rate": 1e-4, "tokens per second": 12_345.6}
    )
    display.close()
    (line,) = stream.getvalue().splitlines()
    assert line.startswith(
        "update 150/1,000  loss 2.5000  learning rate 1.00e-04  "
        "tokens per second 12,346  left "
    )


def test_time_left_goes_by_the_updates_of_this_process(monkeypatch):
    times = iter([0.0, 100.0])
    monkeypatch.setattr("time.monotonic", lambda: next(times))
    stream = io.StringIO()
    display = Progress(1_000, 900, stream)
    display.show(950, {})  # 50 updates in 100 s, 50 to go
    assert stream.getvalue().endswith("left 01:40\n")


def test_terminal_gets_a_bar_that_starts_where_the_run_stands():
    stream = Terminal()
    display = Progress(1_000, done=400, stream=stream)
    display.show(500, {"loss": 2.5})
    display.show(500, {"validation loss": 2.75})
    display.advance(500)
    display.close()
    shown = stream.getvalue()
    assert "400/1000" in shown
    last = shown.split("\r")[-1]
    assert "500/1000" in last
    assert "loss=2.5000" in last
    assert "validation loss=2.7500" in last
