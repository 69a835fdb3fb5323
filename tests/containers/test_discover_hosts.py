"""The host discovery script, with a program in the place of ssh."""

import os
import pathlib
import subprocess

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "containers/discover_hosts.sh"


def discover(folder, hosts):
    """Output of the script where only hosts called up… answer."""
    ssh = folder / "ssh"
    # Eats its input, as ssh would without -n, so that the loop needs that flag.
    ssh.write_text(
        '#!/bin/sh\ncase "$*" in *-n*) ;; *) cat >/dev/null ;; esac\n'
        'case "$*" in *" up"*) exit 0 ;; *) exit 255 ;; esac\n'
    )
    ssh.chmod(0o755)
    (folder / "hosts.txt").write_text(hosts)
    return subprocess.run(
        ["bash", SCRIPT],
        env={"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.mark.parametrize("end", ["\n", ""])
def test_hosts_that_answer_are_printed_with_their_slots(tmp_path, end):
    hosts = f"up1 slots=8\ndown slots=8\nup2 slots=4{end}"
    assert discover(tmp_path, hosts) == "up1:8\nup2:4\n"


def test_no_host_that_answers_is_no_error(tmp_path):
    assert discover(tmp_path, "down slots=8\n") == ""
