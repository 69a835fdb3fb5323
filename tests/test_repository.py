"""The repository as a whole: lock files, set-up, documented commands."""

import ast
import os
import pathlib
import re
import subprocess
import tomllib

import pytest
from packaging.requirements import Requirement

from seg_tf import command_table

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


def test_docstrings_begin_with_a_noun_phrase_or_a_verb_and_class_names_differ():
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    clauses, classes = [], {}
    for path in own_files():
        name = path.relative_to(REPOSITORY).as_posix()
        if path.suffix != ".py" or name.startswith("tests/"):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            docstring = isinstance(node, documented) and ast.get_docstring(node)
            if docstring and CLAUSE.match(docstring):
                clauses.append(f"{name}: {docstring.splitlines()[0]}")
            is_product = name.startswith(("configs/", "data_pipelines/", "seg_tf/"))
            if isinstance(node, ast.ClassDef) and is_product:
                classes.setdefault(node.name, []).append(name)
    assert clauses == []
    assert {name: paths for name, paths in classes.items() if len(paths) > 1} == {}


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


def anchors(path: pathlib.Path) -> set[str]:
    """Anchors of the headings of a Markdown file, as code hosts make them."""
    text = re.sub(r"(?ms)^```.*?^```", "", path.read_text("utf-8"))
    headings = re.findall(r"(?m)^#{1,4} (.+)$", text)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


def test_links_to_documents_lead_to_files_and_headings():
    broken, num_links = [], 0
    for path in own_files():
        text = path.read_text("utf-8")
        folder, links = REPOSITORY, re.findall(r"\bdocs/[\w/]+\.md(?:#[\w-]+)?", text)
        if path.suffix == ".md":
            folder, links = path.parent, re.findall(r"\]\(([^)\s:]+)\)", text)
        for link in links:
            file, _, anchor = link.partition("#")
            target = folder / file if file else path
            num_links += 1
            if not target.exists() or (anchor and anchor not in anchors(target)):
                broken.append(f"{path.relative_to(REPOSITORY)}: {link}")
    assert broken == []
    assert num_links > 300


def test_documents_call_commands_by_their_names():
    modules = "|".join(command_table.MODULES.values())
    for path in own_files():
        if path.suffix in (".md", ".ipynb"):
            text = path.read_text("utf-8")
            assert not re.search(rf"python -m\s+({modules})\b|python run_", text), path


def test_documents_name_make_targets_that_exist():
    shown = subprocess.run(
        ["make", "--no-print-directory"],
        cwd=REPOSITORY,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    # The default goal is help.
    targets = set(re.findall(r"make ([a-z][a-z-]*)", shown))
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
    assert {"pretrain", "test"} <= named <= targets
