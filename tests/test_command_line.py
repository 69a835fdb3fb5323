"""Commands: their table, their help, and how they end."""

import io
import re
import signal
import subprocess
import sys

import pytest

import seg_tf
from seg_tf import command_table
from seg_tf.command_line import Progress
from tests import command_calls

CONSOLE = (sys.executable, "-c", "from seg_tf.command_table import main; main()")
SCRIPT = """
import os, resource, signal
from seg_tf import command_line
resource.setrlimit(resource.RLIMIT_NOFILE, (300, 700))
def main(_):
    {body}
command_line.run(main{arguments})
"""
TERMINATED = """
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
    finally:
        print("cleaned up")
"""
REPEAT = ". Run the same command again to continue\n"


def call(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["seg-tf", *arguments])
    command_table.main()


def test_the_table_lists_every_module_that_is_a_command(capsys, monkeypatch):
    commands = {
        f"{folder.replace('/', '.')}.{path.stem}"
        for folder in ("seg_tf/commands", "seg_tf", "data_pipelines")
        for path in (command_calls.REPOSITORY / folder).glob("[!_]*.py")
        if re.search(r"^def main\(", path.read_text(), re.M)
    }
    assert {*command_table.MODULES.values()} == commands - {"seg_tf.command_table"}
    call(monkeypatch)
    output = capsys.readouterr().out
    for name in command_table.MODULES:
        assert re.search(rf"^  {name} +[A-Z].*\.$", output, re.M), name


def test_version(capsys, monkeypatch):
    call(monkeypatch, "--version")
    assert capsys.readouterr().out == f"seg-tf {seg_tf.__version__}\n"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pretrane", "no command `pretrane`. Did you mean `pretrain`?"),
        ("build-do", "Did you mean `build-documents`?"),
        ("train", "Did you mean `pretrain` or `train-punkt`?"),
        ("", "no command ``. `seg-tf` lists all"),
        ("zzz", "no command `zzz`. `seg-tf` lists all"),
        ("compare_records", r"`compare-records` was removed in 0.3; builds"),
    ],
)
def test_unknown_names_are_refused_with_a_suggestion(monkeypatch, name, message):
    with pytest.raises(SystemExit, match=re.escape(message)):
        call(monkeypatch, name)


@pytest.mark.parametrize("arguments", ["help", "build-vocab --help"])
def test_a_reader_that_stops_early_sees_no_traceback(arguments):
    # The pipe is closed before the command writes to it.
    ended = subprocess.run(
        ["bash", "-c", f'"$@" {arguments} | true', "bash", *CONSOLE],
        capture_output=True,
        text=True,
    )
    assert ended.stderr == ""


@pytest.mark.slow
def test_help_shows_the_flags_of_all_modules():
    output = command_calls.call("build-records", "--help").stdout
    for name in ("format", "min_line_words", "engine", "report", "window_length"):
        assert f"--{name}:" in output or f"--[no]{name}:" in output
    # Not absl's, which are in --helpfull.
    assert "--logtostderr" not in output


def test_help_says_which_flags_are_required():
    output = command_calls.call("build-vocab", "--help").stdout
    required = re.findall(r"^  --(\w+): \(required\) ", output, flags=re.M)
    assert required == ["format", "output"]


@pytest.mark.parametrize(
    "body, arguments, code, output, errors",
    [
        ("raise KeyboardInterrupt", "", 1, "", "interrupted\n"),
        ("raise KeyboardInterrupt", ", goes_on=True", 1, "", f"interrupted{REPEAT}"),
        ("raise ValueError('bad')", "", 1, "", "error: bad\n"),
        ("raise KeyError('bad')", ", errors=(KeyError,)", 1, "", "error: 'bad'\n"),
        (
            TERMINATED,
            ", goes_on=True",
            128 + signal.SIGTERM,
            "cleaned up\n",
            f"terminated{REPEAT}",
        ),
        (
            "print(resource.getrlimit(resource.RLIMIT_NOFILE))",
            "",
            0,
            "(700, 700)\n",
            "",
        ),
    ],
)
def test_end_of_a_command(body, arguments, code, output, errors):
    script = SCRIPT.format(body=body.lstrip(), arguments=arguments)
    process = command_calls.python("-c", script)
    assert process.communicate() == (output, errors)
    assert process.returncode == code


def test_file_gets_a_plain_line_for_each_report(monkeypatch):
    times = iter([0.0, 100.0])
    monkeypatch.setattr("time.monotonic", lambda: next(times))
    stream = io.StringIO()
    display = Progress(1_000, 900, stream)
    values = {"loss": 2.5, "learning rate": 1e-4, "tokens per second": 12_345.6}
    display.show(950, values)  # 50 updates in 100 s, 50 to go
    display.close()
    assert stream.getvalue() == (
        "update 950/1,000  loss 2.5000  learning rate 1.00e-04  "
        "tokens per second 12,346  left 01:40\n"
    )


def test_terminal_gets_a_bar_that_starts_at_the_resumed_update():
    stream = io.StringIO()
    stream.isatty = lambda: True
    display = Progress(1_000, done=400, stream=stream)
    display.show(500, {"loss": 2.5})
    display.show(500, {"validation loss": 2.75})
    display.advance(500)
    display.close()
    shown = stream.getvalue()
    assert "400/1000" in shown
    last = shown.split("\r")[-1]
    assert re.search("500/1000.*loss=2.5000.*validation loss=2.7500", last)


@pytest.mark.parametrize(
    ("installed", "on_path", "shown"),
    [
        (True, True, "seg-tf demo, seg-tf absent"),
        (True, False, "env/bin/seg-tf demo, env/bin/seg-tf absent"),
        (
            *(False, False),
            "env/bin/python -m seg_tf demo, env/bin/python -m seg_tf absent",
        ),
    ],
)
def test_commands_are_named_as_the_shell_finds_them(
    monkeypatch, tmp_path, installed, on_path, shown
):
    folder = tmp_path / "env" / "bin"
    folder.mkdir(parents=True)
    if installed:
        (folder / "seg-tf").touch(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.setenv("PATH", str(folder) if on_path else "/usr/bin")
    advice = "seg-tf demo, seg-tf absent"
    assert command_table.in_called_form(advice) == shown
