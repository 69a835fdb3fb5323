"""Prints lines and files of each package next to its budget; exits with 1 above one.

  python tools/budgets.py

`tools/budgets.toml` holds the budgets: lines for each package, for the tests and for
the product as a whole, and a number of files. In a package that outgrows its budget
something goes, or the commit that raises the budget says why. The totals stay.
"""

import collections
import pathlib
import sys
import tomllib

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]


def python_files(folder: str) -> list[pathlib.Path]:
    """The Python files below a folder of the repository, without those behind links."""
    files = sorted((REPOSITORY / folder).rglob("*.py"))
    return [path for path in files if path.resolve() == path]


def count_lines(paths: list[pathlib.Path]) -> int:
    return sum(len(path.read_text("utf-8").splitlines()) for path in paths)


def package_of(path: pathlib.Path) -> str:
    """`seg_tf/data`, or `seg_tf` for a file next to the packages."""
    return "/".join(path.relative_to(REPOSITORY).parts[:-1][:2])


def main() -> int:
    budgets = tomllib.loads((REPOSITORY / "tools" / "budgets.toml").read_text("utf-8"))
    packages = collections.defaultdict(list)
    for folder in ("configs", "data_pipelines", "seg_tf"):
        for path in python_files(folder):
            packages[package_of(path)].append(path)
    product = [path for paths in packages.values() for path in paths]
    rows = [
        (name, len(paths), count_lines(paths), budgets["packages"].get(name, 0))
        for name, paths in sorted(packages.items())
    ]
    total = budgets["total"]
    tests = python_files("tests")
    rows.append(("product", len(product), count_lines(product), total["lines"]))
    rows.append(("tests", len(tests), count_lines(tests), total["tests"]))
    print(f"{'package':<30}{'files':>8}{'lines':>8}{'budget':>8}")
    for name, files, lines, budget in rows:
        over = "  over its budget" if lines > budget else ""
        print(f"{name:<30}{files:>8}{lines:>8}{budget:>8}{over}")
    gone = sorted(budgets["packages"].keys() - packages.keys())
    if gone:
        print("no such package: " + ", ".join(gone))
    if len(product) > total["files"]:
        print(f"{len(product)} files are more than {total['files']}")
    within = all(lines <= budget for *_, lines, budget in rows)
    return 0 if within and not gone and len(product) <= total["files"] else 1


if __name__ == "__main__":
    sys.exit(main())
