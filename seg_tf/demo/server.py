"""Serves the page and answers its questions over HTTP, on this machine only."""

import contextlib
import http.server
import inspect
import json
import pathlib
import threading
from collections.abc import Callable, Mapping
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
_ANSWERS_AT_ONCE = 2
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


class _Refusal(Exception):
    """The status and the message of a refused request."""


class DemoServer(http.server.ThreadingHTTPServer):
    """HTTP server of the page, reachable from this machine only.

    `GET /model` returns the description; `POST /NAME` calls an answer with the fields
    of a JSON object. Two questions are answered at a time.

    Args:
        description: the model's description.
        answers: name -> function. A ValueError is reported as a bad request.
        port: 0 for any free port.
    """

    def __init__(
        self, description: Mapping[str, Any], answers: Mapping[str, Answer], port: int
    ):
        self.description = description
        self.answers = answers
        self.turns = threading.BoundedSemaphore(_ANSWERS_AT_ONCE)
        super().__init__((HOST, port), _PageHandler)


class _PageHandler(http.server.BaseHTTPRequestHandler):
    server: DemoServer
    timeout = 30  # seconds without a byte, after which a connection is closed

    def handle(self) -> None:
        # A client that has disconnected does not want the answer.
        with contextlib.suppress(ConnectionError):
            super().handle()

    def do_GET(self) -> None:
        self._respond(self._get)

    def do_POST(self) -> None:
        self._respond(self._post)

    def _respond(self, make: Callable[[str], tuple[bytes, str]]) -> None:
        status = HTTPStatus.OK
        try:
            port = self.server.server_address[1]
            if self.headers.get("Host") not in (f"{HOST}:{port}", f"localhost:{port}"):
                # Another site may have made its name mean this machine.
                raise _Refusal(HTTPStatus.FORBIDDEN, f"Ask http://{HOST}:{port}")
            content, kind = make(self.path.partition("?")[0])
        except _Refusal as refusal:
            status, message = refusal.args
            content, kind = json.dumps({"error": message}).encode(), _JSON
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _get(self, path: str) -> tuple[bytes, str]:
        if path == "/model":
            return json.dumps(self.server.description).encode(), _JSON
        if path not in _FILES:
            raise _Refusal(HTTPStatus.NOT_FOUND, f"There is no {path}")
        name, kind = _FILES[path]
        return (_FOLDER / name).read_bytes(), kind

    def _post(self, path: str) -> tuple[bytes, str]:
        answer = self.server.answers.get(path.removeprefix("/"))
        size = self.headers.get("Content-Length", "")
        if answer is None:
            raise _Refusal(HTTPStatus.NOT_FOUND, f"There is no {path}")
        # A form of another site can send any other type unasked.
        if self.headers.get_content_type() != _JSON:
            raise _Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Expected {_JSON}")
        if not (size.isdecimal() and len(size) < 9 and int(size) <= _MAX_BYTES):
            message = f"Expected a Content-Length of at most {_MAX_BYTES:,} bytes"
            raise _Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
        try:
            fields = json.loads(self.rfile.read(int(size)))
            inspect.signature(answer).bind(**fields)
        except (ValueError, TypeError, RecursionError) as error:
            message = f"Expected a JSON object with the fields of {path}: {error}"
            raise _Refusal(HTTPStatus.BAD_REQUEST, message) from error
        try:
            with self.server.turns:
                return json.dumps(answer(**fields)).encode(), _JSON
        except ValueError as error:
            raise _Refusal(HTTPStatus.BAD_REQUEST, str(error)) from error

    def log_message(self, *_: Any) -> None:
        """Does not log every request."""
