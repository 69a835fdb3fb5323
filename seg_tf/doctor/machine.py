"""The machine: cores, memory, disk and limits."""

from __future__ import annotations

import glob
import os
import pathlib
import resource
import shutil

from seg_tf.doctor.findings import Finding, ok, warning

_GIB = 2**30
_LEAST_MEMORY = 4 * _GIB
# A checkpoint of BERT-large with its optimizer is 4 GB, and several are kept.
_LEAST_DISK = 20 * _GIB
_LEAST_SHARED_MEMORY = _GIB
_LEAST_FILES = 1024


def check(output_dir: str) -> list[Finding]:
    """Compares the machine with what training needs."""
    # Standard library alone, like the doctor.
    from seg_tf import host_memory

    gpus = len(glob.glob("/dev/nvidia[0-9]*"))
    folder = pathlib.Path(output_dir).absolute()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    shared = pathlib.Path("/dev/shm")
    return [
        judge_cores(len(os.sched_getaffinity(0)), host_memory.total_bytes(), gpus),
        judge_disk(
            str(folder),
            shutil.disk_usage(existing).free,
            os.access(existing, os.W_OK),
        ),
        judge_shared_memory(
            shutil.disk_usage(shared).free if shared.is_dir() else 0, gpus
        ),
        # The soft limit is raised by every command.
        judge_open_files(resource.getrlimit(resource.RLIMIT_NOFILE)[1]),
    ]


def judge_cores(cores: int, memory: int, gpus: int) -> Finding:
    """Two cores for each GPU, and memory for a model of base size."""
    title = f"{cores} cores, {_gib(memory)} of memory, {gpus} NVIDIA GPUs"
    if memory < _LEAST_MEMORY:
        cause = f"models of base size need {_gib(_LEAST_MEMORY)} or more"
        return warning(title, cause, "a smaller --config.training.micro_batch_size")
    if cores < 2 * gpus:
        cause = "the process of each GPU also reads and masks its samples"
        return warning(title, cause, "2 cores or more for each GPU")
    return ok(title)


def judge_disk(folder: str, free: int, writable: bool) -> Finding:
    """Disk space for checkpoints, in a folder that this user may write to."""
    title = f"{_gib(free)} free for {folder}"
    cure = "another --output_dir, here and for run_pretraining.py"
    if not writable:
        cause = "this user may not make or change files there"
        return warning(f"{folder} cannot be written to", cause, cure)
    if free < _LEAST_DISK:
        cause = "a run keeps several checkpoints, 4 GB each for a large model"
        return warning(title, cause, cure)
    return ok(title)


def judge_shared_memory(free: int, gpus: int) -> Finding:
    """NCCL passes gradients between the GPUs of a host through /dev/shm."""
    title = f"{_gib(free)} free in /dev/shm"
    if not free or (free < _LEAST_SHARED_MEMORY and gpus > 1):
        cause = "worker processes and NCCL need it; containers get 64 MB"
        return warning(title, cause, "docker run --shm-size=8g …")
    return ok(title)


def judge_open_files(limit: int) -> Finding:
    """Shards that are read, devices and connections of NCCL and Horovod are files."""
    if limit == resource.RLIM_INFINITY:
        return ok("Any number of open files allowed")
    title = f"{limit} open files allowed"
    if limit < _LEAST_FILES:
        cause = (
            "shards that are read, GPUs and connections to other processes are files"
        )
        return warning(title, cause, "ulimit -n 65536")
    return ok(title)


def _gib(size: int) -> str:
    return f"{size / _GIB:.1f} GiB"
