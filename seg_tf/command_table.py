"""The commands `seg-tf NAME`, and those that were removed.

Imports only the standard library, so that `seg-tf doctor` works without packages.
"""

import contextlib
import os
import pathlib
import re
import shutil
import sys
from collections.abc import Iterator

# Heading -> package of the modules, and names. A summary is the first line of a module.
_GROUPS = {
    "Models": (
        "seg_tf.commands",
        "pretrain finetune export demo encode-text fill-mask find-sentences "
        "reorder-sentences generate-text evaluate-grammar evaluate-perplexity "
        "evaluate-sentences "
        "evaluate-similarity evaluation-texts import-weights "
        "export-weights paper-tables plot-attention plot-runs train-punkt",
    ),
    "Text and records": (
        "data_pipelines",
        "build-records build-documents build-windows build-vocab build-word-vocab "
        "check-records inspect-records readers report",
    ),
    "Installation": ("seg_tf", "configs doctor tasks"),
}
COMMANDS = {
    heading: {name: f"{package}.{name.replace('-', '_')}" for name in names.split()}
    for heading, (package, names) in _GROUPS.items()
}
"""Heading -> {name: module}."""
MODULES = {
    name: module for group in COMMANDS.values() for name, module in group.items()
}
# Commands that 0.3 no longer has, each with its replacement.
REMOVED = {
    "compare-records": "builds with the same options are equal byte for byte, so "
    "`diff -r` compares them",
    "evaluate-squad": "SQuAD's own scripts score files, and `finetune` writes scores",
    "serve-check": "`python -m benchmarks.serving` measures an exported model",
}


def in_called_form(text: str) -> str:
    """Replaces `seg-tf NAME` in `text` by what works in the user's shell.

    If `PATH` does not find the program, its path is written, or `python -m MODULE` if
    the package is not installed.
    """
    folder = pathlib.Path(sys.executable).parent
    if shutil.which("seg-tf") == str(folder / "seg-tf"):
        return text
    if folder.is_relative_to(pathlib.Path.cwd()):
        folder = folder.relative_to(pathlib.Path.cwd())
    if (folder / "seg-tf").exists():
        return re.sub("(?=seg-tf [a-z]|tensorboard --)", f"{folder}/", text)
    return re.sub(
        r"seg-tf ([a-z]+(?:-[a-z]+)*)",
        lambda match: (
            f"{folder}/python -m {MODULES[match[1]]}"
            if match[1] in MODULES
            else match[0]
        ),
        text,
    )


@contextlib.contextmanager
def quiet_broken_pipe() -> Iterator[None]:
    """Ends without a traceback when `head`, for example, stops reading our output."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
