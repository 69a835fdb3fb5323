"""Names a rank whose process is stopped or whose host is gone.

Horovod's stall inspector names ranks that are late for a sum while their processes
run. It waits for all ranks itself, though: a process that is stopped, swapped out or
unplugged blocks it, and Gloo then says that a receive timed out, but not from whom. So
each rank leaves a counter in the key-value store of `horovodrun`, where Gloo's ranks
find each other, and looks whether the counters of others change. No port is opened,
and nothing that is read there is printed: counters are only compared.
"""

import contextlib
import http.client
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TextIO

_INTERVAL = 3.0
# Below Horovod's time limit of 30 s for elastic runs, so that the name comes before
# the end.
SILENCE = 15.0
_DONE = b"done"
_FOLDER = "seg_tf_signs_of_life"
_HOST, _PORT = "HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT"


class LauncherStore:
    """The key-value store of `horovodrun`, with an entry for each rank.

    Args:
        host: the launcher's address.
        port: its port.
    """

    def __init__(self, host: str, port: int):
        self._host, self._port = host, port

    @classmethod
    def of_launcher(cls, environment: Mapping[str, str]) -> "LauncherStore | None":
        """The store that a launcher's environment names; None for MPI's launchers."""
        host, port = environment.get(_HOST), environment.get(_PORT, "")
        return cls(host, int(port)) if host and port.isdigit() else None

    def put(self, rank: int, value: bytes) -> None:
        """Writes the entry of a rank.

        Raises:
            ConnectionError: if the launcher does not answer.
        """
        self._request("PUT", rank, value)

    def get(self, rank: int) -> bytes:
        """Return the entry of a rank; empty where there is none.

        Raises:
            ConnectionError: if the launcher does not answer.
        """
        return self._request("GET", rank, None)

    def _request(self, method: str, rank: int, body: bytes | None) -> bytes:
        connection = http.client.HTTPConnection(
            self._host, self._port, timeout=_INTERVAL
        )
        try:
            connection.request(method, f"/{_FOLDER}/{rank}", body)
            response = connection.getresponse()
            content = response.read(100)
            return content if response.status == http.client.OK else b""
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionError(str(error)) from error
        finally:
            connection.close()


class Watch:
    """Reports ranks whose counters do not change, and those whose do again.

    Args:
        names: for each rank that is watched, its process and host.
        report: called with each line to print.
        silence: seconds after which a rank is named.
        clock: seconds from any origin.
    """

    def __init__(
        self,
        names: Mapping[int, str],
        report: Callable[[str], None],
        silence: float = SILENCE,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._names = names
        self._report = report
        self._silence = silence
        self._clock = clock
        self._counters = dict.fromkeys(names, b"")
        self._last = dict.fromkeys(names, clock())
        self._silent: set[int] = set()

    @property
    def ranks(self) -> Iterable[int]:
        """The ranks that are watched."""
        return self._names.keys()

    def see(self, rank: int, counter: bytes) -> None:
        """Takes the counter of a rank and names the rank if it is silent."""
        now = self._clock()
        if counter not in (b"", self._counters[rank]):
            if rank in self._silent:
                self._silent.remove(rank)
                self._report(
                    f"Rank {rank} ({self._names[rank]}) is back after "
                    f"{now - self._last[rank]:.0f} s"
                )
            self._counters[rank], self._last[rank] = counter, now
        silence = now - self._last[rank]
        is_done = self._counters[rank] == _DONE
        if rank not in self._silent and silence > self._silence and not is_done:
            self._silent.add(rank)
            self._report(
                f"Rank {rank} ({self._names[rank]}) has been silent for "
                f"{silence:.0f} s: its process is stopped or its host is gone"
            )

    def forgive(self) -> None:
        """Begins the time of those who are not silent anew.

        For when this process was stopped itself, or the launcher did not answer.
        """
        now = self._clock()
        for rank in self._last.keys() - self._silent:
            self._last[rank] = now


@contextlib.contextmanager
def watching(
    rank: int,
    names: Sequence[str],
    store: LauncherStore | None,
    stream: TextIO | None = None,
) -> Iterator[None]:
    """Gives signs of life and watches others while the body runs.

    The chief watches all other ranks, and they watch the chief.

    Args:
        rank: this process's.
        names: process and host of every rank.
        store: that of the launcher; None does nothing.
        stream: where silent ranks are named; None takes stderr.
    """
    if store is None:
        yield
        return

    def report(line: str) -> None:
        print(line, file=stream or sys.stderr, flush=True)

    watched = [0] if rank else range(1, len(names))
    watch = Watch({other: names[other] for other in watched}, report)
    stop = threading.Event()
    thread = threading.Thread(
        target=_watch, args=(stop, rank, store, watch), name="silent_ranks", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _watch(
    stop: threading.Event, rank: int, store: LauncherStore, watch: Watch
) -> None:
    """Counts and looks until told to stop; says then that it is done."""
    counter, before = 0, time.monotonic()
    while not stop.wait(_INTERVAL):
        now = time.monotonic()
        if now - before > 3 * _INTERVAL:
            watch.forgive()
        before = now
        counter += 1
        try:
            store.put(rank, b"%d" % counter)
            for other in watch.ranks:
                watch.see(other, store.get(other))
        except ConnectionError:
            watch.forgive()
    # The launcher may have gone first.
    with contextlib.suppress(ConnectionError):
        store.put(rank, _DONE)
