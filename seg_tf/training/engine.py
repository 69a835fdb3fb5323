"""Chooses the engine that computes a run, TensorFlow or JAX.

Importing Keras fixes the backend of the process, so `choose` must be called first.
`current` returns the engine, whose methods are documented in `TensorFlowEngine`.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os
import platform
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # imports TensorFlow and Keras
    from seg_tf.training.jax_engine import JaxEngine
    from seg_tf.training.tensorflow_engine import TensorFlowEngine

NAMES = ("tensorflow", "jax")
# Packages besides the engine whose versions may affect results.
_PACKAGES = ("seg_tf", "keras", "keras-hub", "numpy")


def choose(name: str) -> None:
    """Sets this process's engine, "tensorflow" or "jax", before Keras is imported.

    Raises a `ValueError` if JAX is missing or Keras already uses another backend.
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
    """Returns the engine of Keras's backend. Raises a `ValueError` if it has none."""
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
    """Returns the versions of Python and packages that may affect results, by name."""
    versions = {"python": platform.python_version()}
    for package in (*_PACKAGES, *current().packages):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return versions


def _backend() -> str:
    import keras

    return keras.backend.backend()
