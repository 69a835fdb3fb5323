"""Checks this installation and suggests how to fix problems.

  seg-tf doctor

Imports TensorFlow, Keras, KerasHub and tensorflow-text, lists the GPUs, and checks that
Horovod was built for this TensorFlow. Then two processes sum a tensor. To skip the sum,
use --noall_reduce. Output lines start with ok, warning or problem. The exit status is 1
if there is a problem. To check every host of a cluster:

  horovodrun -np 2 -H host1:1,host2:1 seg-tf doctor --noall_reduce
"""

from __future__ import annotations

import argparse
import glob
import importlib.metadata
import json
import os
import re
import signal
import subprocess
import sys
from typing import Any

# Only child processes import packages, which may be missing or broken.
_MARK = "seg_tf.doctor facts: "
_REBUILD = "python third_party/horovod/build_horovod.py"
# Variables set by launchers. A child that inherits them would wait for other ranks.
_RANK_VARIABLES = re.compile(r"HOROVOD_(?!GPU|LOG|TIMELINE)|OMPI_COMM_|PMIX?_|SLURM_")
_ERROR = re.compile(r"(?m)^(?:\[\d+\]<std\w+>:\s*)?(\w[\w.]*(?:Error|Exception)\b.*)$")


def installed_version(package: str) -> str:
    """Returns the version of an installed package, or an empty string."""
    try:
        return importlib.metadata.version(package) or ""
    except importlib.metadata.PackageNotFoundError:
        return ""


def check_tensorflow(facts: dict[str, Any], num_gpus: int) -> list[str]:
    """Returns report lines about TensorFlow, Keras and the GPUs that they can use."""
    if "failure" in facts:
        return [f"problem  TensorFlow and Keras: {facts['failure']}; make setup"]
    lines, gpus = [f"ok       {facts['versions']}"], facts["gpus"]
    if facts["backend"] != "tensorflow":
        lines.append("problem  Keras's backend: export KERAS_BACKEND=tensorflow")
    lines += [
        f"ok       GPU: {name}" for name in gpus or ["none, training uses the CPU"]
    ]
    if len(gpus) < num_gpus and "CUDA_VISIBLE_DEVICES" not in os.environ:
        cure = 'nvidia-smi; pip install "tensorflow[and-cuda]==2.20.*"'
        lines.append(f"problem  TensorFlow sees {len(gpus)} of {num_gpus} GPUs; {cure}")
    return lines


def check_build(horovod: str, tensorflow: str) -> str:
    """Compares versions of Horovod's build and TensorFlow. Returns a report line."""
    if not horovod:
        return "warning  Horovod is not installed: one process only; make setup"
    built_for = horovod.partition("+tf")[2].partition(".patch")[0]
    if built_for == tensorflow:
        return f"ok       Horovod {horovod} is built for this TensorFlow"
    level = "problem" if built_for else "warning"
    return f"{level:8} Horovod {horovod} with TensorFlow {tensorflow}; {_REBUILD}"


def check_sum(facts: dict[str, Any]) -> str:
    """Checks that two processes summed [1, 2.5] and [2, 5]. Returns a report line."""
    if facts.get("size") == 2 and facts.get("sum") == [3.0, 7.5]:
        return f"ok       two processes sum a tensor on the {facts['device']}"
    return f"problem  two processes cannot train together: {facts}; {_REBUILD}"


def tensorflow_facts() -> dict[str, Any]:
    """Tests all devices. Returns package versions, Keras's backend and GPU names."""
    import keras
    import keras_hub
    import tensorflow as tf
    import tensorflow_text

    gpus = tf.config.list_physical_devices("GPU")
    for device in ("CPU", *(f"GPU:{number}" for number in range(len(gpus)))):
        with tf.device(device):
            assert tf.linalg.matmul([[2.0, 3.0]], [[5.0], [7.0]]).numpy() == 31.0
    details = map(tf.config.experimental.get_device_details, gpus)
    modules = (tf, keras, keras_hub, tensorflow_text)
    return {
        "versions": ", ".join(f"{m.__name__} {m.__version__}" for m in modules),
        "backend": keras.backend.backend(),
        "gpus": [gpu.get("device_name", "GPU") for gpu in details],
    }


def sum_facts() -> dict[str, Any]:
    """Tests an all-reduce. Returns its size, sum and device on rank 0, otherwise {}."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    if gpus := tf.config.list_physical_devices("GPU"):
        tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
    total = hvd.allreduce(tf.constant([1.0, 2.5]) * (1.0 + hvd.rank()), op=hvd.Sum)
    device = tf.DeviceSpec.from_string(total.device).device_type
    facts = {"size": hvd.size(), "sum": total.numpy().tolist(), "device": device}
    is_first = hvd.rank() == 0
    hvd.shutdown()
    return facts if is_first else {}


def run_probe(
    *command: str, time_limit: float = 300.0, **variables: str
) -> dict[str, Any]:
    """Runs a command. Returns the facts that it prints, or `{"failure": reason}`.

    `variables` are added to its environment. It is killed after `time_limit` seconds.
    """
    environment = {k: v for k, v in os.environ.items() if not _RANK_VARIABLES.match(k)}
    environment |= {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONFAULTHANDLER": "1", **variables}
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=time_limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return {"failure": f"no answer within {time_limit:g} s"}
    if process.returncode == 0 and _MARK in output:
        return json.loads(output.partition(_MARK)[2].splitlines()[0])
    message = (_ERROR.findall(output) or output.split("\n") or [""])[-1]
    return {"failure": f"exit status {process.returncode}: {message[:600]}"}


def main() -> None:
    # absl may also be missing.
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    flags = parser.add_argument_group("flags")
    flags.add_argument("--noall_reduce", action="store_true", help="One process only.")
    flags.add_argument("--probe", choices=("tensorflow", "sum"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.probe:
        is_sum = options.probe == "sum"
        if facts := sum_facts() if is_sum else tensorflow_facts():
            print(f"\n{_MARK}{json.dumps(facts)}", flush=True)
        return
    probe = (sys.executable, "-m", "seg_tf.doctor", "--probe")
    num_gpus = len(glob.glob("/dev/nvidia[0-9]*"))
    python = ".".join(map(str, sys.version_info[:3]))
    lines = [f"ok       Python {python}: {sys.executable}"]
    lines += check_tensorflow(run_probe(*probe, "tensorflow"), num_gpus)
    horovod = installed_version("horovod")
    lines.append(check_build(horovod, installed_version("tensorflow")))
    if horovod and not options.noall_reduce:
        launcher = os.path.join(os.path.dirname(sys.executable), "horovodrun")
        local = ("-np", "2", "--gloo", "--disable-cache", "--network-interfaces=lo")
        # NCCL needs one GPU per process.
        variables = {} if num_gpus > 1 else {"CUDA_VISIBLE_DEVICES": "-1"}
        lines.append(check_sum(run_probe(launcher, *local, *probe, "sum", **variables)))
    print("\n".join(lines))
    sys.exit(any(line.startswith("problem") for line in lines))


if __name__ == "__main__":
    main()
