"""Hosts: what ssh says, and installations that differ; ssh is a script here."""

import json
import sys

import pytest

from seg_tf.doctor import check_hosts

OWN = {
    "python": "3.11.7",
    "packages": {"tensorflow": "2.20.0", "horovod": "0.28.1"},
    "code": "aa",
    "gpus": 8,
    "own_name": "node2",
    "own_address": "10.0.0.2",
}
REACHED = {
    "address": "10.0.0.2",
    "local": False,
    "status": 0,
    "output": "",
    "installation": OWN,
}


def judge(slots=8, **changes):
    return check_hosts.judge("host2", slots, {**REACHED, **changes}, OWN)


def no_answer(status, output):
    finding = judge(installation=None, status=status, output=output)
    assert finding.level == "problem"
    return finding


@pytest.mark.parametrize(
    "text, parsed",
    [
        ("host1:8,host2:16", [("host1", 8), ("host2", 16)]),
        ("a.b-c.d", [("a.b-c.d", 1)]),
        (" x:1 , y:2", [("x", 1), ("y", 2)]),
    ],
)
def test_hosts_are_read(text, parsed):
    assert check_hosts.parse_hosts(text) == parsed


@pytest.mark.parametrize("text", ["", "a:0", "a:b", "a,,b", "a;rm -rf", "-oX=y z"])
def test_hosts_of_another_form_are_refused(text):
    with pytest.raises(ValueError, match=r"`--hosts` must be .* Received: "):
        check_hosts.parse_hosts(text)
    (finding,) = check_hosts.check(text or ",")
    assert finding.level == "problem"


def test_a_host_with_the_same_installation_is_fine():
    assert judge().level == "ok"


@pytest.mark.parametrize("address", ["127.0.1.1", "127.0.0.1", ""])
def test_a_host_whose_own_name_leads_nowhere(address):
    facts = {**REACHED, "installation": {**OWN, "own_address": address}}
    finding = check_hosts.judge("host2", 8, facts, OWN, several=True)
    assert finding.level == "problem"
    assert finding.cure == "on host2, in /etc/hosts: 10.0.0.2 node2"
    assert address in finding.cause
    # Alone it need not be reached.
    assert check_hosts.judge("host2", 8, facts, OWN, several=False).level == "ok"


def test_a_name_without_address():
    finding = judge(address="", output="Name or service not known")
    assert finding.cause == "Name or service not known"
    assert "getent hosts host2" in finding.cure


@pytest.mark.parametrize(
    "output, cure",
    [
        ("me@host2: Permission denied (publickey).", "ssh-copy-id host2"),
        ("Host key verification failed.", "ssh-keygen -R host2"),
        ("ssh: connect to host host2 port 22: Connection refused", "openssh-server"),
        ("ssh: connect to host host2 port 22: Connection timed out", "port 22"),
        ("kex_exchange_identification: closed", "ssh -v host2 true"),
    ],
)
def test_ssh_cannot_connect(output, cure):
    finding = no_answer(255, output)
    assert output in finding.cause
    assert cure in finding.cure


def test_the_python_or_the_repository_is_not_at_the_same_place():
    finding = no_answer(127, f"bash: {sys.executable}: No such file or directory")
    assert sys.executable in finding.cause
    assert "make setup at the same place on host2" in finding.cure
    finding = no_answer(1, "/env/python: No module named seg_tf.doctor")
    assert "repository, or this version of it, is not at" in finding.cause
    finding = no_answer(1, "Traceback\nMemoryError")
    assert "exits with 1: MemoryError" in finding.cause


def test_no_ssh_client_and_no_answer_in_time():
    assert no_answer(None, "there is no ssh client here").cure == (
        "apt-get install openssh-client"
    )
    assert no_answer(None, "no answer within 60 s").cure == "ssh host2 true"


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"python": "3.12.1"}, "Python 3.12.1 there, 3.11.7 here"),
        (
            {"packages": {"tensorflow": "2.19.0", "horovod": "0.28.1"}},
            "tensorflow 2.19.0 there, 2.20.0 here",
        ),
        ({"packages": {"tensorflow": "2.20.0"}}, "horovod missing there, 0.28.1 here"),
        ({"code": "bb"}, "the suite's own files differ"),
    ],
)
def test_another_installation_is_a_problem(changes, words):
    finding = judge(installation={**OWN, **changes})
    assert finding.level == "problem"
    assert finding.cause == words


def test_other_numbers_of_processes_than_gpus_are_a_warning():
    finding = judge(slots=4)
    assert finding.level == "warning"
    assert finding.cure == "--hosts=host2:8"
    # Hosts without GPUs take any number.
    assert judge(slots=4, installation={**OWN, "gpus": 0}).level == "ok"


def fake_ssh(folder, monkeypatch, script):
    """Puts a program `ssh` on the PATH that notes its arguments and runs `script`."""
    program = folder / "ssh"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {folder}/arguments\n{script}')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    # An address of a network that is set aside for documents.
    monkeypatch.setattr("socket.gethostbyname", lambda name: "192.0.2.7")


def test_a_host_is_asked_by_ssh_for_its_installation(tmp_path, monkeypatch):
    fake_ssh(tmp_path, monkeypatch, 'echo Welcome; for last; do :; done; sh -c "$last"')
    (finding,) = check_hosts.check("host2:1")
    assert finding.level == "ok"
    assert "192.0.2.7" in finding.title
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert "BatchMode=yes" in arguments
    assert arguments[-2] == "host2"


def test_a_refusal_of_ssh_is_told(tmp_path, monkeypatch):
    fake_ssh(
        tmp_path, monkeypatch, "echo 'Permission denied (publickey).' >&2; exit 255"
    )
    (finding,) = check_hosts.check("host2:1")
    assert finding.level == "problem"
    assert "ssh-copy-id host2" in finding.cure


def test_this_machine_needs_no_ssh(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    (finding,) = check_hosts.check("localhost:2")
    assert finding.level in ("ok", "warning")
    assert "ssh" not in finding.title


def test_an_answer_is_found_among_greetings():
    line = "seg_tf.doctor.check_hosts: " + json.dumps(OWN)
    assert check_hosts.read_answer(f"hello\n{line}\nbye\n") == OWN
    assert check_hosts.read_answer("hello\n") is None
