"""The engine that computes a run: TensorFlow or JAX, decided here and nowhere else.

A process has one Keras backend from the moment Keras is imported. `choose` sets it
before; `current` gives what depends on it. Whoever trains asks the engine to do
things, never its name.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import pathlib
import platform
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:  # which would import TensorFlow, and Keras
    from seg_tf.config import TrainingConfig
    from seg_tf.training.distribution import Distribution
    from seg_tf.training.step import NoMemory

NAMES = ("tensorflow", "jax")
# Installed by an extra of the same name.
_OPTIONAL = ("jax",)
# Packages besides those of the engine whose versions results may depend on.
_PACKAGES = ("seg_tf", "keras", "keras-hub", "numpy")


class TrainingEngine(Protocol):
    """Things that each engine does in its own way.

    Attributes:
        packages: those whose versions its numbers depend on.
        step_class: class with the contract of `tensorflow_step.TrainingStep`.
        devices: module with the functions of `training.devices` on its GPUs.
    """

    packages: tuple[str, ...]
    step_class: type
    devices: types.ModuleType

    def join(self) -> Distribution:
        """The processes that this one was started to train with.

        Raises:
            TrainingStopped: if the engine cannot be one of them.
        """

    def compiles(self, settings: TrainingConfig) -> bool:
        """True if XLA compiles the step of a run with these settings."""

    def lane_memory(self, initial: Mapping[str, Any]) -> NoMemory:
        """Memory of lanes, of which `initial` is the first."""

    def traced(
        self, function: Callable[[Mapping[str, Any]], Any], features: Mapping[str, Any]
    ) -> Any:
        """The result of a call that matters for the variables it creates.

        Args:
            function: takes the features of a batch; what it returns must not depend on
                their values.
            features: those of a batch.
        """

    def compiled(
        self,
        function: Callable[[Mapping[str, Any]], Any],
        variables: Callable[[], Iterable[Any]],
        rows_vary: bool = False,
    ) -> Callable[[Mapping[str, Any]], Any]:
        """A function of a batch that reads and assigns Keras variables, compiled.

        Args:
            function: takes the features of a batch.
            variables: returns every variable that it reads or assigns.
            rows_vary: whether processes may come with unlike numbers of rows.
        """

    def num_request_rows(self) -> int:
        """Number of rows in which a process's stop request enters a step."""

    def rows_to_try(self, features: Mapping[str, Any]) -> Mapping[str, Any]:
        """Rows that a process tries one by one when it looks for bad ones."""

    def start_profile(self, folder: pathlib.Path) -> None:
        """Begins a profile for TensorBoard, in `folder`."""

    def stop_profile(self) -> None:
        """Writes the profile."""

    def profiled_step(self, number: int) -> contextlib.AbstractContextManager[Any]:
        """Context of a step, by which TensorBoard tells its time."""


def choose(name: str) -> None:
    """Makes `name` the engine of this process, before Keras is imported.

    Raises:
        ValueError: if Keras was imported with another backend, or the engine is not
            installed.
    """
    if name in _OPTIONAL and importlib.util.find_spec(name) is None:
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
def current() -> TrainingEngine:
    """The engine of this process.

    Raises:
        ValueError: if Keras has a backend that is none.
    """
    name = _backend()
    if name not in NAMES:
        raise ValueError(
            f"the backend of Keras must be one of {', '.join(NAMES)}. Received: "
            f"{name}, of KERAS_BACKEND or keras.json"
        )
    module = importlib.import_module(f"seg_tf.training.{name}_engine")
    engine: TrainingEngine = module.ENGINE()
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
