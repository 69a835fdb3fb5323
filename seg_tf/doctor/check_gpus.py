"""GPUs: what the driver offers, what TensorFlow sees of it, and why not all."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from seg_tf.doctor import cures, nvidia
from seg_tf.doctor.children import Outcome, Report
from seg_tf.doctor.findings import Finding, ok, problem, warning

# The first driver for CUDA 12, and with it for all of CUDA 12.
_OLDEST_DRIVER, _OLDEST_CUDA = (525, 60, 13), 12000
_MISSING_LIBRARY = re.compile(
    r"Could not load dynamic library '([^']+)'; dlerror: (.*)"
)
_CANNOT_INITIALISE = {
    100: (
        "the driver has no GPU for this process, as in a job or container that was "
        "given none",
        "ask the scheduler for GPUs (Slurm: --gpus-per-node=8), then nvidia-smi",
    ),
    101: (
        "CUDA_VISIBLE_DEVICES names no GPU of this machine",
        "unset CUDA_VISIBLE_DEVICES",
    ),
    802: (
        "the switches between the GPUs are not set up",
        "systemctl start nvidia-fabricmanager",
    ),
    803: (
        "the driver's library and its kernel module have different versions",
        "restart the machine; in a container, take LD_LIBRARY_PATH's copies of "
        "libcuda.so away",
    ),
    804: (
        "a CUDA compatibility library is used that this GPU does not support",
        "take /usr/local/cuda/compat off LD_LIBRARY_PATH, and upgrade the driver",
    ),
    999: ("the driver is not set up for this process", "nvidia-modprobe -u -c=0"),
}


def probe(report: Report) -> None:
    """Goes on after TensorFlow was imported (`check_tensorflow.probe`)."""
    import tensorflow as tf

    report.step("asking the driver for GPUs")
    report.add(
        driver=nvidia.ask_driver(), visible=os.environ.get("CUDA_VISIBLE_DEVICES")
    )
    report.step("asking TensorFlow for GPUs")
    devices = tf.config.list_physical_devices("GPU")
    details = [tf.config.experimental.get_device_details(device) for device in devices]
    report.add(gpus=[_plain(detail) for detail in details])
    for device in devices:
        tf.config.experimental.set_memory_growth(device, True)
    for number in range(len(devices)):
        report.step(f"multiplying two matrices on GPU {number}")
        with tf.device(f"GPU:{number}"):
            tf.linalg.matmul(tf.ones((64, 64)), tf.ones((64, 64))).numpy()
        report.add(computed=number + 1)


def _plain(detail: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": detail.get("device_name", "GPU"),
        "capability": list(detail.get("compute_capability", ())),
    }


def judge(outcome: Outcome, driver: Mapping[str, Any]) -> list[Finding]:
    """Findings from `probe` and `nvidia.gather()`."""
    values = outcome.values
    gpus = values.get("gpus")
    if gpus is None:
        return [
            problem(
                "TensorFlow fails when asked for GPUs",
                outcome.failure,
                "to train on the CPU: export CUDA_VISIBLE_DEVICES=-1; otherwise "
                f"nvidia-smi, and {cures.cuda_packages()}",
            )
        ]
    if not gpus:
        if not driver["devices"] and not driver["listed"]:
            return judge_driver(driver)
        cause, cure = explain_no_gpu(outcome, driver)
        number = driver["devices"] or len(driver["listed"])
        title = f"TensorFlow sees none of the {number} GPUs"
        return [problem(title, cause, cure)]
    findings = [_judge_gpu(number, gpu, values) for number, gpu in enumerate(gpus)]
    if values.get("computed", 0) < len(gpus):
        findings.append(
            problem(
                "A GPU does not compute",
                outcome.failure,
                "nvidia-smi shows whether another process holds its memory; otherwise "
                f"{cures.cuda_packages()}",
            )
        )
    if len(gpus) < driver["devices"] and values.get("visible") is None:
        findings.append(
            warning(
                f"TensorFlow sees {len(gpus)} of {driver['devices']} GPUs",
                "it passes over GPUs that are too old or much weaker than the others",
                "nvidia-smi; the start of a run's log names those left out",
            )
        )
    return findings


def judge_driver(driver: Mapping[str, Any]) -> list[Finding]:
    """Findings on a machine where no GPU can be used, without TensorFlow's view."""
    if driver["devices"] or driver["listed"]:
        count = driver["devices"] or len(driver["listed"])
        return [ok(f"The driver {driver['driver']} offers {count} GPUs")]
    if driver["pci"]:
        return [
            warning(
                f"{driver['pci']} NVIDIA GPUs are in the machine and cannot be used",
                "there is no /dev/nvidia0: no driver, or a container without GPUs",
                "install NVIDIA's driver (525.60.13 or later); a container is started "
                "with: docker run --gpus all …",
            )
        ]
    return [ok("There is no NVIDIA GPU: training runs on the CPU")]


def explain_no_gpu(outcome: Outcome, driver: Mapping[str, Any]) -> tuple[str, str]:
    """Cause and cure where the driver offers GPUs and TensorFlow sees none."""
    values, asked = outcome.values, outcome.values["driver"]
    visible = values.get("visible")
    if visible is not None and visible.strip() in ("", "-1", "NoDevFiles"):
        cause = f"CUDA_VISIBLE_DEVICES={visible!r} hides them"
        return cause, "unset CUDA_VISIBLE_DEVICES"
    if not values["with_cuda"]:
        return (
            f"TensorFlow {values['version']} at {values['path']} is a build for CPUs",
            f"{cures.PIP} uninstall --yes tensorflow tensorflow-cpu && "
            f"{cures.cuda_packages()}",
        )
    if asked["error"]:
        return (
            f"the driver's library does not load ({asked['error']})",
            "install the driver's libraries, or ldconfig; a container is started with "
            "--gpus all and NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        )
    if _too_old(driver["driver"], asked["cuda"]):
        supported = f"{asked['cuda'] // 1000}.{asked['cuda'] % 1000 // 10}"
        return (
            f"the driver {driver['driver']} is too old: it supports CUDA {supported}, "
            f"and TensorFlow is built with {values['build'].get('cuda_version', '12')}",
            "upgrade NVIDIA's driver to 525.60.13 or later",
        )
    if asked["init"]:
        unknown = "the driver cannot be used", "nvidia-smi; dmesg | grep -i nvrm"
        cause, cure = _CANNOT_INITIALISE.get(asked["init"], unknown)
        return f"{cause} (cuInit returns {asked['init']})", cure
    if missing := missing_libraries(outcome.log):
        listed = "; ".join(f"{name} ({why})" for name, why in missing.items())
        return f"CUDA libraries do not load: {listed}", cures.cuda_packages()
    said = re.findall(r"(?im)^.*(?:gpu|cuda).*$", outcome.log) or ["nothing"]
    return f"unknown; TensorFlow says: {said[-1]}", cures.cuda_packages()


def missing_libraries(log: str) -> dict[str, str]:
    """Libraries that TensorFlow could not load, and what the loader said of each."""
    return {
        name: reason.removeprefix(f"{name}: ").strip()
        for name, reason in _MISSING_LIBRARY.findall(log)
    }


def _too_old(driver: str, cuda: int) -> bool:
    if driver:
        version = tuple(int(part) for part in re.findall(r"\d+", driver))
        return version < _OLDEST_DRIVER
    return 0 < cuda < _OLDEST_CUDA


def _judge_gpu(
    number: int, gpu: Mapping[str, Any], values: Mapping[str, Any]
) -> Finding:
    capability = tuple(gpu["capability"])
    if not capability:
        return ok(f"GPU {number}: {gpu['name']}")
    title = f"GPU {number}: {gpu['name']}, compute capability {_dotted(capability)}"
    oldest, newest = _compiled_for(values["build"].get("cuda_compute_capabilities", ()))
    if oldest and capability < oldest:
        return problem(
            title,
            f"TensorFlow's kernels are compiled for {_dotted(oldest)} and later",
            "use another GPU, or the CPU: export CUDA_VISIBLE_DEVICES=-1",
        )
    if newest and capability[0] > newest[0]:
        return warning(
            f"{title}: newer than this TensorFlow",
            f"its kernels, for up to {_dotted(newest)}, are compiled anew when a "
            "process first uses them, for half an hour or longer",
            "keep what was compiled: export CUDA_CACHE_MAXSIZE=4294967296, with "
            "CUDA_CACHE_PATH on a disk that stays",
        )
    if capability >= (8, 0):
        return ok(f"{title}: fast in mixed_bfloat16 and mixed_float16")
    if capability >= (7, 0):
        return warning(
            f"{title}: fast in mixed_float16, not in bfloat16",
            "bfloat16 needs 8.0 or later and is emulated here",
            "train with --config.training.dtype_policy=mixed_float16",
        )
    return warning(
        f"{title}: no fast half precision",
        "mixed_float16 needs 7.0 or later, mixed_bfloat16 8.0",
        "train with --config.training.dtype_policy=float32 (the default)",
    )


def _compiled_for(
    capabilities: Sequence[str],
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Oldest and newest of "sm_60", "compute_90" and the like, as (6, 0), (9, 0)."""
    numbers = [re.search(r"_(\d+)(\d)", text) for text in capabilities]
    found = sorted((int(n.group(1)), int(n.group(2))) for n in numbers if n)
    return (found[0], found[-1]) if found else ((), ())


def _dotted(capability: Sequence[int]) -> str:
    return ".".join(map(str, capability))
