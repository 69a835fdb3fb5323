"""`horovodrun … run_pretraining.py`: killed, elastic, and on two hosts."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest

from tests import scripted_runs
from tests.scripted_runs import log_of, read_until, start, variables_of

pytestmark = pytest.mark.slow

pytest.importorskip("horovod", reason="Horovod is not installed")

HOROVODRUN = pathlib.Path(sys.executable).parent / "horovodrun"
# The same micro-batches whichever ranks take them, so also the same dropout.
SHARED = ("--config.training.batch_size=6", "--config.training.micro_batch_size=1")
LAST = pathlib.Path("checkpoints", "update-00000060")
# Three names of this machine, which Horovod takes for three hosts.
HOSTS = ("localhost", "127.0.0.1", "127.1")


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    scripted_runs.write_records(folder)
    return folder


@pytest.fixture(scope="module")
def alone(records, tmp_path_factory):
    """A run of one process that nothing disturbed."""
    folder = tmp_path_factory.mktemp("alone")
    finish(start(records, folder, *SHARED))
    return folder


def finish(process):
    """Waits for the end; returns all that was printed after what was read."""
    try:
        output, errors = process.communicate(timeout=900)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    assert process.returncode == 0, output[-3000:] + errors[-6000:]
    return output + errors


def workers(folder):
    """The processes that train into a folder, by their rank at the start."""
    found = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            command = process.cmdline()
            is_python = command[1:2] == ["run_pretraining.py"]
            if is_python and f"--output_dir={folder}" in command:
                found[int(process.environ()["HOROVOD_RANK"])] = process
    return found


def assert_same_run_but_for_rounding(folder, expected):
    """Same weights and, row for row, the same log: so, the same samples."""
    ours, theirs = variables_of(folder / LAST), variables_of(expected / LAST)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_allclose(
            value, theirs[name], rtol=1e-4, atol=1e-4, err_msg=name
        )
    assert len(log_of(folder)) == len(log_of(expected))
    for one, other in zip(log_of(folder), log_of(expected), strict=True):
        assert one.pop("kind") == other.pop("kind")
        assert one == pytest.approx(other, rel=1e-4)


def launcher(*arguments):
    return [HOROVODRUN, "--gloo", *arguments]


def test_two_ranks_killed_go_on_as_one(records, alone, tmp_path):
    process = start(records, tmp_path, *SHARED, launcher=launcher("-np", "2"))
    read_until(process, "update 15/60")
    ranks = workers(tmp_path).values()
    time.sleep(np.random.default_rng().uniform(0, 0.5))
    os.killpg(process.pid, signal.SIGKILL)
    for worker in ranks:
        worker.kill()
    process.communicate()
    psutil.wait_procs(ranks)
    assert 10 < log_of(tmp_path)[-1]["updates"] < 60
    output = finish(start(records, tmp_path, *SHARED))
    assert "Going on from" in output
    assert_same_run_but_for_rounding(tmp_path, alone)


@pytest.mark.parametrize("rank", [0, 1], ids=["the chief", "another"])
def test_signal_to_one_worker_leaves_a_checkpoint(records, tmp_path, rank):
    process = start(records, tmp_path, *SHARED, launcher=launcher("-np", "2"))
    read_until(process, "update 10/60")
    workers(tmp_path)[rank].terminate()
    _, errors = process.communicate(timeout=300)
    assert process.returncode != 0
    (line,) = [line for line in errors.splitlines() if "Stopped by SIGTERM" in line]
    updates = int(re.search(r"after update (\d+) of 60", line).group(1))
    assert (tmp_path / f"checkpoints/update-{updates:08d}/state.json").exists()
    # Drawn before the first process left, whose end makes the launcher kill the others.
    assert (tmp_path / "loss_curve.png").exists()
    assert "Traceback" not in errors.split("Stopped by SIGTERM")[0]


def test_rank_that_stands_still_is_named(records, alone, tmp_path):
    process = start(records, tmp_path, *SHARED, launcher=launcher("-np", "2"))
    # The chief, then another.
    for victim, update in enumerate((10, 30)):
        read_until(process, f"update {update}/60")
        worker = workers(tmp_path)[victim]
        worker.suspend()
        line = read_until(process, "has been silent for")
        assert f"Rank {victim} (process {worker.pid} on {socket.gethostname()})" in line
        worker.resume()
        line = read_until(process, "is back after")
        assert f"Rank {victim} " in line
    finish(process)
    assert_same_run_but_for_rounding(tmp_path, alone)


def test_rank_that_never_answers_ends_the_run_in_words(records, tmp_path):
    process = start(
        records,
        tmp_path,
        *SHARED,
        launcher=launcher("-np", "2"),
        # Longer than it takes to name the rank.
        environment={"HOROVOD_GLOO_TIMEOUT_SECONDS": "30"},
    )
    read_until(process, "update 10/60")
    workers(tmp_path)[1].suspend()
    read_until(process, "Rank 1 ")
    line = read_until(process, "a sum over the processes failed")
    assert "Rank 0 of 2" in line
    _, errors = process.communicate(timeout=120)
    of_ranks = [line for line in errors.splitlines() if line.startswith("[")]
    assert not [line for line in of_ranks if "Traceback" in line]
    assert process.returncode != 0


def discovery(folder, hosts):
    """A script that prints the hosts of a file, and the file."""
    script, listed = folder / "discover.sh", folder / "hosts"
    script.write_text(f"#!/bin/sh\ncat {listed}\n")
    script.chmod(0o755)
    listed.write_text("".join(f"{host}:1\n" for host in hosts))
    return script, listed


def test_elastic_run_outlives_killed_processes(records, alone, tmp_path):
    script, _ = discovery(tmp_path, HOSTS)
    process = start(
        records,
        tmp_path / "run",
        *SHARED,
        launcher=launcher(
            *("-np", "3", "--min-np", "1", "--host-discovery-script", script)
        ),
        environment={"HOROVOD_GLOO_TIMEOUT_SECONDS": "5"},
    )
    read_until(process, "update 10/60")
    of_ranks = workers(tmp_path / "run")
    of_ranks[0].kill()  # the chief
    read_until(process, "update 30/60")
    of_ranks[2].kill()
    output = finish(process)
    assert "with 2 processes" in output
    assert "with 1 process" in output
    assert_same_run_but_for_rounding(tmp_path / "run", alone)


def test_elastic_run_takes_in_a_host_that_comes(records, alone, tmp_path):
    script, listed = discovery(tmp_path, HOSTS[:1])
    updates = "--config.training.num_updates=400"
    process = start(
        records,
        tmp_path / "run",
        *SHARED,
        updates,
        launcher=launcher(
            *("-np", "1", "--min-np", "1", "--max-np", "2"),
            # Without this an elastic job waits for two hosts, to compare networks.
            *("--host-discovery-script", script, "--network-interfaces", "lo"),
        ),
    )
    read_until(process, "update 10/400")
    listed.write_text("".join(f"{host}:1\n" for host in HOSTS[:2]))
    output = finish(process)
    assert "with 2 processes" in output
    assert log_of(tmp_path / "run")[-1]["updates"] == 400


@contextlib.contextmanager
def two_network_namespaces(folder):
    """Two hosts, as far as the network goes, with a cable between them.

    Yields the prefix of commands on the first, the addresses of both, and a folder
    with an `ssh` that runs its command in the second.
    """
    names = [f"seg-tf-{os.getpid()}-{number}" for number in range(2)]
    addresses = ["10.231.77.1", "10.231.77.2"]

    def ip(*arguments):
        subprocess.run(["ip", *arguments], check=True, capture_output=True)

    with contextlib.ExitStack() as stack:
        for name in names:
            try:
                ip("netns", "add", name)
            except subprocess.CalledProcessError as error:
                pytest.skip(f"no network namespaces here: {error.stderr}")
            stack.callback(ip, "netns", "delete", name)
        cable = ["link", "add", "eth0", "netns", names[0], "type", "veth"]
        ip(*cable, "peer", "name", "eth0", "netns", names[1])
        for name, address in zip(names, addresses, strict=True):
            # Gloo publishes the address that the host's own name stands for.
            hosts = pathlib.Path("/etc/netns", name, "hosts")
            stack.callback(shutil.rmtree, hosts.parent)
            hosts.parent.mkdir(parents=True)
            hosts.write_text(f"127.0.0.1 localhost\n{address} {socket.gethostname()}\n")
            ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
            for device in ("eth0", "lo"):
                ip("-n", name, "link", "set", device, "up")
        ssh = folder / "bin" / "ssh"
        ssh.parent.mkdir()
        ssh.write_text(
            "#!/bin/sh\n"
            "# As ssh: options and a host, then words that the host's shell joins.\n"
            'while [ "$1" != "${1#-}" ]; do shift 2; done\n'
            f'[ "$1" = {addresses[1]} ] || exit 255\n'
            "shift\n"
            'while [ "$1" != "${1#-}" ]; do shift 2; done\n'
            f'exec ip netns exec {names[1]} sh -c "$*"\n'
        )
        ssh.chmod(0o755)
        yield ["ip", "netns", "exec", names[0]], addresses, ssh.parent


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None,
    reason="network namespaces need root and iproute2",
)
def test_two_hosts_train_as_one_process_does(records, alone, tmp_path):
    with two_network_namespaces(tmp_path) as (first_host, addresses, programs):
        hosts = ",".join(f"{address}:1" for address in addresses)
        process = start(
            records,
            tmp_path / "run",
            *SHARED,
            launcher=[
                *first_host,
                *launcher("-np", "2", "-H", hosts, "--network-interfaces", "eth0"),
            ],
            environment={"PATH": f"{programs}:{os.environ['PATH']}"},
        )
        read_until(process, "update 10/60")
        namespaces = {
            os.readlink(f"/proc/{w.pid}/ns/net")
            for w in workers(tmp_path / "run").values()
        }
        assert len(namespaces) == 2
        finish(process)
    assert_same_run_but_for_rounding(tmp_path / "run", alone)
