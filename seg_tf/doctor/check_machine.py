"""The machine: cores, memory, disk, limits; too little of it is a warning."""

from __future__ import annotations

import os
import pathlib
import resource
import shutil
from collections.abc import Mapping
from typing import Any

from seg_tf.doctor import nvidia
from seg_tf.doctor.findings import Finding, ok, warning

_GIB = 2**30
_LEAST_MEMORY = 4 * _GIB
# A checkpoint of BERT-large with its optimizer is 4 GB, and several are kept.
_LEAST_DISK = 20 * _GIB
_LEAST_SHARED_MEMORY = _GIB
_LEAST_FILES = 1024


def check(output_dir: str) -> list[Finding]:
    return judge(gather(output_dir))


def gather(output_dir: str) -> dict[str, Any]:
    """Sizes in bytes; None for what this machine does not have."""
    folder = pathlib.Path(output_dir).absolute()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    shared = pathlib.Path("/dev/shm")
    driver = nvidia.gather()
    from seg_tf import host_memory

    return {
        "cores": _cores(),
        "memory": host_memory.total_bytes(),
        "output_dir": str(folder),
        "disk": shutil.disk_usage(existing).free,
        "writable": os.access(existing, os.W_OK),
        "shared_memory": shutil.disk_usage(shared).free if shared.is_dir() else None,
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "ssh": shutil.which("ssh") or "",
        "gpus": driver["devices"] or len(driver["listed"]),
    }


def judge(facts: Mapping[str, Any]) -> list[Finding]:
    """Findings from what `gather` returned."""
    return [
        _judge_cores(facts),
        _judge_disk(facts),
        _judge_shared_memory(facts),
        _judge_open_files(facts),
        _judge_ssh(facts),
    ]


def _judge_cores(facts: Mapping[str, Any]) -> Finding:
    title = f"{facts['cores']} cores, {_gib(facts['memory'])} of memory"
    if facts["memory"] < _LEAST_MEMORY:
        return warning(
            title,
            f"below {_gib(_LEAST_MEMORY)} larger models than the tiny ones do not fit",
            "a smaller --config.training.batch_size, or more memory",
        )
    if facts["cores"] < 2 * facts["gpus"]:
        return warning(
            f"{title} for {facts['gpus']} GPUs",
            "each GPU has a process that also reads and masks its samples",
            "give the machine, job or container 2 cores or more for each GPU",
        )
    return ok(title)


def _judge_disk(facts: Mapping[str, Any]) -> Finding:
    title = f"{_gib(facts['disk'])} free for {facts['output_dir']}"
    if not facts["writable"]:
        return warning(
            f"{facts['output_dir']} cannot be written to",
            "this user may not make or change files there",
            "another --output_dir here and for run_pretraining.py",
        )
    if facts["disk"] < _LEAST_DISK:
        return warning(
            title,
            "a run keeps several checkpoints, 4 GB each for a large model",
            "free some, or another --output_dir here and for run_pretraining.py",
        )
    return ok(title)


def _judge_shared_memory(facts: Mapping[str, Any]) -> Finding:
    if facts["shared_memory"] is None:
        return warning(
            "There is no /dev/shm",
            "worker processes need it for locks, and NCCL to pass gradients between "
            "the GPUs of a machine",
            "mount -t tmpfs tmpfs /dev/shm",
        )
    title = f"{_gib(facts['shared_memory'])} free in /dev/shm"
    if facts["shared_memory"] < _LEAST_SHARED_MEMORY and facts["gpus"] > 1:
        return warning(
            title,
            "NCCL passes gradients between the GPUs of a machine through it; "
            "containers get 64 MB",
            "docker run --shm-size=8g …",
        )
    return ok(title)


def _judge_open_files(facts: Mapping[str, Any]) -> Finding:
    limit = facts["open_files"]
    title = f"{limit} open files allowed"
    if limit == resource.RLIM_INFINITY:
        return ok("Any number of open files allowed")
    if limit < _LEAST_FILES:
        return warning(
            title,
            "a process keeps a file open for each shard it reads, and connections to "
            "the others",
            "ulimit -n 65536",
        )
    return ok(title)


def _judge_ssh(facts: Mapping[str, Any]) -> Finding:
    if facts["ssh"]:
        return ok(f"There is an ssh client: {facts['ssh']}")
    return warning(
        "There is no ssh client",
        "horovodrun starts processes on other hosts by it; one host needs none",
        "apt-get install openssh-client",
    )


def _cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _gib(size: int) -> str:
    return f"{size / _GIB:.1f} GiB"
