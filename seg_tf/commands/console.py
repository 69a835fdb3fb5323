"""Runs the commands of the suite by name: `seg-tf pretrain`, `seg-tf build-records`, ….

A command is a module that can be run with `python -m`; it is named after the module,
with dashes.
"""

import ast
import difflib
import importlib.util
import pathlib
import pkgutil
import re
import runpy
import sys

from seg_tf.removed import REMOVED

# Packages of commands, and their headings.
_PACKAGES = {
    "seg_tf.commands": "models",
    "data_pipelines": "text and records",
    "seg_tf": "the installation",
}
_GUARD = re.compile('^if __name__ == "__main__":', re.MULTILINE)


def main() -> None:
    """Runs the command named by the first argument; without one, lists all."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_overview())
        return
    known = {
        name: module
        for modules in commands().values()
        for name, module in modules.items()
    }
    name = arguments[0].replace("_", "-")
    if name in REMOVED:
        sys.exit(f"error: `{name}` was removed in 0.3; {REMOVED[name]}")
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"Did you mean `{close[0]}`? " if close else ""
        sys.exit(f"error: there is no command `{name}`. {hint}`seg-tf` lists all")
    sys.argv = [f"seg-tf {name}", *arguments[1:]]
    run(known[name])


def run(module_name: str) -> None:
    """Runs a module as `python -m` does, under the name in `sys.argv[0]`."""
    # What `--help` prints.
    sys.modules["__main__"].__doc__ = _docstring(_source_file(module_name))
    runpy.run_module(module_name, run_name="__main__")


def commands() -> dict[str, dict[str, str]]:
    """The commands of each package: name -> module."""
    return {
        package: {
            module.name.replace("_", "-"): f"{package}.{module.name}"
            for module in pkgutil.iter_modules([str(_source_file(package).parent)])
            if _GUARD.search(
                _source_file(f"{package}.{module.name}").read_text(encoding="utf-8")
            )
        }
        for package in _PACKAGES
    }


def _source_file(module_name: str) -> pathlib.Path:
    """The file that `python -m` runs; `__init__.py` of a package that has none."""
    spec = importlib.util.find_spec(module_name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(module_name)
    file = pathlib.Path(spec.origin)
    main_file = file.with_name("__main__.py")
    return main_file if file.name == "__init__.py" and main_file.exists() else file


def _docstring(file: pathlib.Path) -> str:
    return ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""


def _overview() -> str:
    lines = ["usage: seg-tf COMMAND --help", ""]
    for package, modules in commands().items():
        lines.append(f"{_PACKAGES[package]}:")
        for name, module in modules.items():
            first, _, _ = _docstring(_source_file(module)).partition("\n")
            lines.append(f"  {name:21} {first}")
        lines.append("")
    return "\n".join(lines).rstrip()
