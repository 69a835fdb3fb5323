"""Runs commands of `seg_tf`, in this process or as scripts."""

import os
import pathlib
import subprocess
import sys

from absl import flags

REPOSITORY = pathlib.Path(__file__).parents[2]


def run(module, *arguments):
    """Parses the arguments of a command's module, runs it, and forgets its flags."""
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
        module.define_flags()
        flags.FLAGS([module.__name__, *map(str, arguments)])
        module.main([module.__name__])
    finally:
        for name in set(flags.FLAGS) - before:
            delattr(flags.FLAGS, name)
        for name, flag in others.items():
            flags.FLAGS[name] = flag
        flags.FLAGS.unparse_flags()


def script(module, *arguments):
    """Starts a command's module as a process."""
    return python("-m", module.__name__, *arguments)


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
