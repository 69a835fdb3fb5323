"""The page and its questions over HTTP, on this machine alone."""

import http.server
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
_MOST_BYTES = 1_000_000
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
    """Listens on this machine alone.

    `GET /model` gives the description; `POST /NAME` calls an answer with the fields of
    a JSON object. One question is answered at a time.

    Args:
        description: of the model.
        answers: by name. A ValueError or TypeError is the asker's to fix.
        port: 0 for any that is free.

    Raises:
        OSError: if the port is taken.
    """

    def __init__(
        self, description: Mapping[str, Any], answers: Mapping[str, Answer], port: int
    ):
        self.description = description
        self.answers = answers
        self.one_at_a_time = threading.Lock()
        super().__init__((HOST, port), _PageHandler)


class _PageHandler(http.server.BaseHTTPRequestHandler):
    server: DemoServer

    def do_GET(self) -> None:
        if not self._is_from_here():
            return
        if self.path == "/model":
            self._send_json(HTTPStatus.OK, self.server.description)
        elif self.path in _FILES:
            name, kind = _FILES[self.path]
            self._send(HTTPStatus.OK, (_FOLDER / name).read_bytes(), kind)
        else:
            self._refuse(HTTPStatus.NOT_FOUND, f"There is no {self.path}")

    def do_POST(self) -> None:
        content = self._content()
        if not self._is_from_here():
            return
        answer = self.server.answers.get(self.path.removeprefix("/"))
        if answer is None:
            self._refuse(HTTPStatus.NOT_FOUND, f"There is no {self.path}")
        elif self.headers.get_content_type() != _JSON:
            # A form of another site can send any other type unasked.
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Expected {_JSON}")
        elif len(content) > _MOST_BYTES:
            message = f"Expected at most {_MOST_BYTES:,} bytes"
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
        else:
            self._answer(answer, content)

    def _content(self) -> bytes:
        """The body, or one byte more than it may have.

        It is read to its end: whoever still sends sees no answer.
        """
        size = self.headers.get("Content-Length", "")
        left = int(size) if size.isdecimal() else 0
        content = self.rfile.read(min(left, _MOST_BYTES + 1))
        left -= len(content)
        while left > 0 and (dropped := self.rfile.read(min(left, _MOST_BYTES))):
            left -= len(dropped)
        return content

    def _answer(self, answer: Answer, content: bytes) -> None:
        try:
            with self.server.one_at_a_time:
                found = answer(**json.loads(content))
        except (ValueError, TypeError) as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        else:
            self._send_json(HTTPStatus.OK, found)

    def _is_from_here(self) -> bool:
        """Refuses names that another site has made to mean this machine."""
        port = self.server.server_address[1]
        known = {f"{name}:{port}" for name in (HOST, "localhost")}
        if self.headers.get("Host") in known:
            return True
        self._refuse(HTTPStatus.FORBIDDEN, f"Ask http://{HOST}:{port}")
        return False

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        self._send_json(status, {"error": message})

    def _send_json(self, status: HTTPStatus, values: Mapping[str, Any]) -> None:
        self._send(status, json.dumps(values).encode(), _JSON)

    def _send(self, status: HTTPStatus, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Requests are no news."""
