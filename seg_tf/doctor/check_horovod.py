"""Horovod: whether it is there, for this TensorFlow, and what it was built with."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
from collections.abc import Mapping
from typing import Any

from seg_tf.doctor import check_all_reduce, children, cures, nvidia
from seg_tf.doctor.children import HUNG, Outcome, Report
from seg_tf.doctor.findings import PROBLEM, Finding, ok, problem, warning

# As third_party/horovod labels its wheels.
_LABEL = re.compile(r"\+tf(?P<tensorflow>[\d.]+)\.patch(?P<patch>[0-9a-f]{8})")
# Where horovodrun, Open MPI and other MPIs say how many processes they started.
_LAUNCHERS = {
    "HOROVOD_SIZE": "horovodrun",
    "OMPI_COMM_WORLD_SIZE": "mpirun",
    "PMI_SIZE": "srun or mpirun",
}
_KINDS = ("gloo", "mpi", "nccl", "cuda", "rocm")


def check(time_limit: float, all_reduce: bool) -> list[Finding]:
    facts = gather()
    if not facts["version"]:
        return judge_missing(facts)
    outcome = children.run_probe("check_horovod", time_limit, TF_CPP_MIN_LOG_LEVEL="3")
    findings = judge(outcome, facts)
    if all_reduce and "size" in outcome.values:
        built_with = outcome.values["built_with"]
        findings += check_all_reduce.check(time_limit, built_with, facts["gpus"])
    return findings


def gather() -> dict[str, Any]:
    """What is known of Horovod without importing it."""
    patch = cures.HOROVOD_PATCH
    driver = nvidia.gather()
    launched = [name for name in _LAUNCHERS if os.environ.get(name, "1") != "1"]
    return {
        "version": cures.installed_version("horovod"),
        "built_for": _built_for(),
        "tensorflow": cures.installed_version("tensorflow"),
        "patch": hashlib.sha256(patch.read_bytes()).hexdigest()[:8]
        if patch.is_file()
        else "",
        "processes": os.environ[launched[0]] if launched else "",
        "launcher": _LAUNCHERS[launched[0]] if launched else "",
        "gpus": driver["devices"] or len(driver["listed"]),
    }


def _built_for() -> str:
    """Version of TensorFlow that the installed Horovod was compiled against."""
    try:
        distribution = importlib.metadata.distribution("horovod")
        path = distribution.locate_file("horovod/metadata.json")
        with open(os.fspath(path), encoding="utf-8") as stream:
            return json.load(stream).get("tensorflow") or ""
    except (importlib.metadata.PackageNotFoundError, OSError, ValueError):
        return ""


def probe(report: Report) -> None:
    report.step("importing horovod.tensorflow")
    import horovod.tensorflow as hvd

    report.add(built_with=[kind for kind in _KINDS if getattr(hvd, f"{kind}_built")()])
    report.step("starting Horovod in one process")
    hvd.init()
    report.add(size=hvd.size())
    hvd.shutdown()


def judge_missing(facts: Mapping[str, Any]) -> list[Finding]:
    """Horovod is not installed: fatal only to a run that counts on it."""
    if facts["processes"]:
        return [
            problem(
                f"Horovod is not installed, and {facts['launcher']} started "
                f"{facts['processes']} processes",
                "without it they cannot train together, so a run stops at its start",
                f"{cures.HOROVOD}, and start by horovodrun of the same environment",
            )
        ]
    return [
        warning(
            "Horovod is not installed",
            "everything works in one process; training on several needs it",
            cures.HOROVOD,
        )
    ]


def judge(outcome: Outcome, facts: Mapping[str, Any]) -> list[Finding]:
    """Findings from the probe and from `gather`."""
    mismatch = _judge_versions(facts)
    if "size" not in outcome.values:
        if mismatch and mismatch.level == PROBLEM:
            return [mismatch]  # which explains whatever failed
        failure = _explain_failure(outcome, facts)
        return [failure, mismatch] if mismatch else [failure]
    built_with = outcome.values["built_with"]
    findings = [
        ok(f"Horovod {facts['version']} starts; built with {', '.join(built_with)}")
    ]
    if mismatch:
        findings = [mismatch]
    if facts["launcher"] not in ("", "horovodrun") and "mpi" not in built_with:
        findings.append(
            problem(
                f"{facts['launcher']} started {facts['processes']} processes, and "
                "Horovod is built without MPI",
                "each takes itself for the only one and would train alone",
                f"start by horovodrun, or HOROVOD_WITH_MPI=1 {cures.HOROVOD}",
            )
        )
    if facts["gpus"] and "nccl" not in built_with:
        findings.append(
            warning(
                f"Horovod is built without NCCL, and there are {facts['gpus']} GPUs",
                "gradients would go through the memory of the host, which is slow",
                f"{cures.HOROVOD_WITH_NCCL} (needs the CUDA toolkit and libnccl-dev)",
            )
        )
    return findings


def _judge_versions(facts: Mapping[str, Any]) -> Finding | None:
    """Whether Horovod was built for another TensorFlow or with another patch."""
    label = _LABEL.search(facts["version"])
    built_for = facts["built_for"] or (label and label["tensorflow"].rstrip("."))
    if built_for and facts["tensorflow"] and built_for != facts["tensorflow"]:
        return problem(
            f"Horovod {facts['version']} is built for TensorFlow {built_for}",
            f"TensorFlow {facts['tensorflow']} is installed; Horovod's library only "
            "fits the one it was compiled against",
            _rebuild(facts),
        )
    if not label:
        return warning(
            f"Horovod {facts['version']} was not built here",
            "third_party/horovod patches the release for TensorFlow 2.20; this is "
            "another build",
            f"if it does not work: {_rebuild(facts)}",
        )
    if facts["patch"] and label["patch"] != facts["patch"]:
        return warning(
            f"Horovod {facts['version']} is built with an older patch",
            f"third_party/horovod has patch {facts['patch']}, this build "
            f"{label['patch']}",
            _rebuild(facts),
        )
    return None


def _rebuild(facts: Mapping[str, Any]) -> str:
    """The command that builds Horovod for what is here."""
    operations = "HOROVOD_GPU_OPERATIONS=NCCL " if facts["gpus"] else ""
    return operations + cures.REBUILD_HOROVOD


def _explain_failure(outcome: Outcome, facts: Mapping[str, Any]) -> Finding:
    title = f"Horovod {facts['version']} cannot be imported"
    if "built_with" in outcome.values:
        title = f"Horovod {facts['version']} does not start in one process"
    if facts["processes"]:
        title += f", and this is one of {facts['processes']} processes"
    if "libnccl" in outcome.failure:
        return problem(
            title,
            f"it is built with NCCL, whose library does not load: {outcome.failure}",
            "apt-get install libnccl2, or put its folder on LD_LIBRARY_PATH; on a "
            f"machine without GPUs: {cures.HOROVOD} in an environment of its own",
        )
    if outcome.ending == HUNG:
        return problem(
            title, outcome.failure, "python -m seg_tf.doctor --time_limit=300"
        )
    return problem(
        title,
        outcome.failure,
        f"first what is said of TensorFlow and Keras above, then: {_rebuild(facts)}",
    )
