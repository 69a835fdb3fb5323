"""Two processes on this machine, started by horovodrun, that add up tensors."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from seg_tf.doctor import children, cures
from seg_tf.doctor.children import HUNG, Outcome, Report
from seg_tf.doctor.findings import Finding, ok, problem, warning

_SENT = (1.0, 2.5)
# Rank 0 sends it once, rank 1 twice.
_EXPECTED = [3.0, 7.5]
TRY_BY_HAND = (
    "horovodrun -np 2 --gloo --verbose --network-interfaces=lo "
    f"{sys.executable} -m seg_tf.doctor.child check_all_reduce report.json"
)
# What a process of several says before anything else, such as "[1]<stderr>:".
_PREFIX = re.compile(r"^\[\d+\]<std(?:out|err)>:\s?")
_ERROR = re.compile(r"\w*(?:Error|Exception|error|refused)\b.*")


def check(time_limit: float, built_with: Sequence[str], gpus: int) -> list[Finding]:
    facts = gather()
    if not facts["usable"] or "gloo" not in built_with:
        return judge_launcher(facts, built_with)
    launcher = (facts["usable"], "-np", "2", "--gloo", "--disable-cache")
    outcome = children.run_probe(
        "check_all_reduce",
        time_limit,
        launcher=launcher,
        **variables(built_with, gpus),
    )
    return [*judge_launcher(facts, built_with), judge(outcome)]


def variables(built_with: Sequence[str], gpus: int) -> dict[str, str]:
    """Environment of the two: NCCL wants a GPU for each, otherwise Gloo is tried."""
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3"}
    if "nccl" in built_with and gpus >= 2:
        return quiet
    return {**quiet, "CUDA_VISIBLE_DEVICES": "-1"}


def gather() -> dict[str, Any]:
    """Where horovodrun is: in this environment, and on the PATH."""
    beside = os.path.join(os.path.dirname(sys.executable), "horovodrun")
    usable = beside if os.access(beside, os.X_OK) else ""
    return {"usable": usable, "on_path": shutil.which("horovodrun") or ""}


def probe(report: Report) -> None:
    report.step("importing horovod.tensorflow")
    import horovod.tensorflow as hvd
    import tensorflow as tf

    report.step("meeting the other process")
    hvd.init()
    if gpus := tf.config.list_physical_devices("GPU"):
        tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
        tf.config.experimental.set_memory_growth(gpus[hvd.local_rank()], True)
    report.step("adding up tensors of both processes")
    total = hvd.allreduce(tf.constant(_SENT) * (1.0 + hvd.rank()), op=hvd.Sum)
    kind = tf.DeviceSpec.from_string(total.device).device_type
    report.add(size=hvd.size(), sum=total.numpy().tolist(), device=kind)
    hvd.shutdown()


def judge_launcher(
    facts: Mapping[str, Any], built_with: Sequence[str]
) -> list[Finding]:
    """Whether the right horovodrun would start."""
    if not facts["usable"]:
        return [
            problem(
                "horovodrun of this environment cannot be started",
                f"no such program beside {sys.executable}"
                + (f"; {facts['on_path']} is another's" if facts["on_path"] else ""),
                cures.REBUILD_HOROVOD,
            )
        ]
    if "gloo" not in built_with:
        return [
            warning(
                "All-reduce over two processes was not tried",
                "Horovod is built without Gloo, which needs no MPI on the machine",
                "start a run by mpirun, or rebuild: HOROVOD_WITH_GLOO=1 "
                f"{cures.HOROVOD}",
            )
        ]
    found = facts["on_path"]
    if found and os.path.realpath(found) != os.path.realpath(facts["usable"]):
        return [
            warning(
                f"`horovodrun` on the PATH is {found}",
                f"that of this environment is {facts['usable']}",
                "source .venv/bin/activate",
            )
        ]
    return []


def judge(outcome: Outcome) -> Finding:
    """Whether the two processes met and added up right."""
    values = outcome.values
    if values.get("size") == 2 and values.get("sum") == _EXPECTED:
        how = "GPUs, by NCCL" if values.get("device") == "GPU" else "CPU, by Gloo"
        return ok(f"horovodrun starts two processes here, which add up on the {how}")
    title = "Two processes on this machine cannot train together"
    if "sum" in values:
        return problem(
            title,
            f"{values['size']} processes added up to {values['sum']}, not to "
            f"{_EXPECTED}",
            cures.REBUILD_HOROVOD,
        )
    if outcome.ending == HUNG:
        return problem(
            title,
            f"{outcome.failure}; a firewall that blocks connections on the machine "
            "itself, or a very slow start",
            f"python -m seg_tf.doctor --time_limit=300; to see more: {TRY_BY_HAND}",
        )
    return problem(
        title,
        first_error(outcome.log) or outcome.failure,
        f"to see all of it: {TRY_BY_HAND}",
    )


def first_error(log: str) -> str:
    """The first line in which a process says what went wrong."""
    for line in log.splitlines():
        if match := _ERROR.search(_PREFIX.sub("", line)):
            return match.group().strip()
    return ""
