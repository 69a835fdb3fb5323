"""The versions that a run's numbers may depend on."""

import importlib.metadata
import platform
from collections.abc import Iterable

_PACKAGES = ("seg_tf", "keras", "keras-hub", "numpy")


def installed(of_engine: Iterable[str]) -> dict[str, str]:
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
