"""Serves the page and answers its questions over HTTP, on this machine only."""

import contextlib
import http.server
import inspect
import io
import json
import pathlib
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any

HOST = "127.0.0.1"
_FOLDER = pathlib.Path(__file__).parent
_FILES = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}
_JSON = "application/json"
_MAX_BYTES = 1_000_000
# How much of a refused request is read, so that its sender sees the answer.
_MAX_DRAINED_BYTES = 16_000_000
_ANSWERS_AT_ONCE = 2
_BUSY = b"HTTP/1.0 503 Service Unavailable\r\nRetry-After: 1\r\n\r\n"
_HEADERS = {
    # Nothing is loaded from elsewhere, and no other page may frame this one.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src "
    "'self'; img-src 'self' data:; connect-src 'self'; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

Answer = Callable[..., Mapping[str, Any]]


class DemoServer(http.server.ThreadingHTTPServer):
    """HTTP server of the page, reachable from this machine only.

    `GET /model` returns the description; `POST /NAME` calls an answer with the fields
    of a JSON object. Two questions of each kind are answered at a time.

    Args:
        description: the model's description.
        answers: name -> function. A ValueError is reported as a bad request.
        port: 0 for any free port.
        max_seconds: time limit for a request to arrive, to wait for its turn, and
            for its answer to be read.
        max_connections: connections beyond this number are refused.

    Raises:
        OSError: if the port is taken.
    """

    request_queue_size = 128

    def __init__(
        self,
        description: Mapping[str, Any],
        answers: Mapping[str, Answer],
        port: int,
        max_seconds: float = 30,
        max_connections: int = 128,
    ):
        self.description = description
        self.answers = answers
        self.max_seconds = max_seconds
        self._turns = {
            name: threading.BoundedSemaphore(_ANSWERS_AT_ONCE) for name in answers
        }
        self._connections = threading.BoundedSemaphore(max_connections)
        super().__init__((HOST, port), _PageHandler)

    @contextlib.contextmanager
    def turn(self, name: str) -> Iterator[None]:
        """Waits for a turn to answer; raises TimeoutError when it takes too long."""
        if not self._turns[name].acquire(timeout=self.max_seconds):
            raise TimeoutError(f"`/{name}` is busy. Try again later")
        try:
            yield
        finally:
            self._turns[name].release()

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._connections.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            with contextlib.suppress(OSError):
                request.setblocking(False)
                request.sendall(_BUSY)
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.release()


class _RequestStream(io.RawIOBase):
    """Reads a socket until a deadline, however slowly the bytes arrive."""

    def __init__(self, connection: socket.socket, seconds: float):
        self._connection = connection
        self._deadline = time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        # A timeout of 0 would mean non-blocking.
        self._connection.settimeout(max(1e-3, self._deadline - time.monotonic()))
        return self._connection.recv_into(buffer)


class _PageHandler(http.server.BaseHTTPRequestHandler):
    server: DemoServer
    # Errors in a request line without a version get a status and headers, too.
    default_request_version = "HTTP/1.0"
    _was_refused = False

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        stream = _RequestStream(self.connection, self.server.max_seconds)
        self.rfile = io.BufferedReader(stream)

    def handle(self) -> None:
        # A client that has disconnected does not want the answer.
        with contextlib.suppress(ConnectionError, TimeoutError):
            super().handle()
            if self._was_refused:
                # Closing with unread bytes would reset the connection, and the sender
                # would not see the answer.
                self.connection.shutdown(socket.SHUT_WR)
                for _ in range(_MAX_DRAINED_BYTES // _MAX_BYTES):
                    if not self.rfile.read(_MAX_BYTES):
                        break

    def do_GET(self) -> None:
        path = self._allowed_path()
        if path == "/model":
            self._send_json(HTTPStatus.OK, self.server.description)
        elif path:
            name, kind = _FILES[path]
            self._send(HTTPStatus.OK, (_FOLDER / name).read_bytes(), kind)

    def do_POST(self) -> None:
        path = self._allowed_path()
        if path and (content := self._content()) is not None:
            self._answer(path.removeprefix("/"), content)

    do_HEAD = do_GET
    # Refused for any path.
    do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_POST

    def _allowed_path(self) -> str | None:
        """The path, or None after refusing the request."""
        path = self.path.partition("?")[0]
        is_page = path == "/model" or path in _FILES
        methods = ("GET", "HEAD") if is_page else ("POST",)
        port = self.server.server_address[1]
        if self.headers.get("Host") not in (f"{HOST}:{port}", f"localhost:{port}"):
            # Another site may have made its name mean this machine.
            self._refuse(HTTPStatus.FORBIDDEN, f"Ask http://{HOST}:{port}")
        elif not is_page and path.removeprefix("/") not in self.server.answers:
            self._refuse(HTTPStatus.NOT_FOUND, f"There is no {path}")
        elif self.command not in methods:
            allowed = ", ".join(methods)
            message = f"Expected {allowed}. Received: {self.command}"
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, message, Allow=allowed)
        else:
            return path
        return None

    def _content(self) -> bytes | None:
        """The body, or None after refusing the request."""
        size = ", ".join(self.headers.get_all("Content-Length", []))
        if self.headers.get_content_type() != _JSON:
            # A form of another site can send any other type unasked.
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Expected {_JSON}")
        elif "Transfer-Encoding" in self.headers or not size:
            message = "Expected a Content-Length, without a Transfer-Encoding"
            self._refuse(HTTPStatus.LENGTH_REQUIRED, message)
        elif not (size.isascii() and size.isdigit()):
            message = f"`Content-Length` must be a number. Received: {size[:99]}"
            self._refuse(HTTPStatus.BAD_REQUEST, message)
        elif len(size) > 18 or int(size) > _MAX_BYTES:
            message = f"Expected at most {_MAX_BYTES:,} bytes"
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
        else:
            try:
                content = self.rfile.read(int(size))
            except TimeoutError:
                message = f"The request took more than {self.server.max_seconds:g} s"
                self._refuse(HTTPStatus.REQUEST_TIMEOUT, message)
                return None
            if len(content) == int(size):
                return content
            message = f"Expected {size} bytes. Received: {len(content)}"
            self._refuse(HTTPStatus.BAD_REQUEST, message)
        return None

    def _answer(self, name: str, content: bytes) -> None:
        answer = self.server.answers[name]
        try:
            fields = json.loads(content)
            if not isinstance(fields, dict):
                raise ValueError(f"found {type(fields).__name__}")
            inspect.signature(answer).bind(**fields)
        except (ValueError, TypeError, RecursionError) as error:
            message = f"Expected a JSON object with the fields of /{name}: {error}"
            self._refuse(HTTPStatus.BAD_REQUEST, message)
            return
        try:
            with self.server.turn(name):
                result = answer(**fields)
        except ValueError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        except TimeoutError as error:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        except Exception as error:
            message = f"{type(error).__name__}: see the terminal of seg-tf demo"
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, message)
            raise
        else:
            self._send_json(HTTPStatus.OK, result)

    def send_error(
        self, code: int, message: str | None = None, explain: str | None = None
    ) -> None:
        """Refuses what `http.server` cannot parse."""
        self._refuse(HTTPStatus(code), message or HTTPStatus(code).phrase)

    def _refuse(self, status: HTTPStatus, message: str, **headers: str) -> None:
        self._was_refused = True
        self._send_json(status, {"error": message}, **headers)

    def _send_json(
        self, status: HTTPStatus, values: Mapping[str, Any], **headers: str
    ) -> None:
        self._send(status, json.dumps(values).encode(), _JSON, **headers)

    def _send(
        self, status: HTTPStatus, content: bytes, kind: str, **headers: str
    ) -> None:
        self.connection.settimeout(self.server.max_seconds)
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        for name, value in (_HEADERS | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Does not log every request."""
