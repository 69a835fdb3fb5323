"""Seeds one-line faults in a copy of the tree, one at a time, and runs tests on each.

  python tools/mutations.py                    # all of tools/mutations.toml
  python tools/mutations.py --only=packing,punkt

A fault is `search` and what takes its place; its file is the Python file of
`PACKAGES` holds that text, so that a file may move. A fault that is caught is one for
which pytest, with the arguments in `tests`, exits with 1. First, the same tests have to
pass without it, unless --trust says that they do. The exit code is 1 if a fault is not
caught, or its text is not found in one place.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
PACKAGES = ("seg_tf", "data_pipelines")
_ALL_PASSED, _SOME_FAILED = 0, 1


def files_with(tree: pathlib.Path, text: str) -> list[pathlib.Path]:
    """The Python files that hold a text, once for each time that they do."""
    files = (path for name in PACKAGES for path in sorted((tree / name).rglob("*.py")))
    # `seg_tf/configs` may be a link to a folder of the tree.
    inside = (path for path in files if path.resolve() == path)
    return [path for path in inside for _ in range(path.read_text("utf-8").count(text))]


def run_tests(tree: pathlib.Path, tests: Iterable[str]) -> tuple[int, str]:
    """Exit code of pytest, and the end of what it says."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *tests], cwd=tree, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout[-2000:]


def verdict(tree: pathlib.Path, fault: dict, *, trust: bool) -> str:
    """Tells how the tests of a tree judge a fault, which is taken back."""
    paths = files_with(tree, fault["search"])
    if len(paths) != 1:
        return f"search found {len(paths)} times"
    if not trust:
        code, said = run_tests(tree, fault["tests"])
        if code != _ALL_PASSED:
            return f"tests fail without it: exit {code}\n{said}"
    (path,) = paths
    before = path.read_text("utf-8")
    path.write_text(before.replace(fault["search"], fault["replace"]), "utf-8")
    try:
        code, said = run_tests(tree, fault["tests"])
    finally:
        path.write_text(before, "utf-8")
    if code == _SOME_FAILED:
        return "caught"
    return "not caught" if code == _ALL_PASSED else f"pytest: exit {code}\n{said}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="names of faults, comma-separated")
    parser.add_argument("--trust", action="store_true")
    arguments = parser.parse_args()
    listed = REPOSITORY / "tools/mutations.toml"
    faults = tomllib.loads(listed.read_text("utf-8"))
    chosen = arguments.only.split(",") if arguments.only else list(faults)
    if unknown := set(chosen) - set(faults):
        parser.error(f"--only: {', '.join(sorted(unknown))} not in {listed.name}")
    caught = 0
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        tree = pathlib.Path(folder).resolve() / "tree"
        ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", "build")
        shutil.copytree(REPOSITORY, tree, symlinks=True, ignore=ignored)
        for name in chosen:
            outcome = verdict(tree, faults[name], trust=arguments.trust)
            caught += outcome == "caught"
            print(f"{name}: {outcome}", flush=True)
    print(f"{caught} of {len(chosen)} caught")
    return int(caught < len(chosen))


if __name__ == "__main__":
    sys.exit(main())
