"""Probes: facts that are learnt in a separate process, here or on another host.

An import of a damaged package may raise, crash or hang. So each probe is a command,

  python -m seg_tf.doctor.probes tensorflow

that prints its facts as one line of JSON; `run` calls it and says how it failed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import hashlib
import importlib.metadata
import json
import os
import pathlib
import platform
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
_MARK = "seg_tf.doctor: "
_SECONDS_TO_END = 3.0
# Set by horovodrun, mpirun and Slurm for the process that they start. A probe that
# inherited them would wait for the other processes of that run.
_RANK_VARIABLES = re.compile(
    r"HOROVOD_(RANK|SIZE|LOCAL_|CROSS_|GLOO_(RENDEZVOUS|IFACE)|HOSTNAME|ELASTIC"
    r"|CONTROLLER)|OMPI_COMM_WORLD|PMIX?_|SLURM_"
)
# Printed by horovodrun before each line of a process: "[1]<stderr>:".
_RANK_PREFIX = re.compile(r"^\[\d+\]<std(?:out|err)>:\s?")
_ERROR = re.compile(r"^\w[\w.]*(?:Error|Exception)\b|error:|refused|denied|not found")
_COMPARED_PACKAGES = (
    *("tensorflow", "keras", "keras-hub", "tensorflow-text", "numpy", "horovod"),
)
# Longest match first: seg|ments, are, un|bro|ken, ! and ! apart, and an unknown word.
_VOCABULARY = ("[UNK]", "seg", "##ments", "##ment", "are", "un", "##bro", "##ken", "!")
_SENTENCE, _IDS = "Segments are UNBROKEN !! qed", [1, 2, 4, 5, 6, 7, 8, 8, 0]


@dataclasses.dataclass(frozen=True)
class ProbeAnswer:
    """Outcome of a probe.

    Attributes:
        facts: what it printed; empty if it failed.
        failure: how it failed, in one sentence; empty if it did not.
        output: all that it and its libraries printed.
    """

    facts: Mapping[str, Any]
    failure: str = ""
    output: str = ""


def command_of(probe: str) -> list[str]:
    """The command that runs a probe."""
    return [sys.executable, "-m", "seg_tf.doctor.probes", probe]


def run(command: Sequence[str], time_limit: float, **variables: str) -> ProbeAnswer:
    """Runs the command of a probe in a process group that ends with it.

    Args:
        command: `command_of` a probe, perhaps after a launcher such as ssh.
        time_limit: seconds after which the process counts as hung.
        **variables: environment variables of the process.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if not _RANK_VARIABLES.match(name)
    }
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**environment, "PYTHONFAULTHANDLER": "1", **variables},
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return ProbeAnswer({}, f"{command[0]} cannot be started: {error}")
    try:
        output, _ = process.communicate(timeout=time_limit)
    except subprocess.TimeoutExpired:
        return ProbeAnswer({}, f"no answer within {time_limit:g} s", _end(process))
    facts = _facts_in(output)
    if facts is not None and process.returncode == 0:
        return ProbeAnswer(facts, output=output)
    return ProbeAnswer({}, _failure(process.returncode, output), output)


def _end(process: subprocess.Popen[str]) -> str:
    """Ends a process and those that it started; returns what they had printed."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=_SECONDS_TO_END)[0]
    return ""


def _facts_in(output: str) -> dict[str, Any] | None:
    for line in output.splitlines():
        _, mark, facts = line.partition(_MARK)
        if mark:
            return json.loads(facts)
    return None


def _failure(status: int, output: str) -> str:
    """One sentence: the signal that killed it, the error, or the last line."""
    if status < 0:
        return f"the process was killed by {signal.Signals(-status).name}"
    lines = [_RANK_PREFIX.sub("", line).strip() for line in output.splitlines()]
    errors = [line for line in lines if _ERROR.search(line)]
    said = (errors or [line for line in lines if line] or ["it printed nothing"])[-1]
    return said[:600] if errors else f"exit status {status}: {said[:600]}"


# --- The probes -----------------------------------------------------------------


def tensorflow() -> dict[str, Any]:
    """TensorFlow: where it is, the GPUs it sees, and a product on each device."""
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    for device in ("CPU", *(f"GPU:{number}" for number in range(len(gpus)))):
        with tf.device(device):
            product = tf.linalg.matmul([[2.0, 3.0]], [[5.0], [7.0]])
            assert product.numpy() == 31.0, f"wrong product on {device}"
    details = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
    return {
        "version": tf.__version__,
        "path": os.path.dirname(tf.__file__),
        "with_cuda": tf.test.is_built_with_cuda(),
        "gpus": [
            {
                "name": one.get("device_name", "GPU"),
                "capability": list(one.get("compute_capability", ())),
            }
            for one in details
        ],
    }


def keras() -> dict[str, Any]:
    """Keras with its backend, and keras-hub."""
    import keras
    import keras_hub

    return {
        "keras": keras.__version__,
        "backend": keras.backend.backend(),
        "floatx": keras.backend.floatx(),
        "keras_hub": keras_hub.__version__,
    }


def tensorflow_text() -> dict[str, Any]:
    """tensorflow-text: its kernels load into this TensorFlow and are right."""
    import tensorflow_text

    tokenizer = tensorflow_text.FastBertTokenizer(
        list(_VOCABULARY), suffix_indicator="##", lower_case_nfd_strip_accents=True
    )
    ids = tokenizer.tokenize([_SENTENCE]).flat_values.numpy().tolist()
    assert ids == _IDS, f"{_SENTENCE!r} gives {ids}, expected {_IDS}"
    return {"version": importlib.metadata.version("tensorflow-text")}


def all_reduce() -> dict[str, Any]:
    """Horovod: a sum over all processes that were started for it."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    if gpus := tf.config.list_physical_devices("GPU"):
        tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
    sent = tf.constant([1.0, 2.5]) * (1.0 + hvd.rank())
    total = hvd.allreduce(sent, op=hvd.Sum)
    device = tf.DeviceSpec.from_string(total.device).device_type
    facts = {"size": hvd.size(), "sum": total.numpy().tolist(), "device": device}
    hvd.shutdown()
    return facts


def installation() -> dict[str, Any]:
    """Versions and code, which have to be the same on all hosts of a run."""
    try:
        address = socket.gethostbyname(socket.gethostname())
    except OSError:
        address = ""
    return {
        "python": platform.python_version(),
        "packages": {name: installed_version(name) for name in _COMPARED_PACKAGES},
        "code": _code_checksum(),
        "gpus": len(glob.glob("/dev/nvidia[0-9]*")),
        "own_name": socket.gethostname(),
        "own_address": address,
    }


def installed_version(package: str) -> str:
    """Version of an installed package, or an empty string; imports nothing."""
    try:
        return importlib.metadata.version(package) or ""
    except importlib.metadata.PackageNotFoundError:
        return ""


def _code_checksum() -> str:
    checksum = hashlib.sha256()
    for package in ("seg_tf", "data_pipelines"):
        for path in sorted((REPOSITORY / package).rglob("*.py")):
            checksum.update(str(path.relative_to(REPOSITORY)).encode())
            checksum.update(path.read_bytes())
    return checksum.hexdigest()


_PROBES: dict[str, Callable[[], dict[str, Any]]] = {
    function.__name__: function
    for function in (tensorflow, keras, tensorflow_text, all_reduce, installation)
}


if __name__ == "__main__":
    facts = _PROBES[sys.argv[1]]()
    if os.environ.get("HOROVOD_RANK", "0") == "0":
        print(f"\n{_MARK}{json.dumps(facts)}", flush=True)
