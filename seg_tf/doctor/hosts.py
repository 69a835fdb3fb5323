"""The hosts of a run: each is reached by ssh and has the same installation."""

from __future__ import annotations

import concurrent.futures
import os
import re
import shlex
import socket
from collections.abc import Mapping
from typing import Any

from seg_tf.doctor import probes
from seg_tf.doctor.findings import Finding, ok, problem, warning
from seg_tf.doctor.probes import ProbeAnswer

_HOST = re.compile(r"(?P<name>[\w.][\w.-]*)(?::(?P<slots>[1-9]\d*))?")
# The options of horovodrun, and neither a question nor a long wait.
_SSH = (
    *("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"),
    *("-o", "PasswordAuthentication=no", "-o", "StrictHostKeyChecking=no"),
)


def check(hosts: str, time_limit: float) -> list[Finding]:
    """Asks every host for its installation and compares it with this one."""
    try:
        parsed = parse_hosts(hosts)
    except ValueError as error:
        return [problem("Hosts", str(error), "--hosts=host1:8,host2:8")]
    own = probes.installation()

    def ask(name: str) -> ProbeAnswer:
        if name in ("localhost", socket.gethostname()):
            return ProbeAnswer(own)
        return probes.run([*_SSH, name, remote_command()], time_limit)

    with concurrent.futures.ThreadPoolExecutor(min(16, len(parsed))) as pool:
        answers = list(pool.map(ask, parsed))
    several = len(parsed) > 1
    return [
        judge(name, slots, answer, own, several)
        for (name, slots), answer in zip(parsed.items(), answers, strict=True)
    ]


def parse_hosts(text: str) -> dict[str, int]:
    """Slots by name of `host1:8,host2:8`; a host without a number has one slot.

    Raises:
        ValueError: if a host has another form.
    """
    parsed = {}
    for part in text.split(","):
        match = _HOST.fullmatch(part.strip())
        if match is None:
            raise ValueError(
                "`--hosts` must be names with numbers of processes, as in host1:8,"
                f"host2:8. Received: {part!r}"
            )
        parsed[match["name"]] = int(match["slots"] or 1)
    return parsed


def remote_command() -> str:
    """The probe as horovodrun would start it: in this folder, by this Python."""
    return f"cd {shlex.quote(os.getcwd())} && " + shlex.join(
        probes.command_of("installation")
    )


def judge(
    name: str, slots: int, answer: ProbeAnswer, own: Mapping[str, Any], several: bool
) -> Finding:
    """Compares one host with this machine.

    Args:
        name: as in `--hosts`.
        slots: its processes.
        answer: of the probe `installation` there.
        own: the facts of that probe here.
        several: whether the run has other hosts.
    """
    if answer.failure:
        return problem(
            f"{name}: no process can be started there",
            answer.failure,
            f"`ssh {name} true` has to work without a password, and {os.getcwd()} with "
            "its environment to exist there: ssh-copy-id, make setup, or a shared "
            "folder",
        )
    facts = answer.facts
    if differences := _differences(facts, own):
        return problem(
            f"{name}: another installation than here",
            "; ".join(differences),
            f"on {name}: bring the repository to the same commit, and make setup",
        )
    address = facts["own_address"]
    if several and (not address or address.startswith("127.")):
        return problem(
            f"{name}: its own name, {facts['own_name']}, has no address that others "
            "reach",
            f"there it stands for {address or 'nothing'}, and Gloo tells the other "
            "hosts to connect to that",
            f"on {name}, in /etc/hosts: its network address, {facts['own_name']}",
        )
    if facts["gpus"] and slots != facts["gpus"]:
        return warning(
            f"{name}: {slots} processes on {facts['gpus']} GPUs",
            "horovodrun starts one process a slot, and each should have one GPU",
            f"--hosts={name}:{facts['gpus']}",
        )
    return ok(f"{name}: the same installation, {facts['gpus']} GPUs")


def _differences(theirs: Mapping[str, Any], own: Mapping[str, Any]) -> list[str]:
    """One text for each version that differs."""
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
