"""An object server as Amazon's, in this process, with the faults of a network.

What lies in a bucket can also be read from `HTTP` without the package of S3.
"""

import contextlib
import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator

import fsspec
from moto.moto_api._internal.models import moto_api_backend
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

BUCKET = "s3://corpus"
_STATUSES = {
    "403": "403 Forbidden",
    "429": "429 Too Many Requests",
    "500": "500 Internal Server Error",
    "503": "503 Service Unavailable",
}


class Faults:
    """What goes wrong with requests for the content of objects.

    Attributes:
        every: each so-many-th one fails, in turn by an error of the server, by being
            cut off in the middle, and by coming late; 0 lets all succeed.
        counts: how often each kind was made.
        rule: maps the path of any request, HEAD included, to its fault: a status,
            or "reset"; None for no fault.
        url: of the server.
    """

    url = ""

    def __init__(self):
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """Lets all requests succeed, and counts from 0 again."""
        self.every = 0
        self.counts = {"500": 0, "cut off": 0, "slow": 0}
        self.rule: Callable[[str], str | None] = lambda path: None
        self._numbers = itertools.count(1)
        self._kinds = itertools.cycle(self.counts)

    def draw(self) -> str | None:
        """The fault of the next request."""
        with self._lock:
            if not self.every or next(self._numbers) % self.every:
                return None
            kind = next(self._kinds)
            self.counts[kind] += 1
            return kind


class _Silent(WSGIRequestHandler):
    """Logs no request."""

    def log(self, *_: object) -> None:
        pass


def _faulty(application: Callable, faults: Faults) -> Callable:
    def answer(environ: dict, start_response: Callable) -> Iterable[bytes]:
        path = environ["PATH_INFO"].strip("/")
        is_transfer = environ["REQUEST_METHOD"] in ("GET", "PUT") and "/" in path
        fault = faults.draw() if is_transfer else None
        fault = faults.rule(path) or fault
        if fault in _STATUSES:
            start_response(_STATUSES[fault], [("Content-Length", "0")])
            return [b""]
        if fault == "reset":
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        if fault == "slow":
            time.sleep(0.05)
        body = b"".join(application(environ, start_response))
        if fault == "cut off":  # Of what was announced half comes.
            return [body[: len(body) // 2]]
        return [body]

    return answer


@contextlib.contextmanager
def running(monkeypatch) -> Iterator[Faults]:
    """Starts the server, and points s3:// to it; gives its faults."""
    faults = Faults()
    application = DomainDispatcherApplication(create_backend_app)
    server = make_server(
        "127.0.0.1",
        0,
        _faulty(application, faults),
        threaded=True,
        request_handler=_Silent,
    )
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    faults.url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("AWS_ENDPOINT_URL", faults.url)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    # The product's own attempts are tested.
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr(fsspec.get_filesystem_class("s3"), "retries", 1)
    moto_api_backend.reset()
    fsspec.filesystem("s3").clear_instance_cache()
    fsspec.filesystem("s3").mkdir(BUCKET)
    try:
        yield faults
    finally:
        fsspec.filesystem("s3").clear_instance_cache()
        server.shutdown()
        thread.join()
