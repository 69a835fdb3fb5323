import io
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from seg_tf.training import heartbeat
from seg_tf.training.heartbeat import Heard


@pytest.fixture
def heard():
    """A `Heard` whose clock stands in `heard.now`, and its lines in `heard.lines`."""
    lines = []
    found = Heard(lines.append, silence=8, clock=lambda: found.now)
    found.now, found.lines = 100.0, lines
    return found


def test_silent_process_is_named_once_and_again_when_it_is_back(heard):
    heard.note(1, "process 7 on a")
    heard.note(2, "process 8 on b")
    for second in range(1, 20):
        heard.now = 100.0 + second
        heard.note(2, "process 8 on b")
        heard.check()
    expected = "Rank 1 (process 7 on a) has been silent for 9 s: its process stands "
    assert len(heard.lines) == 1
    assert heard.lines[0].startswith(expected)
    heard.note(1, "process 7 on a")
    heard.check()
    assert heard.lines[1:] == ["Rank 1 (process 7 on a) is back after 19 s"]


def test_process_that_stood_still_itself_blames_nobody(heard):
    heard.note(1, "process 7 on a")
    heard.now = 200.0
    heard.forgive()
    heard.check()
    assert heard.lines == []


def test_process_never_heard_of_is_not_blamed(heard):
    heard.now = 200.0
    heard.check()
    assert heard.lines == []


def test_chief_hears_and_answers_and_ignores_what_is_no_beat(monkeypatch):
    monkeypatch.delenv("HOROVOD_GLOO_IFACE", raising=False)
    channel, address = heartbeat.open_socket()
    stream = io.StringIO()
    with (
        heartbeat.beating(0, channel, address, stream),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other,
    ):
        other.settimeout(5)
        other.sendto(b"\xff", address)
        other.sendto(b'[1, "process 7 on a"]', address)
        answer, _ = other.recvfrom(1_000)
    assert answer.startswith(b'[0, "process %d on ' % os.getpid())
    assert stream.getvalue() == ""


BEATER = """
import json, sys
from seg_tf.training import heartbeat
channel, _ = heartbeat.open_socket()
with heartbeat.beating(1, channel, tuple(json.loads(sys.argv[1]))):
    sys.stdin.read()
"""


def test_process_that_is_stopped_is_named(monkeypatch):
    monkeypatch.delenv("HOROVOD_GLOO_IFACE", raising=False)
    monkeypatch.setattr(heartbeat, "SILENCE", 2.0)
    channel, address = heartbeat.open_socket()
    stream = io.StringIO()
    with heartbeat.beating(0, channel, address, stream):
        other = subprocess.Popen(
            [sys.executable, "-c", BEATER, f'["{address[0]}", {address[1]}]'],
            stdin=subprocess.PIPE,
        )
        time.sleep(2)
        other.send_signal(signal.SIGSTOP)
        _wait_for(stream, "has been silent for")
        other.send_signal(signal.SIGCONT)
        _wait_for(stream, "is back after")
        other.communicate()
    assert (
        f"Rank 1 (process {other.pid} on {socket.gethostname()})" in stream.getvalue()
    )


def _wait_for(stream, text):
    for _ in range(300):
        if text in stream.getvalue():
            return
        time.sleep(0.1)
    raise AssertionError(f"{text!r} was never said: {stream.getvalue()!r}")
