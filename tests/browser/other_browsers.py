"""Firefox by Marionette and WebKitGTK by WebDriver: what Playwright cannot drive as Debian has it.

`make browsers` installs them. A page of each goes to an address and runs scripts.
"""

import json
import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from tests.waiting import PATIENCE_S, eventually

Json = dict[str, Any]


class Program:
    """A browser, its driver or its display, until `close`."""

    def __init__(self, *command: str, **options: Any) -> None:
        """options: of `Popen`."""
        silent = subprocess.DEVNULL
        self._process = subprocess.Popen(command, stdout=silent, stderr=silent, **options)

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Firefox:
    """A page of Firefox. Source: Marionette's protocol, `length:[type, ID, command, values]`."""

    @staticmethod
    def program() -> str | None:
        return shutil.which("firefox-esr") or shutil.which("firefox")

    def __init__(self) -> None:
        program = self.program()
        assert program is not None
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        profile = Path(self._profile.name)
        (profile / "user.js").write_text('user_pref("marionette.port", 0);\n')
        self._browser = Program(
            program, "--headless", "--marionette", "--no-remote", "--profile", str(profile)
        )
        port = profile / "MarionetteActivePort"
        eventually(lambda: port.exists() and port.read_text())
        self._socket = socket.create_connection(("127.0.0.1", int(port.read_text())), PATIENCE_S)
        self._stream = self._socket.makefile("rwb")
        self._read()
        self._calls = 0
        session = self._call("WebDriver:NewSession", {})
        self.version = f"Firefox {session['capabilities']['browserVersion']}"

    def goto(self, url: str) -> None:
        self._call("WebDriver:Navigate", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        """Run the body of a function in the page."""
        answer = self._call("WebDriver:ExecuteScript", {"script": script, "args": arguments})
        return answer["value"]

    def close(self) -> None:
        self._socket.close()
        self._browser.close()
        self._profile.cleanup()

    def _call(self, command: str, values: Json) -> Any:
        self._calls += 1
        message = json.dumps([0, self._calls, command, values]).encode()
        self._stream.write(b"%d:%s" % (len(message), message))
        self._stream.flush()
        _, _, error, result = self._read()
        assert error is None, error
        return result

    def _read(self) -> Any:
        length = b""
        while not length.endswith(b":"):
            length += self._stream.read(1)
        return json.loads(self._stream.read(int(length[:-1])))


class WebKit:
    """A page of WebKitGTK's MiniBrowser, on a display of its own. Source: W3C WebDriver."""

    @staticmethod
    def program() -> str | None:
        """The browser, if its driver and a display are there too."""
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
    """The number of a display without a screen, and its server."""
    reading, writing = os.pipe()
    server = Program("Xvfb", "-displayfd", str(writing), pass_fds=[writing])
    os.close(writing)
    with os.fdopen(reading) as numbers:
        return numbers.readline().strip(), server
