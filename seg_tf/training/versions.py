"""The versions that a run's numbers may depend on."""

import hashlib
import importlib.metadata
import pathlib
import platform
from collections.abc import Sequence
from typing import Any

_PACKAGES = ("seg_tf", "keras", "keras-hub", "numpy")


def installed(of_engine: Sequence[str]) -> dict[str, str]:
    """Name and version of the interpreter and of each package.

    Args:
        of_engine: packages of the engine that computes.
    """
    found = {"python": platform.python_version()}
    for package in (*_PACKAGES, *of_engine):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def software(of_engine: Sequence[str]) -> dict[str, Any]:
    """Engine, versions and code that the ranks of a run have to share.

    Two checkouts may have the same version and different code. Configs are left out:
    ranks compare what they return.

    Args:
        of_engine: packages of the engine that computes.
    """
    root = pathlib.Path(__file__).parents[2]
    digest = hashlib.sha256()
    for package in ("seg_tf", "data_pipelines"):
        for path in sorted((root / package).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            if not name.startswith("seg_tf/configs/"):
                digest.update(f"{name} {path.stat().st_size}\n".encode())
                digest.update(path.read_bytes())
    return {
        "engine": of_engine[0],
        "versions": installed(of_engine),
        "source code of seg_tf (sha256)": digest.hexdigest(),
    }
