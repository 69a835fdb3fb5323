"""Shared by the command-line scripts: clean errors, warnings, progress, exit codes."""

import logging
import os
import resource
import signal
import sys
import time
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TextIO

from absl import app, flags
from absl import logging as absl_logging
from tqdm import tqdm


def _quiet_tensorflow() -> None:
    """Hides TensorFlow's start-up messages; has to run before it is imported.

    Errors stay visible where there is a GPU; where there is none, the only one is
    that there is none.
    """
    has_gpu = os.path.exists("/dev/nvidiactl")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2" if has_gpu else "3")


# Scripts import this module before any that imports TensorFlow; `import
# seg_tf.command_line as command_line` is what is sorted to the top of the project's.
_quiet_tensorflow()

# `_show_all_flags` adopts flags for the script that calls `run`, not for this module.
flags.disclaim_key_flags()

# Errors that are the user's to fix; anything else keeps its stack trace.
USER_ERRORS = (ValueError, OSError)

_TERMINATED = 128 + signal.SIGTERM  # As a shell says it.

_OPEN_FILES = 65_536


class Terminated(BaseException):
    """SIGTERM, raised where the main thread was: what it started has to be ended."""


def run(
    main: Callable[[Sequence[str]], None],
    *more_errors: type[Exception],
    goes_on: bool = False,
    parse_flags: Callable[[Sequence[str]], list[str]] | None = None,
) -> None:
    """Runs `main` under absl; prints a user's error as one line and exits with 1.

    Args:
        main: what to run.
        *more_errors: errors that are the user's to fix, besides `USER_ERRORS`.
        goes_on: whether the same command, given again, continues where it stopped.
            SIGTERM then raises `Terminated` in `main`, which ends what it started, and
            is reported. It ends other commands at once.
        parse_flags: reads the flags, for a command that has more to say where one is
            wrong than absl has.
    """

    def guarded(argv: Sequence[str]) -> None:
        if len(argv) > 1:
            sys.exit(f"error: unexpected argument {argv[1]!r}; all options are flags")
        # Plain words instead of absl's letter, date, process and line.
        formatter = logging.Formatter("%(levelname)s: %(message)s")
        absl_logging.get_absl_handler().setFormatter(formatter)
        raise_open_files()
        hint = ". Run the same command again to go on" if goes_on else ""
        if goes_on:
            signal.signal(signal.SIGTERM, _raise_terminated)
        try:
            main(argv)
        except BrokenPipeError:
            # The reader of our output, such as `head`, has seen enough.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except (*USER_ERRORS, *more_errors) as error:
            if os.environ.get("SEG_TF_TRACEBACK"):
                raise
            sys.exit(f"error: {error}")
        except KeyboardInterrupt:
            sys.exit(f"interrupted{hint}")
        except Terminated:
            print(f"terminated{hint}", file=sys.stderr)
            sys.exit(_TERMINATED)

    _show_all_flags()
    logging.addLevelName(logging.WARNING, "warning")
    app.run(guarded, flags_parser=parse_flags or app.parse_flags_with_usage)


def _raise_terminated(number: int, frame: types.FrameType | None) -> NoReturn:
    del frame
    # A second one does not wait for what the first one ends.
    signal.signal(number, signal.SIG_DFL)
    raise Terminated


def raise_open_files() -> None:
    """Raises the soft limit on open files as far as the hard one allows.

    Shells and services start programs with 1024, whatever the hard limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _show_all_flags() -> None:
    """Makes `--help` tell of all flags of the project, whatever module defines them.

    absl shows those that the script itself defines, and the rest by `--helpfull`, which
    are hundreds.
    """
    for name in list(flags.FLAGS.flags_by_module_dict()):
        if name.partition(".")[0] in ("seg_tf", "data_pipelines"):
            flags.adopt_module_key_flags(sys.modules[name])


def progress_bar(total: int, description: str, unit: str = "B") -> tqdm:
    """A progress bar with ETA on stderr; sparse plain lines where it is no terminal."""
    interactive = sys.stderr.isatty()
    return tqdm(
        total=total,
        desc=description,
        unit=unit,
        unit_scale=True,
        mininterval=0.2 if interactive else 10.0,
        dynamic_ncols=interactive,
        smoothing=0.1,
    )


class Progress:
    """A bar with the time left in a terminal; elsewhere a plain line per report.

    Args:
        total: updates, or other units, in all.
        done: those done before this process.
        stream: where to write; None takes stderr.
        **bar: more arguments of `tqdm`.
    """

    def __init__(
        self, total: float, done: float = 0, stream: TextIO | None = None, **bar: Any
    ):
        self._total, self._first = total, done
        self._stream = stream or sys.stderr
        self._start = time.monotonic()
        self.bar = tqdm(
            total=total,
            initial=done,
            file=self._stream,
            dynamic_ncols=True,
            disable=not self._stream.isatty(),
            **bar,
        )
        self._shown: dict[str, str] = {}

    def advance(self, done: float) -> None:
        """Moves the bar; called after every update, with those done."""
        self.bar.update(done - self.bar.n)

    def show(self, updates: int, values: Mapping[str, float | str]) -> None:
        """Called at every log interval and after every validation.

        Args:
            updates: updates done.
            values: by short names; strings are shown as they are.
        """
        texts = {name: _format(value) for name, value in values.items()}
        # Values of the last validation stay beside those of training.
        self._shown.update(texts)
        self.bar.set_postfix(self._shown, refresh=False)
        self.line(f"update {updates:,}/{self._total:,}  {joined(texts)}", updates)

    def line(self, text: str, done: float) -> None:
        """Prints a line with the time left, where there is no bar."""
        if not self.bar.disable:
            return
        left = "?"
        if done > self._first:
            rate = (time.monotonic() - self._start) / (done - self._first)
            left = tqdm.format_interval(rate * (self._total - done))
        print(f"{text}  left {left}", file=self._stream, flush=True)

    def close(self) -> None:
        """Called once at the end."""
        self.bar.close()


def joined(texts: Mapping[str, str]) -> str:
    """Names and texts in a line."""
    return "  ".join(f"{name} {text}" for name, text in texts.items())


def _format(value: float | str) -> str:
    if isinstance(value, str):
        return value
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.2e}" if 0 < value < 0.001 else f"{value:.4f}"


def aligned_table(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells as text, in columns of equal width."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            # Words to the left, numbers to the right.
            cell.ljust(width) if number < 2 else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
