"""The repository as a whole: lock files, set-up, documented commands, Horovod."""

import ast
import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys
import tomllib

import pytest
from packaging.requirements import Requirement

pytestmark = pytest.mark.slow

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
REQUIREMENTS = REPOSITORY / "requirements"
LOCKS = ("run.txt", "corpora.txt", "profile.txt", "dev.txt", "horovod-build.txt")
# Folders of somebody's machine.
HOME = re.compile(r"(?<![\w.:/}])/(work|root|home/\w+|Users/\w+)/\w")


def pins(lock: str) -> dict[tuple[str, str], str]:
    """`{(package, marker): version}` of a lock file's text."""
    found = {}
    for line in lock.splitlines():
        if re.match(r"\w", line):
            requirement = Requirement(line.rstrip(" \\"))
            (pin,) = requirement.specifier
            assert pin.operator == "=="
            found[requirement.name, str(requirement.marker or "")] = pin.version
    return found


def read_lock(name: str) -> str:
    return (REQUIREMENTS / name).read_text(encoding="utf-8")


def own_files(*, text_only: bool = True) -> list[pathlib.Path]:
    """Files that are, or would be, part of the repository."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(
            command, cwd=REPOSITORY, capture_output=True, text=True, check=True
        ).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs git and a clone: lists the repository's files by git")
    paths = [REPOSITORY / name for name in listed]
    return [
        path for path in paths if path.is_file() and (is_text(path) or not text_only)
    ]


def is_text(path: pathlib.Path) -> bool:
    return b"\0" not in path.read_bytes()[:8192]


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_pins_hashes_and_names_no_host(name):
    text = read_lock(name)
    assert "://" not in text
    blocks = re.split(r"(?m)^(?=\w)", text)[1:]
    assert blocks
    for block in blocks:
        assert "--hash=sha256:" in block, block.split()[0]


def test_home_folders_would_be_found():
    assert HOME.search("open('/" + "home/someone/data')")
    assert HOME.search("see /" + "work/data for more")
    assert not HOME.search("//example.com/" + "home/page/x and ../" + "work/data")


def test_larger_locks_hold_the_smaller_ones_with_the_same_versions():
    run, corpora, dev = (
        pins(read_lock(name)) for name in ("run.txt", "corpora.txt", "dev.txt")
    )
    assert run
    assert run.items() < corpora.items() < dev.items()
    profile = pins(read_lock("profile.txt"))
    assert run.items() < profile.items()
    # Both may be installed into one environment.
    shared = profile.keys() & dev.keys()
    assert {key: profile[key] for key in shared} == {key: dev[key] for key in shared}


def test_locks_hold_what_the_project_declares():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for declared, name in (
        (project["dependencies"], "run.txt"),
        (extras["corpora"], "corpora.txt"),
        (extras["profile"], "profile.txt"),
        (extras["dev"], "dev.txt"),
        (extras["docs"], "dev.txt"),
        (extras["notebooks"], "dev.txt"),
        (extras["horovod"], "horovod-build.txt"),
    ):
        pinned = pins(read_lock(name))
        for text in declared:
            wanted = Requirement(text)
            versions = [
                version
                for (package, _), version in pinned.items()
                if package == wanted.name
            ]
            assert versions, f"{wanted.name} is not in {name}: make lock"
            for version in versions:
                assert wanted.specifier.contains(version), f"{text} in {name}"


def test_no_file_names_somebodys_folder():
    found = []
    for path in own_files():
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
            if HOME.search(line):
                found.append(f"{path.relative_to(REPOSITORY)}:{number}: {line.strip()}")
    assert not found


CLAUSE = re.compile(r"(What|Which|Where|How|Whether|Who)\b")


def test_docstrings_begin_with_a_noun_phrase_or_a_verb():
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    sources = {
        path: path.relative_to(REPOSITORY).as_posix()
        for path in own_files()
        if path.suffix == ".py"
    }
    found = [
        f"{name}: {docstring.splitlines()[0]}"
        for path, name in sources.items()
        if not name.startswith("tests/")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, documented) and (docstring := ast.get_docstring(node))
        if CLAUSE.match(docstring)
    ]
    assert found == []


def test_no_class_name_stands_for_two_classes():
    found = {}
    for path in own_files():
        package = path.relative_to(REPOSITORY).parts[0]
        if path.suffix != ".py" or package not in (
            "configs",
            "data_pipelines",
            "seg_tf",
        ):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(str(path))
    assert not {name: places for name, places in found.items() if len(places) > 1}


def test_data_files_are_packaged():
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    patterns = settings["tool"]["setuptools"]["package-data"]["*"]
    data = [
        path
        for path in own_files(text_only=False)
        if path.relative_to(REPOSITORY).parts[0] in ("seg_tf", "data_pipelines")
        and path.suffix != ".py"
    ]
    typed = {path.parent.name for path in data if path.name == "py.typed"}
    assert typed == {"seg_tf", "data_pipelines"}
    for path in data:
        assert any(path.match(pattern) for pattern in patterns), path.name


def make_targets() -> set[str]:
    text = (REPOSITORY / "Makefile").read_text()
    return set(re.findall(r"(?m)^([a-z][a-z-]*):(?!=)", text))


def test_every_make_target_is_explained_and_phony():
    text = (REPOSITORY / "Makefile").read_text()
    explained = set(re.findall(r"(?m)^([a-z-]+):.*## \S", text))
    (phony,) = re.findall(r"(?m)^\.PHONY: (.*)", text)
    assert make_targets() == explained == set(phony.split())


def test_documents_name_make_targets_that_exist():
    documents = [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("*/**/README.md")]
    named = {
        target
        for path in documents
        if ".venv" not in path.parts
        # In code, or at the start of a line of a code block.
        for target in re.findall(
            r"(?m)(?:`|^ *|\$ |&& )make ([a-z][a-z-]*)", path.read_text("utf-8")
        )
    }
    assert {"pretrain", "test"} <= named
    assert named <= make_targets()


def test_help_is_the_default_goal_and_lists_all_targets():
    shown = subprocess.run(
        ["make", "--no-print-directory"],
        cwd=REPOSITORY,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for target in make_targets():
        assert f"make {target}" in shown


def run_python(code: str, **environment: str) -> str:
    finished = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_horovod_reduces_in_one_process():
    try:
        version = importlib.metadata.version("horovod")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("Horovod is not installed (no C++ compiler at set-up?)")
    code = """
import horovod.tensorflow as hvd
import tensorflow as tf
hvd.init()
assert hvd.gloo_built()
print(hvd.size(), hvd.allreduce(tf.constant([1.5, 2.5]), op=hvd.Sum).numpy())
"""
    assert run_python(code).strip() == "1 [1.5 2.5]"
    assert "+tf" in version
