"""TensorFlow: whether it imports, what it was built with, and what the CPU can do."""

from __future__ import annotations

import pathlib

from seg_tf.doctor import check_gpus, children, cures, nvidia
from seg_tf.doctor.children import HUNG, KILLED, Outcome, Report
from seg_tf.doctor.findings import Finding, ok, problem, warning

# Libraries that cannot be loaded are named at this level of the log only.
_LOG_ALL = {"TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_VMODULE": "dso_loader=1"}
_SHOWN_INSTRUCTIONS = (
    *("avx", "avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16"),
    *("amx_bf16", "amx_int8"),
)
# The last is the name on ARM.
_NATIVE_BFLOAT16 = {"avx512_bf16", "amx_bf16", "bf16"}


def check(time_limit: float) -> list[Finding]:
    outcome = children.run_probe("check_tensorflow", time_limit, **_LOG_ALL)
    return judge(outcome, cpu_flags(), nvidia.gather())


def probe(report: Report) -> None:
    report.step("importing tensorflow")
    import tensorflow as tf

    report.add(version=getattr(tf, "__version__", ""), path=_location(tf))
    report.step("reading how TensorFlow was built")
    report.add(
        with_cuda=tf.test.is_built_with_cuda(),
        build=dict(tf.sysconfig.get_build_info()),
    )
    report.step("multiplying two matrices on the CPU")
    with tf.device("CPU"):
        report.add(product=float(tf.linalg.matmul([[2.0, 3.0]], [[5.0], [7.0]])[0, 0]))
    check_gpus.probe(report)


def _location(module: object) -> str:
    """File of a module, or the folder of one that has none: no real package."""
    return getattr(module, "__file__", None) or str(
        next(iter(getattr(module, "__path__", [])), "")
    )


def judge(
    outcome: Outcome, flags: set[str], driver: dict[str, object]
) -> list[Finding]:
    """Findings from the probe, the CPU's instructions and `nvidia.gather()`."""
    if "product" not in outcome.values:
        return [judge_import(outcome, flags), *check_gpus.judge_driver(driver)]
    return [
        judge_import(outcome, flags),
        _judge_instructions(flags),
        *check_gpus.judge(outcome, driver),
        *_judge_bfloat16(flags, outcome.values.get("gpus")),
    ]


def judge_import(outcome: Outcome, flags: set[str]) -> Finding:
    """Whether TensorFlow imports and computes, and why not."""
    values = outcome.values
    if "product" in values:
        return ok(f"TensorFlow {values['version']} imports: {values['path']}")
    title, cause = "TensorFlow does not work", outcome.failure
    if outcome.ending == HUNG:
        return problem(
            title,
            f"{cause}; perhaps the environment lies on a slow network disk",
            "python -m seg_tf.doctor --time_limit=300; if that hangs too: "
            f"{cures.packages()}",
        )
    if outcome.ending == KILLED and "sse2" in flags and "avx" not in flags:
        return problem(
            title,
            f"{cause}: its packages are compiled for CPUs with AVX, and this one has "
            "none",
            "use another machine, or build TensorFlow from its sources",
        )
    if "No module named 'tensorflow'" in outcome.error:
        return problem(title, "it is not installed", cures.packages())
    if values.get("path") and not values.get("version"):
        return problem(
            title,
            f"`import tensorflow` finds {values['path']}, which is something else",
            f"rename or remove {values['path']}",
        )
    return problem(
        title,
        cause,
        f"{cures.reinstall('tensorflow')}; if that does not help, remake the "
        "environment: rm -rf .venv && make setup",
    )


def _judge_instructions(flags: set[str]) -> Finding:
    shown = [name for name in _SHOWN_INSTRUCTIONS if name in flags]
    return ok(f"The CPU has {', '.join(shown) or 'no vector instructions we know'}")


def _judge_bfloat16(flags: set[str], gpus: list[object] | None) -> list[Finding]:
    """bfloat16 on the CPU, which matters where nothing else computes."""
    if gpus:
        return []
    if native := sorted(_NATIVE_BFLOAT16 & flags):
        return [ok(f"bfloat16 is native to the CPU ({', '.join(native)})")]
    return [
        warning(
            "bfloat16 is emulated on this CPU",
            "it has neither avx512_bf16 nor amx_bf16, so mixed_bfloat16 saves memory "
            "and costs time",
            "train with --config.training.dtype_policy=float32 (the default)",
        )
    ]


def cpu_flags() -> set[str]:
    """Instruction sets of the CPU, in the words of Linux."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    for line in lines:
        if line.startswith(("flags", "Features")):
            return set(line.split(":", 1)[1].split())
    return set()
