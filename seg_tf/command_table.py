"""Finds and runs the commands of `seg-tf`.

Imports no third-party package, so that `seg-tf doctor` works without any.
"""

import ast
import contextlib
import difflib
import importlib.util
import os
import pathlib
import re
import shutil
import sys
from collections.abc import Iterator

import seg_tf


def _modules(package: str, names: str) -> dict[str, str]:
    return {name: f"{package}.{name.replace('-', '_')}" for name in names.split()}


COMMANDS = {
    "Models": _modules(
        "seg_tf.commands",
        "pretrain finetune export demo encode-text encode-passages fill-mask "
        "find-sentences reorder-sentences generate-text evaluate-grammar "
        "evaluate-perplexity evaluate-similarity evaluation-texts import-weights "
        "export-weights paper-tables plot-attention plot-runs train-punkt",
    ),
    "Text and records": _modules(
        "data_pipelines",
        "build-records build-documents build-windows build-vocab "
        "check-records inspect-records report",
    )
    | {"readers": "data_pipelines.inspect_text"},
    "Installation": _modules("seg_tf.commands", "configs tasks")
    | {"doctor": "seg_tf.doctor"},
}
"""Heading -> {command name: module}. Docstrings of modules are the commands' help."""
MODULES = {
    name: module for group in COMMANDS.values() for name, module in group.items()
}
# Commands that were removed in version 0.3 -> replacement.
REMOVED = {
    "build-word-vocab": "use `build-vocab --tokenizer=words` (or whitespace)",
    "compare-records": "builds with the same options are equal byte for byte, so "
    "`diff -r` compares them",
    "evaluate-sentences": "use `python -m benchmarks.sentence_boundaries` (checkout)",
    "evaluate-squad": "SQuAD's own scripts score files, and `finetune` writes scores",
    "serve-check": "`python -m benchmarks.serving` measures an exported model",
}


def in_called_form(text: str) -> str:
    """Returns `text` with `seg-tf NAME` commands that run in the user's shell.

    If this environment's `seg-tf` is not the one on the `PATH`, its folder is inserted.
    If it is not installed, `seg-tf` is replaced by `python -m seg_tf`.
    """
    folder = pathlib.Path(sys.executable).parent
    if shutil.which("seg-tf") == str(folder / "seg-tf"):
        return text
    if folder.is_relative_to(pathlib.Path.cwd()):
        folder = folder.relative_to(pathlib.Path.cwd())
    if (folder / "seg-tf").exists():
        return re.sub("(?=seg-tf [a-z]|tensorboard --)", f"{folder}/", text)
    return re.sub("seg-tf(?= [a-z])", f"{folder}/python -m seg_tf", text)


@contextlib.contextmanager
def quiet_broken_pipe() -> Iterator[None]:
    """Context manager that exits with status 0 if stdout's reader closes the pipe."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None


def main() -> None:
    """Runs the command in `sys.argv[1]`, or prints help, the version or an error."""
    name = sys.argv[1] if len(sys.argv) > 1 else "help"
    with quiet_broken_pipe():
        if name in ("-h", "--help", "help"):
            print(overview())
            return
        if name in ("-V", "--version", "version"):
            print(f"seg-tf {seg_tf.__version__}")
            return
    name = name.replace("_", "-")
    if name in REMOVED:
        sys.exit(f"error: `{name}` was removed in 0.3; {REMOVED[name]}")
    if name not in MODULES:
        close = [known for known in MODULES if len(name) > 2 and name in known]
        close = close or difflib.get_close_matches(name, MODULES, n=1)
        hint = f"Did you mean `{'` or `'.join(close)}`? " if close else ""
        sys.exit(f"error: there is no command `{name}`. {hint}`seg-tf` lists all")
    sys.argv = [f"seg-tf {name}", *sys.argv[2:]]
    # For functions and readers of the user. `python -m` does the same.
    sys.path.append(os.getcwd())
    run(MODULES[name])


def run(module: str) -> None:
    """Runs the command that a module implements."""
    sys.modules["__main__"].__doc__ = _help(module)
    if module == "seg_tf.doctor":  # needs no other package
        importlib.import_module(module).main()
    else:
        importlib.import_module("seg_tf.command_line").run_command(module)


def overview() -> str:
    """Returns the help text of `seg-tf`, which lists all commands with summaries."""
    lines = ["usage: seg-tf COMMAND --help", "       seg-tf --version"]
    for heading, group in COMMANDS.items():
        lines += ["", f"{heading}:"]
        for name, module in group.items():
            summary = _help(module).partition("\n")[0]
            lines.append(f"  {name:21} {summary}")
    return "\n".join(lines)


def _help(module: str) -> str:
    """Returns the docstring of a command's module without importing it."""
    spec = importlib.util.find_spec(module)
    text = pathlib.Path(str(spec and spec.origin)).read_text(encoding="utf-8")
    return ast.get_docstring(ast.parse(text)) or ""
