"""Drives Firefox over WebDriver BiDi, and WebKitGTK over WebDriver. Playwright supports neither of
them on Debian.

`make browsers` installs them. `Firefox` and `WebKit` each open URLs and run scripts in one page.
"""

import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
from base64 import b64encode
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from tests.waiting import PATIENCE_S, eventually

Json = dict[str, Any]


class Program:
    """A browser, driver or display that runs until `close`."""

    def __init__(self, *command: str, **options: Any) -> None:
        """options: passed to `Popen`."""
        silent = subprocess.DEVNULL
        self._process = subprocess.Popen(command, stdout=silent, stderr=silent, **options)

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class WebSocket:
    """Sends and receives text messages shorter than 64 KB. Source: RFC 6455."""

    def __init__(self, port: int, path: str) -> None:
        """port: a port on this machine."""
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self._stream = self._socket.makefile("rwb")
        key = b64encode(os.urandom(16)).decode()
        headers = (
            f"GET {path} HTTP/1.1",
            f"Host: 127.0.0.1:{port}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {key}",
        )
        self._write("".join(f"{line}\r\n" for line in (*headers, "")).encode())
        answer = list(iter(self._stream.readline, b"\r\n"))
        assert b" 101 " in answer[0], answer

    def send(self, text: str) -> None:
        data, mask = text.encode(), b"\1" * 4  # Firefox rejects an all-zero mask.
        size = len(data)
        header = struct.pack(">BB", 0x81, 0x80 | min(size, 126))
        long_size = struct.pack(">H", size) if size > 125 else b""
        self._write(header + long_size + mask + bytes(byte ^ 1 for byte in data))

    def receive(self) -> str:
        _, size = self._stream.read(2)
        if size > 125:
            kind = ">H" if size == 126 else ">Q"
            [size] = struct.unpack(kind, self._stream.read(struct.calcsize(kind)))
        return self._stream.read(size).decode()

    def close(self) -> None:
        self._socket.close()

    def _write(self, data: bytes) -> None:
        self._stream.write(data)
        self._stream.flush()


CALL = "(values) => JSON.stringify((function () { %s }).apply(null, JSON.parse(values)) ?? null)"


class Firefox:
    """A page of Firefox. Source: W3C WebDriver BiDi."""

    @staticmethod
    def program() -> str | None:
        return shutil.which("firefox-esr") or shutil.which("firefox")

    def __init__(self) -> None:
        program = self.program()
        assert program is not None
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._browser = Program(
            program, "--headless", "--remote-debugging-port=0", "--no-remote",
            "--profile", self._profile.name,
        )  # fmt: skip
        server = Path(self._profile.name) / "WebDriverBiDiServer.json"
        eventually(lambda: server.exists() and server.read_text())
        self._socket = WebSocket(json.loads(server.read_text())["ws_port"], "/session")
        self._commands = 0
        session = self._command("session.new", capabilities={})
        self.version = f"Firefox {session['capabilities']['browserVersion']}"
        self._page: str = self._command("browsingContext.getTree")["contexts"][0]["context"]

    def goto(self, url: str) -> None:
        self._command("browsingContext.navigate", context=self._page, url=url, wait="complete")

    def run(self, script: str, *arguments: Any) -> Any:
        """Run the body of a function in the page."""
        answer = self._command(
            "script.callFunction",
            functionDeclaration=CALL % script,
            arguments=[{"type": "string", "value": json.dumps(arguments)}],
            target={"context": self._page},
            awaitPromise=False,
        )
        assert answer["type"] == "success", answer
        return json.loads(answer["result"]["value"])

    def close(self) -> None:
        self._socket.close()
        self._browser.close()
        self._profile.cleanup()

    def _command(self, method: str, **params: Any) -> Any:
        self._commands += 1
        self._socket.send(json.dumps({"id": self._commands, "method": method, "params": params}))
        answer: Json = {}
        while answer.get("id") != self._commands:  # Other messages are events.
            answer = json.loads(self._socket.receive())
        assert answer["type"] == "success", answer
        return answer["result"]


class WebKit:
    """A page of WebKitGTK's MiniBrowser on a separate display. Source: W3C WebDriver."""

    @staticmethod
    def program() -> str | None:
        """The path of the browser; None unless the browser, its driver and a virtual display are
        installed.
        """
        browsers = Path("/usr").glob("lib*/*/webkit*/MiniBrowser")
        has_rest = shutil.which("WebKitWebDriver") and shutil.which("Xvfb")
        return next(map(str, sorted(browsers)), None) if has_rest else None

    def __init__(self) -> None:
        program = self.program()
        assert program is not None
        number, self._display = _new_display()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self._driver = Program(
            "WebKitWebDriver",
            f"--port={port}",
            env={**os.environ, "DISPLAY": f":{number}"},
        )
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S)
        eventually(self._is_ready)
        options = {"binary": program, "args": ["--automation"]}
        capabilities = {"alwaysMatch": {"webkitgtk:browserOptions": options}}
        session = self._post("/session", {"capabilities": capabilities})
        self._session = f"/session/{session['sessionId']}"
        self.version = f"WebKitGTK {session['capabilities']['browserVersion']}"

    def goto(self, url: str) -> None:
        self._post(f"{self._session}/url", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        """Run the body of a function in the page."""
        return self._post(f"{self._session}/execute/sync", {"script": script, "args": arguments})

    def close(self) -> None:
        with suppress(httpx.HTTPError):
            self._http.delete(self._session)
        self._http.close()
        self._driver.close()
        self._display.close()

    def _is_ready(self) -> bool:
        with suppress(httpx.HTTPError):
            return self._http.get("/status").is_success
        return False

    def _post(self, path: str, values: Json) -> Any:
        answer = self._http.post(path, json=values)
        assert answer.status_code == 200, answer.text
        return answer.json()["value"]


def _new_display() -> tuple[str, Program]:
    """Start a new virtual display. Returns its number and its server."""
    reading, writing = os.pipe()
    server = Program("Xvfb", "-displayfd", str(writing), pass_fds=[writing])
    os.close(writing)
    with os.fdopen(reading) as numbers:
        return numbers.readline().strip(), server
