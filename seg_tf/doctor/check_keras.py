"""Keras 3 on TensorFlow, and keras-hub, which takes its Keras from there."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from seg_tf.doctor import children, cures
from seg_tf.doctor.children import HUNG, Outcome, Report
from seg_tf.doctor.findings import Finding, ok, problem, warning

_TRUE = ("1", "true")


def check(time_limit: float) -> list[Finding]:
    outcome = children.run_probe("check_keras", time_limit, TF_CPP_MIN_LOG_LEVEL="3")
    return judge(outcome, gather())


def gather() -> dict[str, Any]:
    """What chooses the Keras and its backend."""
    home = os.environ.get("KERAS_HOME") or os.path.join("~", ".keras")
    path = pathlib.Path(home, "keras.json").expanduser()
    try:
        settings = json.loads(path.read_text())
    except (OSError, ValueError):
        settings = {}
    return {
        "variable": os.environ.get("KERAS_BACKEND", ""),
        "file": str(path),
        "in_file": settings.get("backend", "") if isinstance(settings, dict) else "",
        "legacy": os.environ.get("TF_USE_LEGACY_KERAS", ""),
        "tf_keras": importlib.util.find_spec("tf_keras") is not None,
    }


def probe(report: Report) -> None:
    report.step("importing keras")
    import keras

    report.add(
        keras=keras.__version__,
        backend=keras.backend.backend(),
        floatx=keras.backend.floatx(),
    )
    report.step("importing keras_hub")
    import keras_hub

    report.add(keras_hub=keras_hub.__version__)


def judge(outcome: Outcome, facts: Mapping[str, Any]) -> list[Finding]:
    """Findings from the probe and from `gather`."""
    values = outcome.values
    findings = [
        finding
        for finding in (_judge_legacy(outcome, facts), _judge_backend(facts))
        if finding is not None
    ]
    if "keras_hub" not in values:
        if not findings:
            findings.append(_explain_failure(outcome))
        return findings
    if not values["keras"].startswith("3."):
        findings.append(
            problem(
                f"Keras {values['keras']} is not Keras 3",
                "the suite is written for Keras 3",
                cures.packages(),
            )
        )
    if values["floatx"] != "float32":
        findings.append(
            warning(
                f"Keras makes {values['floatx']} tensors by default",
                f'{facts["file"]} has "floatx": "{values["floatx"]}"',
                f'set "floatx": "float32" in {facts["file"]}',
            )
        )
    if not findings:
        findings.append(
            ok(
                f"Keras {values['keras']} on TensorFlow, keras-hub "
                f"{values['keras_hub']}"
            )
        )
    return findings


def _judge_legacy(outcome: Outcome, facts: Mapping[str, Any]) -> Finding | None:
    """TensorFlow looks for the old Keras again and again if it is not there."""
    if facts["legacy"].lower() not in _TRUE:
        return None
    if facts["tf_keras"] and "RecursionError" not in outcome.error:
        return None
    fault = "cannot be imported" if facts["tf_keras"] else "is not installed"
    return problem(
        "keras-hub cannot be imported",
        f"TF_USE_LEGACY_KERAS={facts['legacy']} asks for the package tf_keras, which "
        f"{fault}",
        "unset TF_USE_LEGACY_KERAS",
    )


def _judge_backend(facts: Mapping[str, Any]) -> Finding | None:
    """The variable wins over the file; both may be silent."""
    if facts["variable"]:
        backend, where = facts["variable"], "KERAS_BACKEND in the environment"
        cure = "unset KERAS_BACKEND"
    else:
        backend, where = facts["in_file"], facts["file"]
        cure = f'export KERAS_BACKEND=tensorflow, or mend "backend" in {where}'
    if backend in ("", "tensorflow"):
        return None
    return problem(
        f"Keras runs on {backend}, not on TensorFlow", f"{where} says so", cure
    )


def _explain_failure(outcome: Outcome) -> Finding:
    name = "keras-hub" if "keras" in outcome.values else "Keras"
    if outcome.ending == HUNG:
        cure = "python -m seg_tf.doctor --time_limit=300"
    else:
        cure = f"first what is said of TensorFlow above, then: {cures.packages()}"
    return problem(f"{name} cannot be imported", outcome.failure, cure)
