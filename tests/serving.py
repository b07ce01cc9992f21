"""A real `penstock serve` process that tests start, call, stop and kill."""

import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import httpx

from tests.waiting import PATIENCE_S

PENSTOCK = [sys.executable, "-m", "penstock.cli.main"]
_START_S = 2 * PATIENCE_S  # the demo stores its events first


def environment(**more: str) -> dict[str, str]:
    """This process's environment and `more`, without any `PENSTOCK_*` of the machine.

    Python may store compiled modules: to compile them takes half of the time of a start.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PENSTOCK_") and name != "PYTHONDONTWRITEBYTECODE"
    }
    return {**inherited, "COLUMNS": "160", **more}


class Served:
    """A running service. url: from its banner. log: the file with all its output.

    program: what runs instead of `penstock`.
    """

    def __init__(
        self,
        data: Path,
        *flags: str,
        command: str = "serve",
        program: Sequence[str] = PENSTOCK,
        descriptors: tuple[int, int] | None = None,
        **settings: str,
    ) -> None:
        """descriptors: soft and hard limit of open files."""
        data.parent.mkdir(parents=True, exist_ok=True)
        self.data = data
        self.log = data.parent / f"{data.name}-{time.monotonic_ns()}.log"
        # A page or a report that is read right after events were sent must not miss them.
        settings = {"PENSTOCK_FRESH_WAIT_S": str(PATIENCE_S), **settings}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*program, command, "--port", "0", "--data", str(data), *flags],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=environment(**settings),
                preexec_fn=None
                if descriptors is None
                else partial(resource.setrlimit, resource.RLIMIT_NOFILE, descriptors),
            )
        self.url = self._await_banner()
        self.client = httpx.Client(base_url=self.url, timeout=PATIENCE_S)

    def first_account(self) -> tuple[str, str]:
        """Sign up on a new service. Returns an API key and the ID of a website."""
        form = {
            "email": "owner@example.com",
            "password": "correct horse battery",
            "workspaceName": "Acme",
        }
        assert self.client.post("/api/auth/signup", json=form).status_code == 201
        key = self.client.post("/api/settings/api-keys", json={"name": "tests"}).json()["key"]
        self.client.cookies.clear()
        self.client.headers["Authorization"] = f"Bearer {key}"
        return key, self.client.post(
            "/api/settings/websites", json={"name": "Shop", "kind": "web"}
        ).json()["id"]

    def output(self) -> str:
        return self.log.read_text("utf-8")

    def _await_banner(self) -> str:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            if banner := re.search(r"^Penstock \S+ serves (\S+)$", self.output(), re.MULTILINE):
                return banner[1]
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        self.kill()
        raise AssertionError(f"the service did not start:\n{self.output()}")

    def stop(self) -> int:
        """Send SIGTERM, as a service manager does. Returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=PATIENCE_S)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.process.kill()
        self.process.wait(timeout=PATIENCE_S)

    def __enter__(self) -> "Served":
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        if self.process.poll() is None:
            self.kill()


def penstock(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    return subprocess.run(
        [*PENSTOCK, *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=environment(**settings),
        timeout=PATIENCE_S,
    )
