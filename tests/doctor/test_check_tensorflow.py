"""TensorFlow and GPUs: recorded facts of machines that we have and have not."""

import pytest

from seg_tf.doctor import check_gpus, check_tensorflow, nvidia
from seg_tf.doctor.children import HUNG, KILLED, RAISED, Outcome

FLAGS = {"sse2", "avx", "avx2", "fma"}
NO_GPU = {"pci": 0, "devices": 0, "driver": "", "listed": [], "error": "no nvidia-smi"}
TWO_GPUS = {**NO_GPU, "pci": 2, "devices": 2, "driver": "550.54.15", "error": ""}
A100 = {"name": "NVIDIA A100-SXM4-80GB", "capability": [8, 0]}
VALUES = {
    "version": "2.20.0",
    "path": "/env/tensorflow/__init__.py",
    "with_cuda": True,
    "build": {
        "cuda_version": "12.5.1",
        "cuda_compute_capabilities": ["sm_60", "sm_70", "sm_80", "compute_90"],
    },
    "product": 31.0,
    "driver": {"error": "", "init": 0, "cuda": 12040},
    "visible": None,
    "gpus": [],
}
LOG = """\
2026-01-01 00:00:00.1: I xla/tsl/platform/default/dso_loader.cc:87] Could not load \
dynamic library 'libcudart.so.12'; dlerror: libcudart.so.12: cannot open shared object \
file: No such file or directory
2026-01-01 00:00:00.2: I xla/tsl/platform/default/dso_loader.cc:87] Could not load \
dynamic library 'libcudnn.so.9'; dlerror: libcudnn.so.9: cannot open shared object \
file: No such file or directory; LD_LIBRARY_PATH: /usr/lib
2026-01-01 00:00:00.3: W gpu_device.cc:2341] Cannot dlopen some GPU libraries.
"""


def judge(driver=NO_GPU, flags=FLAGS, log="", ending="finished", error="", **changes):
    outcome = Outcome({**VALUES, **changes}, ending, error, "computing", log)
    return check_tensorflow.judge(outcome, flags, driver)


def unseen(log="", **changes):
    """The finding where the driver offers two GPUs and TensorFlow sees none."""
    (finding,) = [f for f in judge(TWO_GPUS, log=log, **changes) if f.level != "ok"]
    assert finding.level == "problem"
    assert finding.title == "TensorFlow sees none of the 2 GPUs"
    return finding


@pytest.fixture(autouse=True)
def _native_bfloat16():
    """A CPU that gives no finding of its own."""
    FLAGS.add("avx512_bf16")
    yield
    FLAGS.discard("avx512_bf16")


def failed_import(error="", ending=RAISED, flags=FLAGS, **values):
    outcome = Outcome(values, ending, error, "importing tensorflow")
    finding, driver = check_tensorflow.judge(outcome, flags, NO_GPU)
    assert finding.level == "problem"
    assert driver.level == "ok"
    return finding


def test_a_machine_without_gpus_is_fine():
    findings = judge()
    assert {finding.level for finding in findings} == {"ok"}
    assert "There is no NVIDIA GPU" in findings[2].title


def test_tensorflow_is_not_installed():
    finding = failed_import("ModuleNotFoundError: No module named 'tensorflow'")
    assert finding.cause == "it is not installed"


def test_a_package_that_tensorflow_needs_is_named():
    finding = failed_import("ModuleNotFoundError: No module named 'wrapt'")
    assert "wrapt" in finding.cause
    assert "while importing tensorflow" in finding.cause


def test_a_crash_is_laid_to_the_cpu_only_if_it_lacks_avx():
    crash = failed_import("SIGILL", KILLED, flags={"sse2"})
    assert "CPUs with AVX" in crash.cause
    crash = failed_import("SIGSEGV", KILLED)
    assert crash.cause == (
        "the process was killed by SIGSEGV while importing tensorflow"
    )
    assert "pip install --force-reinstall" in crash.cure


def test_a_hang_may_be_a_slow_disk():
    finding = failed_import("60 s", HUNG)
    assert "nothing came within 60 s" in finding.cause
    assert "--time_limit=300" in finding.cure


def test_a_folder_in_the_place_of_tensorflow_is_named():
    finding = failed_import(
        "AttributeError: no attribute 'test'", version="", path="/here/tensorflow"
    )
    assert finding.cure == "rename or remove /here/tensorflow"


def test_bfloat16_without_instructions_is_a_warning():
    FLAGS.discard("avx512_bf16")
    assert judge()[-1].level == "warning"
    # On a GPU the CPU's instructions do not matter.
    assert all("bfloat16 is" not in f.title for f in judge(TWO_GPUS, gpus=[A100] * 2))


def test_libraries_that_do_not_load_are_named():
    finding = unseen(LOG)
    assert "libcudart.so.12 (cannot open shared object" in finding.cause
    assert "libcudnn.so.9 (" in finding.cause
    assert '"tensorflow[and-cuda]==' in finding.cure


def test_a_build_for_cpus_is_named_before_all_else_that_is_wrong():
    finding = unseen(LOG, with_cuda=False)
    assert "is a build for CPUs" in finding.cause
    assert "uninstall --yes tensorflow tensorflow-cpu && " in finding.cure


@pytest.mark.parametrize("value", ["", "-1", " "])
def test_hidden_gpus(value):
    finding = unseen(LOG, visible=value)
    assert finding.cause == f"CUDA_VISIBLE_DEVICES={value!r} hides them"
    assert finding.cure == "unset CUDA_VISIBLE_DEVICES"


def judge_driver_answer(driver, **answer):
    """Findings where the driver's library says that."""
    values = {**VALUES, "driver": {"error": "", "init": 0, "cuda": 12040, **answer}}
    return check_tensorflow.judge(Outcome(values), FLAGS, driver)


@pytest.mark.parametrize(
    "version, cuda, old",
    [
        ("470.256.02", 11040, True),
        ("525.60.11", 12000, True),
        ("525.60.13", 12000, False),
        ("1000.1", 20000, False),
        ("", 11080, True),
        ("", 12000, False),
        ("", 0, False),
    ],
)
def test_a_driver_of_before_cuda_12_is_too_old(version, cuda, old):
    driver = {**TWO_GPUS, "driver": version}
    findings = judge_driver_answer(driver, cuda=cuda)
    (finding,) = [f for f in findings if f.level == "problem"]
    assert ("is too old" in finding.cause) == old
    assert ("525.60.13 or later" in finding.cure) == old


def test_an_old_driver_names_the_cuda_it_supports():
    driver = {**TWO_GPUS, "driver": "470.256.02"}
    finding = judge_driver_answer(driver, init=35, cuda=11040)[2]
    assert "the driver 470.256.02 is too old: it supports CUDA 11.4" in finding.cause
    assert "TensorFlow is built with 12.5.1" in finding.cause


def test_the_drivers_library_is_missing():
    finding = judge_driver_answer(TWO_GPUS, error="libcuda.so.1: no such file")[2]
    assert "libcuda.so.1: no such file" in finding.cause
    assert "--gpus all" in finding.cure


@pytest.mark.parametrize(
    "code, words", [(803, "different versions"), (802, "switches"), (5, "cannot be")]
)
def test_the_driver_refuses(code, words):
    finding = judge_driver_answer(TWO_GPUS, init=code)[2]
    assert words in finding.cause
    assert f"cuInit returns {code}" in finding.cause


def test_an_unknown_cause_shows_what_tensorflow_said():
    finding = unseen("nothing\nW: Skipping registering GPU devices...\nbye\n")
    assert finding.cause.endswith("W: Skipping registering GPU devices...")


def test_tensorflow_dies_when_asked_for_gpus():
    values = {name: VALUES[name] for name in VALUES if name != "gpus"}
    outcome = Outcome(values, HUNG, "60 s", "asking TensorFlow for GPUs")
    findings = check_tensorflow.judge(outcome, FLAGS, TWO_GPUS)
    assert findings[0].level == "ok"
    assert findings[2].level == "problem"
    assert findings[2].cause == (
        "nothing came within 60 s while asking TensorFlow for GPUs"
    )


def test_a_gpu_without_a_driver_is_a_warning():
    finding = judge({**NO_GPU, "pci": 1})[2]
    assert finding.level == "warning"
    assert "docker run --gpus all" in finding.cure


@pytest.mark.parametrize(
    "capability, level, words",
    [
        ([5, 2], "problem", "compiled for 6.0 and later"),
        ([6, 1], "warning", "no fast half precision"),
        ([7, 0], "warning", "fast in mixed_float16, not in bfloat16"),
        ([7, 5], "warning", "fast in mixed_float16, not in bfloat16"),
        ([8, 0], "ok", "mixed_bfloat16 and mixed_float16"),
        ([9, 0], "ok", "mixed_bfloat16 and mixed_float16"),
        ([12, 0], "warning", "compiled anew"),
    ],
)
def test_what_a_gpu_computes_fast(capability, level, words):
    gpu = {"name": "GPU", "capability": capability}
    finding = judge({**TWO_GPUS, "devices": 1}, gpus=[gpu], computed=1)[2]
    assert finding.level == level
    assert words in finding.title + finding.cause


def test_fewer_gpus_than_the_driver_offers():
    findings = judge(TWO_GPUS, gpus=[A100], computed=1)
    assert findings[-1].title == "TensorFlow sees 1 of 2 GPUs"
    # Which is no surprise where somebody chose.
    chosen = judge(TWO_GPUS, gpus=[A100], computed=1, visible="1")
    assert {finding.level for finding in chosen} == {"ok"}


def test_a_gpu_that_does_not_compute_is_a_problem():
    findings = judge(
        *(TWO_GPUS, FLAGS, "", RAISED, "InternalError: CUBLAS_STATUS_NOT_INITIALIZED"),
        gpus=[A100, A100],
        computed=1,
    )
    (finding,) = [f for f in findings if f.level == "problem"]
    assert "CUBLAS_STATUS_NOT_INITIALIZED" in finding.cause


def test_nvidia_smi_is_read():
    assert nvidia.parse_query(
        "NVIDIA A100-SXM4-80GB, 8.0, 550.54.15, 81920 MiB\n\nbroken line\n"
    ) == [
        {
            "name": "NVIDIA A100-SXM4-80GB",
            "compute_capability": "8.0",
            "driver": "550.54.15",
            "memory": "81920 MiB",
        }
    ]


def test_tensorflows_log_without_a_failure_names_no_library():
    assert check_gpus.missing_libraries("Successfully opened libcudart.so.12\n") == {}
