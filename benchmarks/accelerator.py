r"""Measures speed, utilization and memory of training steps on a GPU or a CPU.

  python -m benchmarks.accelerator
  python -m benchmarks.accelerator --engine=jax,pytorch --minutes=20
  python -m benchmarks.accelerator --cases="BERT base, 512" --output=gpu.json
  python -m benchmarks.accelerator --list

Runs complete updates (gradients, clipping, optimizer, metrics) of BERT, SegaBERT, SLM,
Sega-Transformer-XL and ReAT on full synthetic rows. Cases differ in precision, XLA
compilation, deterministic kernels, packing of windows and attention dropout, which
fused kernels do not support. The PyTorch side is transformers' `BertForMaskedLM` (SDPA,
`torch.compile`, fused AdamW), which scores every position. Ours scores only masked
positions. On all sides, MFU is computed from the FLOPs of our model and the peak in the
data sheet or, for unknown devices, a measured peak.

By default, all installed engines run. JAX does not need TensorFlow, only Keras,
keras-hub, absl-py, ml_collections, NumPy, psutil and tqdm.

Each case runs in a separate process, so that its peak memory can be measured. On a GPU,
the next cases are built while one is measured. Failed cases, for example without enough
memory, are listed with the reason, and cases that do not fit in --minutes as not run.
Without a GPU, models have two layers (ReAT: one of each kind), updates have 512
positions (ReAT: 1,024), Sega-XL's vocabulary has 32,768 words, and float32 replaces
bfloat16.
"""

import collections
import concurrent.futures
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags

from benchmarks import paired
from benchmarks.accelerator_cases import ENGINES, Case, all_cases
from seg_tf import command_line

_ENGINE = flags.DEFINE_list(
    "engine", None, f"Of {', '.join(ENGINES)}. Default: those installed."
)
_MINUTES = flags.DEFINE_float("minutes", 10.0, "Time for all cases.", lower_bound=0)
_CASES = flags.DEFINE_string("cases", "", "Regular expression: cases to run, by name.")
_LIST = flags.DEFINE_bool("list", False, "Print the names of the cases, no more.")
_CASE = flags.DEFINE_string(
    "case", None, "JSON of one case: how this command starts its processes."
)
_TURN = flags.DEFINE_string("turn", None, "File that the process locks to measure.")
_OUTPUT = flags.DEFINE_string("output", "accelerator.json", "File for the figures.")

# Package, and the Keras backend that its processes need.
_PACKAGES = {"tensorflow": "tensorflow", "jax": "jax", "pytorch": "torch"}
_BACKENDS = {"tensorflow": "tensorflow", "jax": "jax", "pytorch": "torch"}
_DETERMINISTIC = "--xla_gpu_deterministic_ops=true"
# A case takes about this long: import, build, compile.
_LEAST_SECONDS = 15
# Processes at once on a GPU: one that measures, and those that get ready.
_PROCESSES_ON_GPU = 4


def _engines() -> list[str]:
    installed = [
        engine
        for engine in ENGINES
        if importlib.util.find_spec(_PACKAGES[engine]) is not None
    ]
    chosen = _ENGINE.value or installed
    missing = [engine for engine in chosen if engine not in installed]
    if missing:
        sys.exit(
            f"error: `--engine` must name installed ones of {', '.join(ENGINES)}. "
            f"Received: {', '.join(missing)}; installed are {', '.join(installed)}"
        )
    return chosen


def _has_gpu() -> bool:
    if shutil.which("nvidia-smi") is None:
        return False
    done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, check=False)
    return done.returncode == 0 and b"GPU" in done.stdout


def _run(case: Case, end: float, turn: str) -> dict[str, Any]:
    """Runs a case until `end`. Returns figures, or why it `failed` or was `not_run`."""
    seconds = end - time.monotonic()
    if seconds < _LEAST_SECONDS:
        return {"not_run": "the minutes were over"}
    print(case.name, file=sys.stderr, flush=True)
    environment = {
        **os.environ,
        "KERAS_BACKEND": _BACKENDS[case.engine],
        "TF_CPP_MIN_LOG_LEVEL": "3",
        # Processes that get ready leave the memory to the one that measures.
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
    if case.engine == "jax" and case.deterministic:
        xla_flags = os.environ.get("XLA_FLAGS", "")
        environment["XLA_FLAGS"] = f"{xla_flags} {_DETERMINISTIC}".strip()
    command = [sys.executable, "-m", "benchmarks.accelerator"]
    command += [f"--case={json.dumps(vars(case))}", f"--turn={turn}"]
    try:
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"not_run": f"stopped after {seconds:.0f} s, when the minutes were over"}
    if done.returncode < 0:
        return {"failed": f"killed by signal {-done.returncode}: memory, most likely"}
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        errors = done.stderr.strip().splitlines() or ["no output"]
        return {"failed": errors[-1][:200]}
    result: dict[str, Any] = json.loads(lines[-1])
    return result


def _use_common_peaks(results: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Adds the MFU to all results, relative to the highest peak of each `peak_source`.

    A peak that is measured while the machine is busy is too low.

    Returns:
        Dict of peak sources and peaks in FLOP/s.
    """
    peaks: dict[str, float] = collections.defaultdict(float)
    done = [result for result in results if "flops_per_second" in result]
    for result in done:
        source, peak = result["peak_source"], result["peak_flops_per_second"]
        peaks[source] = max(peaks[source], peak)
    for result in done:
        result["mfu"] = result["flops_per_second"] / peaks[result["peak_source"]]
    return peaks


def _row(case: Case, result: Mapping[str, Any]) -> str:
    """Formats a row of the table."""
    precision = "bfloat16" if case.bfloat16 else "float32"
    cells = [case.model, f"{case.length:,}", case.engine, precision]
    cells.append(", ".join(case.differences))
    if "mfu" in result:
        cells += [
            f"{result['rows']:,}",
            f"{result['tokens_per_second']:,.0f}",
            f"{result['mfu']:.1%}",
            f"{result['memory_peak_bytes'] / 2**30:.2f} GiB",
        ]
    else:
        reason = result.get("failed")
        cells += ["", f"failed: {reason}" if reason else "not run", "", ""]
    return "| " + " | ".join(cells) + " |"


_HEADER = """\
| model | positions | engine | precision | other | rows | tokens/s | MFU | peak memory |
|---|---|---|---|---|---|---|---|---|"""


def main(argv: Sequence[str]) -> None:
    del argv
    if _CASE.value is not None:
        # What it imports depends on the engine, which the environment names.
        from benchmarks import accelerator_case

        accelerator_case.main(Case(**json.loads(_CASE.value)), _TURN.value)
        return
    on_gpu = _has_gpu()
    cases = [
        case
        for case in all_cases(_engines(), on_gpu=on_gpu)
        if re.search(_CASES.value, case.name)
    ]
    if _LIST.value:
        print("\n".join(case.name for case in cases))
        return
    paired.print_machine()
    if not on_gpu:
        print("No GPU: models of two layers, updates of 512 positions (see --help)")
    end = time.monotonic() + 60 * _MINUTES.value
    processes = _PROCESSES_ON_GPU if on_gpu else 1
    with (
        tempfile.NamedTemporaryFile() as turn,
        concurrent.futures.ThreadPoolExecutor(processes) as pool,
    ):
        figures = pool.map(lambda case: _run(case, end, turn.name), cases)
        results = [
            {"case": case.name, **vars(case), **result}
            for case, result in zip(cases, figures, strict=True)
        ]
    peaks = _use_common_peaks(results)
    print(_HEADER)
    for case, result in zip(cases, results, strict=True):
        print(_row(case, result))
    for source, peak in sorted(peaks.items()):
        print(f"Peak for MFU, {source}: {peak / 1e12:,.4g} TFLOP/s")
    missing = sum("not_run" in result for result in results)
    if missing:
        print(f"Not run in {_MINUTES.value:g} minutes: {missing} of {len(cases)} cases")
    report = {
        "machine": paired.versions(),
        "load": paired.load(),
        "on_gpu": on_gpu,
        "results": results,
    }
    pathlib.Path(_OUTPUT.value).write_text(json.dumps(report, indent=2) + "\n")
    print(f"Written: {_OUTPUT.value}")


if __name__ == "__main__":
    command_line.run(main)
