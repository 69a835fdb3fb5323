"""The engine that computes a run, TensorFlow or JAX: chosen here and nowhere else.

A process has one Keras backend from the moment Keras is imported. `choose` sets it
before; `current` returns the class with everything that depends on it.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import pathlib
import platform
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # which would import TensorFlow, and Keras
    from seg_tf.training.jax_engine import JaxEngine
    from seg_tf.training.tensorflow_engine import TensorFlowEngine

NAMES = ("tensorflow", "jax")
# Packages besides the engine whose versions results may depend on.
_PACKAGES = ("seg_tf", "keras", "keras-hub", "numpy")


def choose(name: str) -> None:
    """Makes `name` the engine of this process, before Keras is imported.

    Raises:
        ValueError: if Keras was imported with another backend, or the engine is not
            installed.
    """
    if name == "jax" and importlib.util.find_spec(name) is None:
        raise ValueError(
            f"`--engine={name}` needs the package {name}, which is not installed: "
            f'pip install "seg_tf[{name}]"'
        )
    if "keras" in sys.modules and _backend() != name:
        raise ValueError(
            "`--engine` must be chosen before Keras is imported. Received: "
            f"--engine={name}, while Keras computes on {_backend()}"
        )
    os.environ["KERAS_BACKEND"] = name


@functools.cache
def current() -> TensorFlowEngine | JaxEngine:
    """The engine of this process; `TensorFlowEngine` documents its methods.

    Raises:
        ValueError: if the backend of Keras is no engine.
    """
    name = _backend()
    if name not in NAMES:
        raise ValueError(
            f"the backend of Keras must be one of {', '.join(NAMES)}. Received: "
            f"{name}, of KERAS_BACKEND or keras.json"
        )
    module = importlib.import_module(f"seg_tf.training.{name}_engine")
    engine: TensorFlowEngine | JaxEngine = module.ENGINE()
    return engine


def installed_versions() -> dict[str, str]:
    """Versions of Python and of the packages that results may depend on."""
    versions = {"python": platform.python_version()}
    for package in (*_PACKAGES, *current().packages):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return versions


def software() -> dict[str, Any]:
    """Engine, versions and code, which all ranks of a run must share.

    Two checkouts may have the same version and different code. Configs are left out,
    because ranks compare the configs themselves.
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
        "engine": current().packages[0],
        "versions": installed_versions(),
        "source code of seg_tf (sha256)": digest.hexdigest(),
    }


def _backend() -> str:
    import keras

    return keras.backend.backend()
