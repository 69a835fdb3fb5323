"""Names the process that stands still, or whose host is gone.

Horovod names ranks that do not come to a sum while their processes are alive. Of one
that is stopped, swapped out or unplugged it says only that a connection timed out, and
not whose. So each process sends a datagram to the chief every second, and gets one
back; who hears nothing for some seconds says of whom.
"""

import contextlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TextIO

import psutil

_INTERVAL = 1.0
# Under Horovod's own time limit of 30 s, so that the name comes before the end.
SILENCE = 8.0


class Heard:
    """When each process was last heard of, and what is to be said about it.

    Args:
        report: called with each line to say.
        silence: seconds after which a process is named.
        clock: seconds from any origin.
    """

    def __init__(
        self,
        report: Callable[[str], None],
        silence: float,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._report = report
        self._silence = silence
        self._clock = clock
        self._names: dict[int, str] = {}
        self._last: dict[int, float] = {}
        self._silent: set[int] = set()

    def note(self, rank: int, name: str) -> None:
        """A process was heard of."""
        now = self._clock()
        if rank in self._silent:
            self._silent.remove(rank)
            self._report(
                f"Rank {rank} ({name}) is back after {now - self._last[rank]:.0f} s"
            )
        self._names[rank], self._last[rank] = name, now

    def forgive(self) -> None:
        """This process itself stood still, so that it could not hear anybody."""
        now = self._clock()
        for rank in self._last.keys() - self._silent:
            self._last[rank] = now

    def check(self) -> None:
        """Names those that have become silent."""
        now = self._clock()
        for rank, last in self._last.items():
            if rank not in self._silent and now - last > self._silence:
                self._silent.add(rank)
                self._report(
                    f"Rank {rank} ({self._names[rank]}) has been silent for "
                    f"{now - last:.0f} s: its process stands still or its host is gone"
                )


def open_socket() -> tuple[socket.socket, tuple[str, int]]:
    """A socket for datagrams and the address under which others reach it."""
    channel = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    channel.settimeout(_INTERVAL)
    channel.bind((_own_address(), 0))
    return channel, channel.getsockname()


@contextlib.contextmanager
def beating(
    rank: int,
    channel: socket.socket,
    chief: tuple[str, int],
    stream: TextIO | None = None,
) -> Iterator[None]:
    """Sends and hears while the body runs; closes the socket.

    Args:
        rank: this process's.
        channel: its socket.
        chief: address of the chief's socket.
        stream: where to say who is silent; None takes stderr.
    """
    stop = threading.Event()

    def report(line: str) -> None:
        print(line, file=stream or sys.stderr, flush=True)

    message = json.dumps([rank, _own_name()]).encode()
    thread = threading.Thread(
        target=_exchange,
        args=(
            stop,
            channel,
            chief if rank else None,
            message,
            Heard(report, SILENCE),
        ),
        name="heartbeat",
        daemon=True,
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        channel.close()


def _exchange(
    stop: threading.Event,
    channel: socket.socket,
    chief: tuple[str, int] | None,
    message: bytes,
    heard: Heard,
) -> None:
    """The chief hears all others and answers; they send to it and hear it."""
    while not stop.is_set():
        before = time.monotonic()
        if chief:
            _send(channel, message, chief)
        received = _receive(channel)
        if time.monotonic() - before > 3 * _INTERVAL:
            heard.forgive()
        if received:
            words, sender = received
            heard.note(*words)
            if not chief:
                _send(channel, message, sender)
        heard.check()
        if chief:
            stop.wait(_INTERVAL)


def _send(channel: socket.socket, message: bytes, address: tuple[str, int]) -> None:
    # A network that is down is what this is for: the next one may arrive.
    with contextlib.suppress(OSError):
        channel.sendto(message, address)


def _receive(
    channel: socket.socket,
) -> tuple[tuple[int, str], tuple[str, int]] | None:
    """Rank, name and address of whoever sent something, if somebody did."""
    try:
        received, sender = channel.recvfrom(1_000)
        rank, name = json.loads(received)
    except (OSError, ValueError):
        return None
    return (int(rank), str(name)), sender


def _own_name() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


def _own_address() -> str:
    """That of the network interface that Horovod uses."""
    interface = os.environ.get("HOROVOD_GLOO_IFACE", "")
    for address in psutil.net_if_addrs().get(interface, ()):
        if address.family == socket.AF_INET:
            return address.address
    return socket.gethostbyname(socket.gethostname())
