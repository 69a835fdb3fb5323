"""Runs commands of `seg_tf`, in this process or as scripts."""

import contextlib
import io
import logging as python_logging
import os
import pathlib
import runpy
import signal
import subprocess
import sys
import warnings
from typing import NamedTuple
from unittest import mock

from absl import app, flags, logging
from matplotlib import image

from seg_tf import command_table

REPOSITORY = pathlib.Path(__file__).parents[1]
_MOST_LOADED = 4
_loaded = {}


@contextlib.contextmanager
def flags_of_one_command():
    """Sets the flags of all commands aside, and forgets those defined meanwhile."""
    app.define_help_flags()
    # Other commands, imported before, may have flags of the same names. One that was
    # put back has no module any more: what is not absl's own is another command's.
    of_absl = {
        flag.name
        for owner, of_module in flags.FLAGS.flags_by_module_dict().items()
        if owner.startswith("absl")
        for flag in of_module
    }
    others = {name: flags.FLAGS[name] for name in flags.FLAGS if name not in of_absl}
    for name in others:
        delattr(flags.FLAGS, name)
    before = set(flags.FLAGS)
    try:
        yield
    finally:
        for name in set(flags.FLAGS) - before:
            delattr(flags.FLAGS, name)
        for name, flag in others.items():
            flags.FLAGS[name] = flag
        flags.FLAGS.unparse_flags()


def run(module, *arguments):
    """Parses the arguments of a command's module and calls its `main`.

    A checkpoint is loaded once for all commands: they do not change what they load.
    """
    with flags_of_one_command(), _each_checkpoint_loaded_once():
        module.define_flags()
        module.main(flags.FLAGS([module.__name__, *map(str, arguments)]))


@contextlib.contextmanager
def _each_checkpoint_loaded_once():
    if "seg_tf.commands.model_flags" not in sys.modules:
        yield
        return
    import keras

    from seg_tf.checkpoints import folders
    from seg_tf.commands import model_flags

    load = model_flags.load_pretrained

    def loaded(checkpoint, **settings):
        folder = folders.find_checkpoint(pathlib.Path(checkpoint))
        key = (
            folder,
            *((path, path.stat().st_mtime_ns) for path in sorted(folder.iterdir())),
            repr(settings),
            keras.config.dtype_policy().name,
        )
        if key not in _loaded:
            _loaded[key] = load(checkpoint, **settings)
            if len(_loaded) > _MOST_LOADED:
                del _loaded[next(iter(_loaded))]
        return _loaded[key]

    with mock.patch.object(model_flags, "load_pretrained", loaded):
        yield


class Finished(NamedTuple):
    """As of `subprocess.run`."""

    returncode: int
    stdout: str
    stderr: str


def call(name, *arguments, stdin=""):
    """Runs a command as `seg-tf` does, or a script of the repository, but here.

    It saves the seconds that a process takes to import TensorFlow.
    """
    printed, errors = io.StringIO(), io.StringIO()
    argv = [name, *map(str, arguments)]
    with (
        flags_of_one_command(),
        _logging_of_a_new_process(errors),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(errors),
        mock.patch.object(sys, "argv", argv),
        mock.patch.object(sys, "stdin", io.StringIO(stdin)),
        mock.patch.object(sys.modules["__main__"], "__doc__", ""),
        warnings.catch_warnings(action="ignore"),  # printed, not raised
    ):
        code = _exit_code(name)
        if isinstance(code, str):
            print(code, file=errors)
            code = 1
    return Finished(code, printed.getvalue(), errors.getvalue())


def _exit_code(name):
    on_sigterm = signal.getsignal(signal.SIGTERM)
    try:
        if name.endswith(".py"):
            runpy.run_path(str(REPOSITORY / name), run_name="__main__")
        else:
            command_table.run(command_table.MODULES[name])
    except SystemExit as end:
        return end.code or 0
    finally:
        signal.signal(signal.SIGTERM, on_sigterm)
    return 0


@contextlib.contextmanager
def _logging_of_a_new_process(stream):
    """Absl's handler writes to a stream; absl sets itself up anew."""
    logging.use_absl_handler()
    handler = logging.get_absl_handler()
    root = python_logging.getLogger()
    before = handler.python_handler.stream, handler.python_handler.formatter
    handler.python_handler.stream = stream
    app._run_init.done = False
    app._register_and_parse_flags_with_usage.done = False
    try:
        yield
    finally:
        handler.python_handler.stream, formatter = before
        handler.setFormatter(formatter)
        root.removeHandler(handler)


def check_image(path):
    """Decodes a PNG, a path or a binary file, which must not be of one colour."""
    pixels = image.imread(path)
    assert pixels.ndim == 3
    assert min(pixels.shape[:2]) > 50
    assert pixels.std() > 0.01


def run_on_jax(module, *arguments):
    """Runs a module in a process whose Keras backend is JAX."""
    subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=REPOSITORY,
        env={**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"},
        check=True,
    )


def python(*arguments):
    """Starts Python with arguments; its streams are pipes of text."""
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        cwd=REPOSITORY,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
