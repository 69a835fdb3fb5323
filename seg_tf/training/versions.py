"""The versions that a run's numbers may depend on."""

import importlib.metadata
import platform

_PACKAGES = ("seg_tf", "tensorflow", "keras", "keras-hub", "numpy")


def installed() -> dict[str, str]:
    """Name and version of the interpreter and of each package."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found
