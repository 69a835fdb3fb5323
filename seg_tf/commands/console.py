"""The command `seg-tf NAME …`, which runs a module of `seg_tf.command_table`."""

import ast
import difflib
import importlib.util
import pathlib
import runpy
import sys

import seg_tf
from seg_tf.command_table import COMMANDS, MODULES, REMOVED, quiet_broken_pipe


def main() -> None:
    """Runs the command named by the first argument; without one, lists all."""
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
        close = [known for known in MODULES if known.startswith(name)]
        close = close or difflib.get_close_matches(name, MODULES, n=1)
        hint = f"Did you mean `{'` or `'.join(close)}`? " if close else ""
        sys.exit(f"error: there is no command `{name}`. {hint}`seg-tf` lists all")
    sys.argv = [f"seg-tf {name}", *sys.argv[2:]]
    run(MODULES[name])


def run(module: str) -> None:
    """Runs a module as `python -m` does, under the name in `sys.argv[0]`."""
    sys.modules["__main__"].__doc__ = _help(module)
    runpy.run_module(module, run_name="__main__")


def overview() -> str:
    """The names and summaries of all commands."""
    lines = ["usage: seg-tf COMMAND --help", "       seg-tf --version"]
    for heading, group in COMMANDS.items():
        lines += ["", f"{heading}:"]
        for name, module in group.items():
            summary = _help(module).partition("\n")[0]
            lines.append(f"  {name:21} {summary}")
    return "\n".join(lines)


def _help(module: str) -> str:
    """Docstring of a command's module, which is not imported."""
    spec = importlib.util.find_spec(module)
    file = pathlib.Path(str(spec and spec.origin))
    if file.name == "__init__.py":
        file = file.with_name("__main__.py")
    return ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
