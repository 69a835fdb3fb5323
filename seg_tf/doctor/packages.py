"""Python and the packages: versions as pinned, and each of them works."""

from __future__ import annotations

import glob
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from typing import Any

from seg_tf.doctor import probes
from seg_tf.doctor.findings import Finding, ok, problem, warning
from seg_tf.doctor.probes import REPOSITORY, ProbeAnswer

LOCK = REPOSITORY / "requirements" / "run.txt"
_PIN = re.compile(r"([\w.-]+)==([^\s;]+)\s*(?:;\s*(.*?))?\s*\\?$")
_REINSTALL = (
    f"{sys.executable} -m pip install --no-deps --require-hashes --only-binary=:all: "
    "-r requirements/run.txt, or anew: rm -rf .venv && make setup"
)
_CUDA = f'{sys.executable} -m pip install "tensorflow[and-cuda]==2.20.*"'
_ANSWERS_SLOWLY = "python -m seg_tf.doctor --time_limit=300"


def check_python() -> list[Finding]:
    """Virtual environment, and the packages of the lock file."""
    version = ".".join(map(str, sys.version_info[:3]))
    findings = [ok(f"Python {version}: {sys.executable}")]
    if sys.prefix == sys.base_prefix:
        findings.append(
            warning(
                "This Python is in no virtual environment",
                "`make setup` installs into .venv, which this Python does not see",
                "make setup && source .venv/bin/activate",
            )
        )
    if not LOCK.is_file():
        return [*findings, ok("Packages are not compared: no requirements/run.txt")]
    return findings + judge_packages(
        pinned_versions(LOCK.read_text(encoding="utf-8")), installed_versions()
    )


def judge_packages(pinned: dict[str, str], installed: dict[str, str]) -> list[Finding]:
    """Compares versions by package name."""
    missing = sorted(pinned.keys() - installed.keys())
    other = [
        f"{name} {installed[name]} (pinned: {version})"
        for name, version in sorted(pinned.items())
        if name in installed and installed[name] != version
    ]
    findings = []
    if missing:
        title = f"Packages are missing: {', '.join(missing)}"
        cause = "requirements/run.txt names them"
        findings.append(problem(title, cause, _REINSTALL))
    if other:
        title = "Packages have other versions than were tested"
        findings.append(warning(title, ", ".join(other), _REINSTALL))
    return findings or [ok(f"All {len(pinned)} packages of requirements/run.txt")]


def pinned_versions(lock: str) -> dict[str, str]:
    """Version of each package that a lock file pins for this Python and platform."""
    matches = [_PIN.match(line) for line in lock.splitlines()]
    return {
        _normalised(match[1]): match[2]
        for match in matches
        if match and _applies(match[3])
    }


def _applies(marker: str | None) -> bool:
    """Tells if an environment marker holds here; without `packaging`, it does not."""
    if not marker:
        return True
    try:
        from packaging import markers
    except ImportError:
        return False
    return markers.Marker(marker).evaluate()


def installed_versions() -> dict[str, str]:
    """Name and version of every package that this Python finds."""
    found: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if name:  # a broken installation may leave a folder without metadata
            found.setdefault(_normalised(name), distribution.version)
    return found


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def check_tensorflow(time_limit: float) -> list[Finding]:
    """TensorFlow computes, on each GPU that the machine has."""
    # Libraries that cannot be loaded are named at this level of the log only.
    answer = probes.run(
        probes.command_of("tensorflow"),
        time_limit,
        TF_CPP_MIN_LOG_LEVEL="0",
        TF_CPP_VMODULE="dso_loader=1",
    )
    if answer.failure:
        return [_failed("TensorFlow", answer)]
    version, path = answer.facts["version"], answer.facts["path"]
    return [ok(f"TensorFlow {version} computes: {path}"), *judge_gpus(answer, *_gpus())]


def _gpus() -> tuple[int, str]:
    """Number of NVIDIA GPUs that the driver offers, and what nvidia-smi says."""
    number = len(glob.glob("/dev/nvidia[0-9]*"))
    if shutil.which("nvidia-smi") is None:
        return number, "nvidia-smi is not on the PATH"
    listed = subprocess.run(
        ["nvidia-smi", "-L"], capture_output=True, text=True, check=False
    )
    return number, (listed.stdout + listed.stderr).strip()


def judge_gpus(answer: ProbeAnswer, number: int, listed: str) -> list[Finding]:
    """Compares the GPUs that TensorFlow sees with those of the machine.

    Args:
        answer: of the probe `tensorflow`.
        number: of GPUs that the driver offers.
        listed: the answer of nvidia-smi.
    """
    gpus = answer.facts["gpus"]
    findings = [_describe(place, gpu) for place, gpu in enumerate(gpus)]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if not number and not gpus:
        return [ok("There is no NVIDIA GPU: training runs on the CPU")]
    if len(gpus) >= number:
        return findings
    if visible is not None:
        cause, cure = f"CUDA_VISIBLE_DEVICES={visible!r}", "unset CUDA_VISIBLE_DEVICES"
        if gpus:
            return findings
    elif not answer.facts["with_cuda"]:
        cause = f"TensorFlow at {answer.facts['path']} is a build for CPUs"
        cure = f"{sys.executable} -m pip uninstall --yes tensorflow-cpu && {_CUDA}"
    else:
        said = re.findall(r"(?im)^.*(?:dlerror|cuinit|cuda).*$", answer.output)
        cause = f"TensorFlow says: {said[-1].strip() if said else 'nothing'}; {listed}"
        cure = f"nvidia-smi; a driver of 525.60.13 or later; {_CUDA}"
    title = f"TensorFlow sees {len(gpus)} of {number} GPUs"
    return [*findings, problem(title, cause, cure)]


def _describe(place: int, gpu: dict[str, Any]) -> Finding:
    capability = tuple(gpu["capability"])
    policy = "float32 (no fast half precision)"
    if capability >= (7, 0):
        policy = "mixed_float16"
    if capability >= (8, 0):
        policy = "mixed_bfloat16 or mixed_float16"
    dotted = ".".join(map(str, capability)) or "unknown"
    return ok(
        f"GPU {place}: {gpu['name']}, compute capability {dotted}; fastest "
        f"training.dtype_policy: {policy}"
    )


def check_keras(time_limit: float) -> list[Finding]:
    """Keras 3 runs on TensorFlow, and keras-hub imports."""
    command = probes.command_of("keras")
    return [judge_keras(probes.run(command, time_limit, TF_CPP_MIN_LOG_LEVEL="3"))]


def judge_keras(answer: ProbeAnswer) -> Finding:
    """Judges the answer of the probe `keras`."""
    if answer.failure:
        if os.environ.get("TF_USE_LEGACY_KERAS"):
            cause = f"TF_USE_LEGACY_KERAS is set; {answer.failure}"
            return problem("keras-hub fails", cause, "unset TF_USE_LEGACY_KERAS")
        return _failed("Keras or keras-hub", answer)
    facts = answer.facts
    title = f"Keras {facts['keras']} on {facts['backend']}, keras-hub " + str(
        facts["keras_hub"]
    )
    where = "KERAS_BACKEND or ~/.keras/keras.json"
    if facts["backend"] != "tensorflow":
        return problem(title, f"{where} says so", "export KERAS_BACKEND=tensorflow")
    if facts["floatx"] != "float32":
        cause = f'~/.keras/keras.json has "floatx": "{facts["floatx"]}"'
        return warning(title, cause, 'set "floatx": "float32" there')
    return ok(title)


def check_tensorflow_text(time_limit: float) -> list[Finding]:
    """tensorflow-text tokenises in the graph."""
    command = probes.command_of("tensorflow_text")
    answer = probes.run(command, time_limit, TF_CPP_MIN_LOG_LEVEL="3")
    if answer.failure:
        return [_failed("tensorflow-text", answer)]
    version = answer.facts["version"]
    return [ok(f"tensorflow-text {version} splits a sentence into the right pieces")]


def _failed(name: str, answer: ProbeAnswer) -> Finding:
    slow = answer.failure.startswith("no answer")
    return problem(
        f"{name} does not work", answer.failure, _ANSWERS_SLOWLY if slow else _REINSTALL
    )
