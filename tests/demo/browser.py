"""Headless Chromium by the WebDriver protocol, without a package for it."""

import base64
import contextlib
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
# The key of an element's id in the protocol.
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
_SECONDS = 60


def is_there():
    return bool(
        shutil.which("chromedriver")
        and (shutil.which("chromium") or shutil.which("google-chrome"))
    )


class Browser:
    """A window, and what a person does in it."""

    def __init__(self, session):
        self._session = session

    def ask(self, path, method="POST", **values):
        return _request(f"{self._session}{path}", method, values)

    def open(self, address):
        self.ask("/url", url=address)

    def run(self, script):
        """The value of a script's `return`."""
        return self.ask("/execute/sync", script=script, args=[])

    def wait(self, condition):
        """Waits until a JavaScript expression is true; returns its value."""
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            value = self.run(f"return {condition}")
            if value:
                return value
            time.sleep(0.05)
        raise AssertionError(f"never: {condition}")

    def click(self, selector):
        self.ask(f"/element/{self._find(selector)}/click")

    def type(self, selector, text):
        self.ask(f"/element/{self._find(selector)}/clear")
        self.ask(f"/element/{self._find(selector)}/value", text=text)

    def text(self, selector):
        return self.ask(f"/element/{self._find(selector)}/text", "GET")

    def screenshot(self):
        return base64.b64decode(self.ask("/screenshot", "GET"))

    def _find(self, selector):
        return self.ask("/element", using="css selector", value=selector)[_ELEMENT]


@contextlib.contextmanager
def started(profile, width=1280, height=1000):
    """A browser with an empty profile folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    driver = subprocess.Popen(
        ["chromedriver", f"--port={port}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    server = f"http://127.0.0.1:{port}"
    try:
        _wait_for(server)
        arguments = [
            *ARGUMENTS,
            f"--user-data-dir={profile}",
            f"--window-size={width},{height}",
        ]
        options = {"goog:chromeOptions": {"args": arguments}}
        made = _request(
            f"{server}/session",
            "POST",
            {"capabilities": {"alwaysMatch": options}},
        )
        session = f"{server}/session/{made['sessionId']}"
        try:
            yield Browser(session)
        finally:
            _request(session, "DELETE", {})
    finally:
        driver.terminate()
        driver.wait()


def _wait_for(server):
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if _request(f"{server}/status", "GET", {})["ready"]:
                return
        time.sleep(0.05)
    raise AssertionError("chromedriver does not start")


def _request(address, method, values):
    content = json.dumps(values).encode() if method == "POST" else None
    request = urllib.request.Request(
        address,
        content,
        {"Content-Type": "application/json"},
        method=method,
    )
    # Not by a proxy, whatever the environment names.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=_SECONDS) as response:
            return json.load(response)["value"]
    except urllib.error.HTTPError as error:
        with error:
            raise AssertionError(error.read().decode()[:500]) from error
