"""What the machine says about NVIDIA GPUs, asked without TensorFlow."""

from __future__ import annotations

import ctypes
import functools
import glob
import pathlib
import re
import shutil
import subprocess
from typing import Any

_NVIDIA_VENDOR = "0x10de"
_DISPLAY_CLASSES = ("0x0300", "0x0302")
_QUERY = "name,compute_cap,driver_version,memory.total"


@functools.cache
def gather() -> dict[str, Any]:
    """Facts about GPUs and their driver.

    Returns:
        `pci`: how many NVIDIA GPUs are on the bus; `devices`: how many the driver
        offers; `driver`: its version or ""; `listed`: what nvidia-smi lists, one
        dict a GPU; `error`: why nvidia-smi did not run.
    """
    listed, error = _ask_nvidia_smi()
    return {
        "pci": _count_on_bus(),
        "devices": len(glob.glob("/dev/nvidia[0-9]*")),
        "driver": _driver_version() or (listed[0]["driver"] if listed else ""),
        "listed": listed,
        "error": error,
    }


def ask_driver() -> dict[str, Any]:
    """What the driver's library answers; called in a child, for it may crash.

    Returns:
        `error`: why `libcuda.so.1` does not load, or ""; `init`: the code that
        `cuInit` returns; `cuda`: the newest CUDA it supports, as 12040 for 12.4.
    """
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return {"error": str(error), "init": None, "cuda": 0}
    version = ctypes.c_int(0)
    library.cuDriverGetVersion(ctypes.byref(version))
    return {"error": "", "init": library.cuInit(0), "cuda": version.value}


def _ask_nvidia_smi() -> tuple[list[dict[str, str]], str]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return [], "nvidia-smi is not on the PATH"
    try:
        finished = subprocess.run(
            [program, f"--query-gpu={_QUERY}", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=15,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [], f"nvidia-smi: {error}"
    if finished.returncode:
        message = (finished.stdout + finished.stderr).strip().splitlines()
        return [], f"nvidia-smi: {message[0] if message else finished.returncode}"
    return parse_query(finished.stdout), ""


def parse_query(output: str) -> list[dict[str, str]]:
    """GPUs of nvidia-smi's answer, one a line."""
    names = ("name", "compute_capability", "driver", "memory")
    rows = (line.split(", ") for line in output.splitlines() if line.strip())
    return [dict(zip(names, row, strict=False)) for row in rows if len(row) >= 4]


def _driver_version() -> str:
    try:
        text = pathlib.Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return ""
    match = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", text)
    return match.group(1) if match else ""


def _count_on_bus() -> int:
    count = 0
    for device in glob.glob("/sys/bus/pci/devices/*"):
        try:
            vendor = pathlib.Path(device, "vendor").read_text().strip()
            kind = pathlib.Path(device, "class").read_text().strip()
        except OSError:
            continue
        count += vendor == _NVIDIA_VENDOR and kind.startswith(_DISPLAY_CLASSES)
    return count
