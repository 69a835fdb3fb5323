"""Judgements of the doctor, from given facts."""

import sys

import pytest

from seg_tf.doctor import horovod, hosts, machine, packages, probes
from seg_tf.doctor.probes import ProbeAnswer

FAILED = ProbeAnswer({}, "ImportError: libfoo.so", "")
OWN = {
    "python": "3.11.7",
    "packages": {"tensorflow": "2.20.0", "horovod": "0.28.1"},
    "code": "aa",
    "gpus": 8,
    "own_name": "node2",
    "own_address": "10.0.0.2",
}


def test_missing_and_differing_packages_are_told_apart():
    missing, differing = packages.judge_packages(
        {"keras": "3.15.1", "numpy": "2.4.6", "tqdm": "4", "zipp": "4"},
        {"keras": "3.9.0", "numpy": "2.4.6", "other": "1"},
    )
    assert (missing.level, missing.title) == (
        "problem",
        "Packages are missing: tqdm, zipp",
    )
    assert (differing.level, differing.cause) == (
        "warning",
        "keras 3.9.0 (pinned: 3.15.1)",
    )


def test_pins_are_those_of_this_python_under_one_spelling():
    lock = """\
# a comment with x==1
ml_dtypes==0.6.0 \\
    --hash=sha256:aa==
numpy==1.0 ; python_full_version < '3.5' \\
numpy==2.0 ; python_full_version >= '3.5' \\
win.only==1 ; sys_platform == 'win32' \\
"""
    expected = {"ml-dtypes": "0.6.0", "numpy": "2.0"}
    assert packages.pinned_versions(lock) == expected


def gpus(number, *capabilities, with_cuda=True, output=""):
    found = [{"name": "H100", "capability": list(one)} for one in capabilities]
    facts = {"gpus": found, "with_cuda": with_cuda, "path": "/env/tensorflow"}
    return packages.judge_gpus(ProbeAnswer(facts, output=output), number, "GPU 0: H100")


@pytest.mark.parametrize(
    "capability, policy",
    [((9, 0), "mixed_bfloat16 or"), ((7, 5), ": mixed_float16"), ((6, 1), "float32 (")],
)
def test_gpus_are_shown_with_the_fastest_precision(capability, policy, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    (finding,) = gpus(1, capability)
    assert finding.level == "ok"
    assert policy in finding.title


def test_gpus_that_tensorflow_does_not_see(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert "runs on the CPU" in gpus(0)[0].title
    output = "I tensorflow\nW could not load 'libcudnn.so.9'; dlerror: missing\nbye"
    *_, finding = gpus(2, (9, 0), output=output)
    assert (finding.level, finding.title) == (
        "problem",
        "TensorFlow sees 1 of 2 GPUs",
    )
    assert "dlerror: missing; GPU 0: H100" in finding.cause
    assert "is a build for CPUs" in gpus(1, with_cuda=False)[0].cause
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert [one.level for one in gpus(2, (9, 0))] == ["ok"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert gpus(2)[0].cure == "unset CUDA_VISIBLE_DEVICES"


def test_keras_has_to_run_on_tensorflow(monkeypatch):
    facts = {"keras": "3.15", "keras_hub": "0.32", "backend": "tensorflow"}
    facts["floatx"] = "float32"
    assert packages.judge_keras(ProbeAnswer(facts)).level == "ok"
    finding = packages.judge_keras(ProbeAnswer({**facts, "backend": "jax"}))
    assert finding.cure == "export KERAS_BACKEND=tensorflow"
    assert packages.judge_keras(ProbeAnswer({**facts, "floatx": "float16"})).level == (
        "warning"
    )
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "1")
    assert "TF_USE_LEGACY_KERAS" in packages.judge_keras(FAILED).cure


def test_horovod_has_to_be_built_for_the_installed_tensorflow():
    own = "0.28.1+tf2.20.0.patch2c6f686a"
    assert horovod.judge_build(own, "2.20.0").level == "ok"
    finding = horovod.judge_build(own, "2.21.0")
    assert (finding.level, finding.cure) == ("problem", horovod.REBUILD)
    assert "for TensorFlow 2.20.0; 2.21.0 is installed" in finding.cause
    assert horovod.judge_build("0.28.1", "2.20.0").level == "warning"


def test_two_processes_have_to_add_up():
    facts = {"size": 2, "sum": [3.0, 7.5], "device": "CPU"}
    assert horovod.judge_sum(ProbeAnswer(facts), "").level == "ok"
    wrong = horovod.judge_sum(ProbeAnswer({**facts, "size": 1, "sum": [1.0, 2.5]}), "")
    assert wrong.level == "problem"
    assert "[1.0, 2.5]" in wrong.cause
    assert horovod.judge_sum(FAILED, "horovodrun …").cause == FAILED.failure


def test_too_little_of_a_machine_is_a_warning():
    gib = 2**30
    levels = {
        "ok": [
            machine.judge_cores(16, 64 * gib, 8),
            machine.judge_disk("runs", 30 * gib, True),
            machine.judge_shared_memory(gib // 16, 1),
            machine.judge_shared_memory(8 * gib, 8),
            machine.judge_open_files(-1),
            machine.judge_open_files(1024),
        ],
        "warning": [
            machine.judge_cores(16, 2 * gib, 0),
            machine.judge_cores(15, 64 * gib, 8),
            machine.judge_disk("runs", 3 * gib, True),
            machine.judge_disk("runs", 30 * gib, False),
            machine.judge_shared_memory(gib // 16, 2),
            machine.judge_shared_memory(0, 0),
            machine.judge_open_files(256),
        ],
    }
    for level, found in levels.items():
        assert [one.level for one in found] == [level] * len(found)


@pytest.mark.parametrize(
    "text, parsed",
    [
        ("host1:8,host2:16", {"host1": 8, "host2": 16}),
        ("a.b-c.d", {"a.b-c.d": 1}),
        (" x:1 , y:2", {"x": 1, "y": 2}),
    ],
)
def test_hosts_are_read(text, parsed):
    assert hosts.parse_hosts(text) == parsed


@pytest.mark.parametrize("text", ["", "a:0", "a:b", "a,,b", "a;rm -rf", "-oX=y", "-v"])
def test_hosts_of_another_form_are_refused(text):
    with pytest.raises(ValueError, match=r"`--hosts` must be .* Received: "):
        hosts.parse_hosts(text)
    assert hosts.check(text, 1)[0].level == "problem"


def judge_host(answer=None, slots=8, several=True, **changes):
    answer = answer or ProbeAnswer({**OWN, **changes})
    return hosts.judge("host2", slots, answer, OWN, several)


def test_hosts_are_compared_with_this_one():
    assert judge_host().level == "ok"
    assert judge_host(python="3.12.1").cause == "Python 3.12.1 there, 3.11.7 here"
    older = {"tensorflow": "2.19.0"}
    assert judge_host(packages=older).cause == (
        "tensorflow 2.19.0 there, 2.20.0 here; horovod missing there, 0.28.1 here"
    )
    assert judge_host(code="bb").cause == "the suite's own files differ"
    assert judge_host(slots=4).cure == "--hosts=host2:8"
    for address in ("127.0.1.1", ""):
        assert "/etc/hosts" in judge_host(own_address=address).cure
        assert judge_host(own_address=address, several=False).level == "ok"


def test_a_host_that_cannot_be_reached_says_why():
    refused = ProbeAnswer({}, "me@host2: Permission denied (publickey).")
    finding = judge_host(refused)
    assert (finding.level, finding.cause) == ("problem", refused.failure)
    assert "ssh host2 true" in finding.cure


def test_a_host_is_asked_by_ssh_for_its_installation(tmp_path, monkeypatch):
    program = tmp_path / "ssh"
    program.write_text('#!/bin/sh\necho Welcome; for last; do :; done; sh -c "$last"')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (finding,) = hosts.check("host2:1", 60)
    assert (finding.level, finding.title) == (
        "ok",
        f"host2: the same installation, {probes.installation()['gpus']} GPUs",
    )
    program.write_text("#!/bin/sh\necho 'ssh: Permission denied' >&2; exit 255")
    (finding,) = hosts.check("host2:1", 60)
    assert finding.cause == "ssh: Permission denied"
    assert sys.executable in hosts.remote_command()
