"""Ranks that give no sign of life, with the store of a launcher in this process."""

import io
import socket
import threading
import time

import pytest

from seg_tf.training import silent_ranks
from seg_tf.training.silent_ranks import LauncherStore, Watch, watching

http_server = pytest.importorskip(
    "horovod.runner.http.http_server", reason="Horovod is not installed"
)
NAMES = ("process 6 on a", "process 7 on a", "process 8 on b")


@pytest.fixture(name="watch")
def _watch():
    """A `Watch` whose clock is `watch.now` and whose lines are in `watch.lines`."""
    lines = []
    now = [100.0]
    watch = Watch({1: NAMES[1], 2: NAMES[2]}, lines.append, 8, lambda: now[0])
    watch.set_clock = lambda value: now.__setitem__(0, value)
    watch.lines = lines
    return watch


def test_silent_rank_is_named_once_and_again_when_it_is_back(watch):
    for second in range(20):
        watch.set_clock(100.0 + second)
        watch.see(1, b"5")
        watch.see(2, b"%d" % second)
    assert watch.lines == [
        "Rank 1 (process 7 on a) has been silent for 9 s: its process is stopped or "
        "its host is gone"
    ]
    watch.see(1, b"6")
    assert watch.lines[1:] == ["Rank 1 (process 7 on a) is back after 19 s"]


def test_rank_without_any_sign_is_named_too(watch):
    watch.set_clock(109.0)
    watch.see(2, b"")
    assert [line[:23] for line in watch.lines] == ["Rank 2 (process 8 on b)"]


def test_rank_that_is_done_is_not_named(watch):
    watch.see(1, b"done")
    watch.set_clock(200.0)
    watch.see(1, b"done")
    assert watch.lines == []


def test_process_that_stood_still_itself_blames_nobody(watch):
    watch.see(1, b"1")
    watch.set_clock(200.0)
    watch.forgive()
    watch.see(1, b"1")
    assert watch.lines == []
    watch.set_clock(209.0)
    watch.see(1, b"1")
    assert len(watch.lines) == 1


@pytest.fixture(name="store")
def _store():
    server = http_server.RendezvousServer()
    port = server.start()
    server.init([])
    yield LauncherStore("127.0.0.1", port)
    server.stop()
    server._httpd.server_close()


@pytest.fixture(name="fast")
def _fast(monkeypatch):
    monkeypatch.setattr(silent_ranks, "_INTERVAL", 0.05)


def wait_for(is_so):
    for _ in range(600):
        if is_so():
            return
        time.sleep(0.05)
    raise AssertionError("never came about")


def test_chief_names_others_and_they_the_chief(store, fast, monkeypatch):
    monkeypatch.setattr(Watch.__init__, "__defaults__", (2.0, time.monotonic))
    of_chief, of_other = io.StringIO(), io.StringIO()
    with watching(0, NAMES, store, of_chief):
        with watching(1, NAMES, store, of_other):
            wait_for(lambda: "Rank 2" in of_chief.getvalue())
        # Rank 1 is done by now, and says so.
        store.put(2, b"not to be printed")
        wait_for(lambda: "is back" in of_chief.getvalue())
        assert store.get(1) == b"done"
    assert "Rank 1" not in of_chief.getvalue()
    assert "not to be printed" not in of_chief.getvalue()
    assert "Rank" not in of_other.getvalue()
    with watching(1, NAMES[:2], store, of_other):
        store.put(0, b"3")
        wait_for(lambda: "Rank 0 (process 6 on a)" in of_other.getvalue())


def test_launcher_that_is_gone_or_answers_nonsense_makes_nobody_silent(fast):
    stream = io.StringIO()
    with socket.create_server(("127.0.0.1", 0)) as server:
        store = LauncherStore("127.0.0.1", server.getsockname()[1])

        def answer():
            while True:
                try:
                    other, _ = server.accept()
                except OSError:
                    return
                with other:
                    other.recv(1_000)
                    other.sendall(b"5\xff\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with watching(0, NAMES, store, stream):
            time.sleep(0.3)
            with pytest.raises(ConnectionError):
                store.get(1)
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    with pytest.raises(ConnectionError), watching(0, NAMES, store, stream):
        store.put(1, b"1")
    assert stream.getvalue() == ""
    assert not any(one.name == "silent_ranks" for one in threading.enumerate())


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1"},
        {"HOROVOD_GLOO_RENDEZVOUS_ADDR": "", "HOROVOD_GLOO_RENDEZVOUS_PORT": "80"},
        {"HOROVOD_GLOO_RENDEZVOUS_ADDR": "a", "HOROVOD_GLOO_RENDEZVOUS_PORT": "x"},
    ],
)
def test_without_a_launcher_of_gloo_nothing_is_watched(environment):
    store = LauncherStore.of_launcher(environment)
    assert store is None
    with watching(0, NAMES, store):
        assert not any(one.name == "silent_ranks" for one in threading.enumerate())
