"""Commands that mend an installation, for the place it is in."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import pathlib
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
LOCK = REPOSITORY / "requirements" / "run.txt"
HOROVOD_PATCH = REPOSITORY / "third_party" / "horovod" / "tensorflow-2.20.patch"

PIP = f"{sys.executable} -m pip"
HOROVOD = "make setup HOROVOD=require"
# Compares with the TensorFlow that is there, which `make setup` takes on trust.
REBUILD_HOROVOD = f"{sys.executable} third_party/horovod/build_horovod.py"
HOROVOD_WITH_NCCL = f"HOROVOD_GPU_OPERATIONS=NCCL {HOROVOD}"


def packages() -> str:
    """Installs the pinned packages."""
    if not LOCK.is_file() or not _set_up_takes_packages_for_installed():
        return "make setup"
    return (
        f"{PIP} install --no-deps --require-hashes "
        f"--only-binary=:all: -r {LOCK.relative_to(REPOSITORY)}"
    )


def reinstall(package: str) -> str:
    """Installs one package again, in the version that it has."""
    return (
        f"{PIP} install --force-reinstall --no-deps "
        f'"{package}=={installed_version(package)}"'
    )


def _set_up_takes_packages_for_installed() -> bool:
    """Whether `make setup` would do nothing: somebody changed packages by hand."""
    try:
        record = json.loads(pathlib.Path(sys.prefix, "set-up.json").read_text())
    except (OSError, ValueError):
        return False
    return record.get("run") == hashlib.sha256(LOCK.read_bytes()).hexdigest()


def cuda_packages() -> str:
    """Installs NVIDIA's libraries beside the TensorFlow that is there."""
    version = installed_version("tensorflow") or "2.20.*"
    return f'{PIP} install "tensorflow[and-cuda]=={version}"'


def installed_version(package: str) -> str:
    """Version of an installed package, or an empty string; imports nothing."""
    try:
        return importlib.metadata.version(package) or ""
    except importlib.metadata.PackageNotFoundError:
        return ""
