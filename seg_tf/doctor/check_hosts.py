"""The hosts of a run: each can be reached and has the same installation.

Run as a script it prints this machine's, which is how another host is asked.
"""

from __future__ import annotations

import concurrent.futures
import glob
import hashlib
import json
import os
import platform
import re
import shlex
import socket
import subprocess
import sys
from typing import Any

from seg_tf.doctor import cures
from seg_tf.doctor.findings import Finding, ok, problem, warning

_MARK = "seg_tf.doctor.check_hosts: "
# The packages between which a version may not differ.
_PACKAGES = ("tensorflow", "keras", "keras-hub", "tensorflow-text", "numpy", "horovod")
_HOST = re.compile(r"(?P<name>[\w.-]+)(?::(?P<slots>[1-9]\d*))?")
# Those of horovodrun, and no question, no waiting.
_SSH = (
    *("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"),
    *("-o", "PasswordAuthentication=no", "-o", "StrictHostKeyChecking=no"),
)
_SSH_CANNOT_CONNECT = 255
_TIME_LIMIT = 60


def check(hosts: str) -> list[Finding]:
    try:
        parsed = parse_hosts(hosts)
    except ValueError as error:
        return [
            problem("The hosts cannot be read", str(error), "--hosts=host1:8,host2:8")
        ]
    own = installation()
    with concurrent.futures.ThreadPoolExecutor(min(16, len(parsed))) as pool:
        answers = list(pool.map(lambda host: gather(host[0]), parsed))
    # Several names of this machine reach one another by any address.
    several = len(parsed) > 1 and not all(facts["local"] for facts in answers)
    return [
        judge(name, slots, facts, own, several)
        for (name, slots), facts in zip(parsed, answers, strict=True)
    ]


def parse_hosts(text: str) -> list[tuple[str, int]]:
    """Names and slots of `host1:8,host2:8`; a host without a number has one slot.

    Raises:
        ValueError: if a host has another form.
    """
    parsed = []
    for part in text.split(","):
        match = _HOST.fullmatch(part.strip())
        if match is None:
            raise ValueError(
                "`--hosts` must be names with numbers of processes, as in host1:8,"
                f"host2:8. Received: {part!r}"
            )
        parsed.append((match["name"], int(match["slots"] or 1)))
    return parsed


def installation() -> dict[str, Any]:
    """What has to be the same on all hosts, and this one's GPUs."""
    return {
        "python": platform.python_version(),
        "packages": {name: cures.installed_version(name) for name in _PACKAGES},
        "code": _code_checksum(),
        "gpus": len(glob.glob("/dev/nvidia[0-9]*")),
        "own_name": socket.gethostname(),
        "own_address": _address_of_own_name(),
    }


def _address_of_own_name() -> str:
    """What this machine's name stands for here; "" for nothing."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return ""


def _code_checksum() -> str:
    """Checksum over the suite's Python files."""
    checksum = hashlib.sha256()
    for package in ("seg_tf", "data_pipelines"):
        for path in sorted((cures.REPOSITORY / package).rglob("*.py")):
            checksum.update(str(path.relative_to(cures.REPOSITORY)).encode())
            checksum.update(path.read_bytes())
    return checksum.hexdigest()


def gather(name: str) -> dict[str, Any]:
    """What can be learnt of a host from here.

    Returns:
        `address` or ""; `local`; `status` and `output` of ssh; `installation`, or
        None where the host did not say.
    """
    facts: dict[str, Any] = {"address": "", "local": False}
    facts |= {"status": None, "output": "", "installation": None}
    try:
        facts["address"] = socket.gethostbyname(name)
    except OSError as error:
        facts["output"] = str(error)
        return facts
    if _is_local(name, facts["address"]):
        return {**facts, "local": True, "status": 0, "installation": installation()}
    command = [*_SSH, name, remote_command()]
    try:
        finished = subprocess.run(
            command,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=_TIME_LIMIT,
            check=False,
        )
    except FileNotFoundError:
        return {**facts, "output": "there is no ssh client here"}
    except subprocess.TimeoutExpired:
        return {**facts, "output": f"no answer within {_TIME_LIMIT} s"}
    return {
        **facts,
        "status": finished.returncode,
        "output": finished.stderr.strip(),
        "installation": read_answer(finished.stdout),
    }


def remote_command() -> str:
    """What a host is asked, as horovodrun would: this folder, this Python."""
    folder, python = shlex.quote(os.getcwd()), shlex.quote(sys.executable)
    return f"cd {folder} && {python} -m seg_tf.doctor.check_hosts"


def read_answer(output: str) -> dict[str, Any] | None:
    """The installation in what a host printed, which may greet first."""
    for line in reversed(output.splitlines()):
        if line.startswith(_MARK):
            return json.loads(line[len(_MARK) :])
    return None


def _is_local(name: str, address: str) -> bool:
    if name in ("localhost", socket.gethostname()) or address.startswith("127."):
        return True
    try:
        return address in socket.gethostbyname_ex(socket.gethostname())[2]
    except OSError:
        return False


def judge(
    name: str,
    slots: int,
    facts: dict[str, Any],
    own: dict[str, Any],
    several: bool = False,
) -> Finding:
    """The finding on one host, from what `gather` returned and our installation.

    Args:
        name: as in `--hosts`.
        slots: its processes.
        facts: of `gather`.
        own: `installation` here.
        several: whether it is one of several hosts.
    """
    if not facts["address"]:
        return problem(
            f"{name}: the name has no address",
            facts["output"],
            f"correct --hosts, or name it in DNS or in /etc/hosts: getent hosts {name}",
        )
    if facts["installation"] is None:
        cause, cure = explain_no_answer(name, facts)
        return problem(f"{name}: no process can be started there", cause, cure)
    if differences := _differences(facts["installation"], own):
        return problem(
            f"{name}: another installation than here",
            "; ".join(differences),
            f"on {name}: bring the repository to the same commit, and make setup; or "
            "share one folder between the hosts",
        )
    own_name, address = (
        facts["installation"][key] for key in ("own_name", "own_address")
    )
    if several and (not address or address.startswith("127.")):
        reached = facts["address"]
        if reached.startswith("127."):
            reached = "its network address,"
        return problem(
            f"{name}: its own name, {own_name}, has no address that others reach",
            f"there {own_name} stands for {address or 'nothing'}, and that is the "
            "address at which Gloo tells the other hosts to connect",
            f"on {name}, in /etc/hosts: {reached} {own_name}",
        )
    gpus = facts["installation"]["gpus"]
    if gpus and slots != gpus:
        return warning(
            f"{name}: {slots} processes on {gpus} GPUs",
            "horovodrun starts one process a slot, and each should have one GPU",
            f"--hosts={name}:{gpus}",
        )
    where = "this machine" if facts["local"] else f"ssh to {facts['address']} works"
    return ok(f"{name}: {where}, the same installation, {gpus} GPUs")


def explain_no_answer(name: str, facts: dict[str, Any]) -> tuple[str, str]:
    """Cause and cure where a host has an address and ssh brought no answer."""
    output = facts["output"]
    last = output.splitlines()[-1] if output else "it said nothing"
    if facts["status"] is None:
        cure = f"ssh {name} true"
        return output, "apt-get install openssh-client" if "client" in output else cure
    if facts["status"] == _SSH_CANNOT_CONNECT:
        return f"ssh: {last}", _ssh_cure(name, output)
    if re.search(r"No module named '?seg_tf", output):
        return (
            f"this repository, or this version of it, is not at {os.getcwd()} there",
            f"the same commit in the same folder on {name}, or a shared folder",
        )
    if re.search(r"(?i)no such file|not found|cannot execute", output):
        return (
            f"{last}; horovodrun uses the same folder ({os.getcwd()}) and the same "
            f"Python ({sys.executable}) on all hosts",
            f"the repository and make setup at the same place on {name}, or a shared "
            "folder",
        )
    return f"{remote_command()} exits with {facts['status']}: {last}", f"ssh {name}"


def _ssh_cure(name: str, output: str) -> str:
    if "Permission denied" in output:
        return f"test -f ~/.ssh/id_ed25519 || ssh-keygen -t ed25519; ssh-copy-id {name}"
    if "IDENTIFICATION HAS CHANGED" in output or "verification failed" in output:
        return f"if the host was set up anew: ssh-keygen -R {name}"
    if "Connection refused" in output:
        return f"on {name}: apt-get install openssh-server && systemctl start ssh"
    if re.search("timed out|No route to host", output):
        return "open port 22 between the hosts (firewall, security group)"
    return f"ssh -v {name} true"


def _differences(theirs: dict[str, Any], own: dict[str, Any]) -> list[str]:
    """One text for each thing that is other there than here."""
    pairs = [("Python", theirs["python"], own["python"])]
    pairs += [
        (package, theirs["packages"].get(package, ""), version)
        for package, version in own["packages"].items()
    ]
    found = [
        f"{what} {there or 'missing'} there, {here or 'missing'} here"
        for what, there, here in pairs
        if there != here
    ]
    if theirs["code"] != own["code"]:
        found.append("the suite's own files differ")
    return found


if __name__ == "__main__":
    print(_MARK + json.dumps(installation()))
