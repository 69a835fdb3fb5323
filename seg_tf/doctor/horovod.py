"""Horovod: built for this TensorFlow, and two processes can add up a tensor."""

from __future__ import annotations

import glob
import os
import sys

from seg_tf.doctor import probes
from seg_tf.doctor.findings import Finding, ok, problem, warning
from seg_tf.doctor.probes import ProbeAnswer

_BUILD = "make setup HOROVOD=require"
# Compares with the TensorFlow that is there, which `make setup` takes on trust.
REBUILD = f"{sys.executable} third_party/horovod/build_horovod.py"
_LAUNCH = ("-np", "2", "--gloo", "--disable-cache", "--network-interfaces=lo")
# Rank 0 sends (1.0, 2.5), rank 1 twice that.
_SUM = [3.0, 7.5]


def check(time_limit: float, all_reduce: bool) -> list[Finding]:
    """Compares the build with TensorFlow and starts two processes."""
    version = probes.installed_version("horovod")
    if not version:
        cause = "everything works in one process; training in several needs it"
        return [warning("Horovod is not installed", cause, _BUILD)]
    built = judge_build(version, probes.installed_version("tensorflow"))
    if not all_reduce:
        return [built]
    launcher = os.path.join(os.path.dirname(sys.executable), "horovodrun")
    command = [launcher, *_LAUNCH, *probes.command_of("all_reduce")]
    # NCCL needs a GPU for each process.
    several = len(glob.glob("/dev/nvidia[0-9]*")) > 1
    devices = {} if several else {"CUDA_VISIBLE_DEVICES": "-1"}
    answer = probes.run(command, time_limit, TF_CPP_MIN_LOG_LEVEL="3", **devices)
    return [built, judge_sum(answer, " ".join(command))]


def judge_build(version: str, tensorflow: str) -> Finding:
    """Compares the TensorFlow in Horovod's version with the one that is installed.

    Args:
        version: of Horovod; a build of third_party/horovod is called 0.28.1+tf2.20.0….
        tensorflow: the installed version.
    """
    title = f"Horovod {version}"
    if "+tf" not in version:
        cause = "third_party/horovod patches it for TensorFlow 2.20; this is another"
        return warning(f"{title} was not built here", cause, REBUILD)
    built_for = version.partition("+tf")[2].partition(".patch")[0]
    if built_for != tensorflow:
        cause = f"it is built for TensorFlow {built_for}; {tensorflow} is installed"
        return problem(title, cause, REBUILD)
    return ok(f"{title} is built for the installed TensorFlow")


def judge_sum(answer: ProbeAnswer, command: str) -> Finding:
    """Judges the answer of two processes to the probe `all_reduce`."""
    facts = answer.facts
    if facts.get("size") == 2 and facts.get("sum") == _SUM:
        how = "GPUs" if facts["device"] == "GPU" else "CPU"
        return ok(f"horovodrun starts two processes here, which add up on the {how}")
    cause = answer.failure or f"expected the sum {_SUM} of 2 processes, found {facts}"
    title = "Two processes on this machine cannot train together"
    return problem(title, cause, f"{command} shows more; {REBUILD}")
