"""Runs commands, reports their errors, checks output paths and shows progress."""

import importlib
import logging
import os
import pathlib
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

from seg_tf.command_table import in_called_form, quiet_broken_pipe

# Hides TensorFlow's startup messages. Commands import this module before TensorFlow.
# Without a GPU, the only error message is about the missing GPU.
_HAS_GPU = os.path.exists("/dev/nvidiactl")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2" if _HAS_GPU else "3")

_OPEN_FILES = 65_536


class Terminated(BaseException):
    """Raised in the main thread on SIGTERM, so that a command's cleanup code runs."""


def run_command(module: str) -> None:
    """Imports a command module, calls its `define_flags`, if any, and runs its `main`.

    If the module has a dict `RUN`, its items are passed to `run` as keyword arguments.
    """
    command = importlib.import_module(module)
    getattr(command, "define_flags", list)()
    run(command.main, **getattr(command, "RUN", {}))


def run(
    main: Callable[[Sequence[str]], None],
    *,
    errors: tuple[type[Exception], ...] = (ValueError, OSError),
    goes_on: bool = False,
    takes_arguments: bool = False,
    parse_flags: Callable[[Sequence[str]], list[str]] | None = None,
) -> None:
    """Runs `main` with absl. Prints user errors as one line, with exit status 1.

    Args:
        main: the command's function, called with the program's name and arguments.
        errors: classes of user errors. Other errors, and all errors if the environment
            variable `SEG_TF_TRACEBACK` is set, are shown with a traceback.
        goes_on: whether repeating the command resumes it. If True, SIGTERM raises
            `Terminated` in `main` for cleanup. If False, SIGTERM ends the process.
        takes_arguments: whether `main` accepts positional arguments.
        parse_flags: function that replaces absl's flag parser.
    """

    def guarded(argv: Sequence[str]) -> None:
        if len(argv) > 1 and not takes_arguments:
            sys.exit(f"error: unexpected argument {argv[1]!r}; all options are flags")
        # Replaces absl's prefix of letter, date, process and line.
        formatter = logging.Formatter("%(levelname)s: %(message)s")
        absl_logging.get_absl_handler().setFormatter(formatter)
        raise_open_files()
        hint = ". Run the same command again to continue" if goes_on else ""
        if goes_on:
            signal.signal(signal.SIGTERM, _raise_terminated)
        try:
            main(argv)
        except BrokenPipeError:
            raise
        except errors as error:
            if os.environ.get("SEG_TF_TRACEBACK"):
                raise
            sys.exit(f"error: {in_called_form(str(error))}")
        except KeyboardInterrupt:
            sys.exit(f"interrupted{hint}")
        except Terminated:
            print(f"terminated{hint}", file=sys.stderr)
            sys.exit(128 + signal.SIGTERM)  # The status that shells report.

    _show_all_flags()
    script = sys.modules["__main__"]
    script.__doc__ = in_called_form(script.__doc__ or "")
    logging.addLevelName(logging.WARNING, "warning")
    with quiet_broken_pipe():
        app.run(guarded, flags_parser=parse_flags or app.parse_flags_with_usage)


def _raise_terminated(number: int, frame: types.FrameType | None) -> NoReturn:
    del frame
    # A second SIGTERM ends the process without cleanup.
    signal.signal(number, signal.SIG_DFL)
    raise Terminated


def raise_open_files() -> None:
    """Increases the limit on open files to 65,536, or as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _show_all_flags() -> None:
    """Makes `--help` list the flags of all project modules and mark required ones."""
    modules = flags.FLAGS.flags_by_module_dict()
    for flag in tuple(modules.get("absl.testing.absltest", ())):
        delattr(flags.FLAGS, flag.name)  # Not flags of ours to suggest.
    for name in list(modules):
        for flag in modules[name] if name.startswith(("seg_tf", "data_pip")) else ():
            flags.FLAGS.register_key_flag_for_module(sys.argv[0], flag)
    for flag in map(flags.FLAGS.__getitem__, flags.FLAGS):
        # Absl only records this in a validator and does not show it.
        if any("other than None" in rule.message for rule in flag.validators):
            flag.help = f"(required) {flag.help}"


def local_path(value: str, flag: str, kind: str = "folder") -> pathlib.Path:
    """Converts a flag's value to a local path. Raises ValueError for a URL."""
    if "://" in value:
        raise ValueError(
            f"`--{flag}` must be a {kind} of this machine or of a shared file system. "
            f"Received: {value!r}"
        )
    return pathlib.Path(value)


def file_path(value: str, flag: str) -> pathlib.Path:
    """Converts a flag's value to the path of an output file.

    Raises ValueError if it is empty, a URL or a folder, or its parent is not writable.
    """
    path = local_path(value, flag, "file")
    is_name = value and not value.endswith("/") and not path.is_dir()
    if not (is_name and path.parent.is_dir() and os.access(path.parent, os.W_OK)):
        raise ValueError(
            f"`--{flag}` must name a file in a folder that exists and is writable. "
            f"Received: {value!r}"
        )
    return path


def folder_path(value: str, flag: str = "output_dir") -> pathlib.Path:
    """Converts a flag's value to the path of an output folder, which need not exist.

    Raises ValueError if it is empty, a URL or a file, or the folder is not writable.
    """
    folder = local_path(value, flag)
    parents = (folder, *folder.absolute().parents)
    existing = next(path for path in parents if path.exists())
    if not (value and existing.is_dir() and os.access(existing, os.W_OK)):
        raise ValueError(
            f"`--{flag}` must name a writable folder, which is created if needed. "
            f"Received: {value!r}, in {existing}"
        )
    return folder


def progress_bar(total: int, description: str, unit: str = "B") -> tqdm:
    """Returns a `tqdm` bar on stderr, refreshed less often outside a terminal."""
    interval = 0.2 if sys.stderr.isatty() else 10.0
    return tqdm(
        total=total, desc=description, unit=unit, unit_scale=True, mininterval=interval
    )


class Progress:
    """Shows progress as a bar in a terminal, or as printed lines in other streams.

    `done` of `total` units were done before this process started. `stream` defaults to
    stderr. Additional keyword arguments are passed to `tqdm`.
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
        """Moves the bar to `done` units."""
        self.bar.update(done - self.bar.n)

    def show(self, updates: int, values: Mapping[str, float | str]) -> None:
        """Shows named values next to the bar, or prints them with the update number."""
        texts = {name: _format(value) for name, value in values.items()}
        # Keep showing the last validation values next to the training values.
        self._shown.update(texts)
        self.bar.set_postfix(self._shown, refresh=False)
        self.line(f"update {updates:,}/{self._total:,}  {joined(texts)}", updates)

    def line(self, text: str, done: float) -> None:
        """Prints `text` and the time left after `done` units, if no bar is shown."""
        if not self.bar.disable:
            return
        left = "?"
        if done > self._first:
            rate = (time.monotonic() - self._start) / (done - self._first)
            left = tqdm.format_interval(rate * (self._total - done))
        print(f"{text}  left {left}", file=self._stream, flush=True)

    def close(self) -> None:
        self.bar.close()


def joined(texts: Mapping[str, str]) -> str:
    """Joins names and their texts into one line."""
    return "  ".join(map(" ".join, texts.items()))


def _format(value: float | str) -> str:
    if isinstance(value, str):
        return value
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.2e}" if 0 < value < 0.001 else f"{value:.4f}"


def aligned_table(lines: Sequence[Sequence[str]]) -> str:
    """Formats rows of cells as a table. Only the first two columns are left-aligned."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if number < 2 else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
