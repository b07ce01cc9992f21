"""A real `penstock serve` process that tests start, call, stop and kill."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx

from tests.answers import body_of
from tests.processes import ForkedProcess
from tests.records import new_key, new_website
from tests.waiting import PATIENCE_S, eventually

PENSTOCK = ("penstock.cli.main",)
LIMITED = ("tests.limited",)
Start = Callable[..., ForkedProcess | subprocess.Popen[bytes]]
"""A function that starts a process: `ForkedProcess` or `new_python`."""

_START_S = 2 * PATIENCE_S  # The demo stores its events before it is ready.


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment with `more`, but without the machine's `PENSTOCK_*`
    variables.

    Python may cache compiled modules, because compiling them takes half of the start-up time.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PENSTOCK_") and name != "PYTHONDONTWRITEBYTECODE"
    }
    return {**inherited, "COLUMNS": "160", **more}


def http_client(url: str) -> httpx.Client:
    """Create a client for a service without TLS, because loading certificates takes 24 ms."""
    return httpx.Client(base_url=url, timeout=PATIENCE_S, verify=False)


@cache
def _migrated_data() -> tempfile.TemporaryDirectory[str]:
    """Create a data folder with empty stores. Creating them takes a third of a first start."""
    folder = tempfile.TemporaryDirectory()
    migrated = penstock("migrate", "--data", folder.name)
    assert migrated.returncode == 0, migrated.stderr
    return folder


class Served:
    """A running service. url: its URL, from the banner. log: file with all its output.

    program: a module and its first arguments, to run instead of `penstock`.
    """

    def __init__(
        self,
        data: Path,
        *flags: str,
        command: str = "serve",
        program: Sequence[str] = LIMITED,
        start: Start = ForkedProcess,
        descriptors: tuple[int, int] | None = None,
        migrates: bool = False,
        limits: Mapping[str, float] = MappingProxyType({}),
        key: str | None = None,
        **settings: str,
    ) -> None:
        """descriptors: soft and hard limit of open files. key: an API key, which `client` sends.

        migrates: whether the service itself creates its stores. limits: values for fields of
        `Limits`.
        """
        data.parent.mkdir(parents=True, exist_ok=True)
        if command == "serve" and not (migrates or data.exists()):
            shutil.copytree(_migrated_data().name, data, symlinks=True)
        self.data = data
        self.log = data.parent / f"{data.name}-{time.monotonic_ns()}.log"
        # A page or report that is read right after events were sent must include these events.
        limits = {"fresh_wait_s": PATIENCE_S, **limits}
        module, *first = program
        self.process = start(
            module,
            *first,
            *(command, "--port", "0", "--data", str(data), *flags),
            environment=environment(TEST_LIMITS=json.dumps(limits), **settings),
            stdout=self.log,
            stderr=self.log,
            descriptors=descriptors,
        )
        self.url = self._await_banner()
        self.client = http_client(self.url)
        if key is not None:
            self.client.headers["Authorization"] = f"Bearer {key}"

    def first_account(self) -> tuple[str, str]:
        """Sign up on a new service. Returns an API key and the ID of a website."""
        form = {
            "email": "owner@example.com",
            "password": "correct horse battery",
            "workspaceName": "Acme",
        }
        body_of(self.client.post("/api/auth/signup", json=form), 201)
        key = new_key(self.client)
        self.client.cookies.clear()
        self.client.headers["Authorization"] = f"Bearer {key}"
        return key, new_website(self.client, "Shop")

    def await_shipped(self) -> None:
        """Wait until the event store has all acknowledged events. A stopping service waits at most
        5 s for this.
        """
        eventually(
            lambda: self.client.get("/health/ready").json()["outbox"]["bundles"] == 0,
            within_s=5 * PATIENCE_S,
        )

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
        # The signal makes the service write the stack of each thread.
        self.process.send_signal(signal.SIGUSR2)
        time.sleep(0.5)
        self.kill()
        raise AssertionError(f"the service did not start:\n{self.output()}")

    def stop(self) -> int:
        """Send SIGTERM, like a service manager. Returns the exit code."""
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


def start_until_killed(data: Path, program: Sequence[str], key: str) -> None:
    """Start a service, and wait until it dies, perhaps before it says that it has started."""
    try:
        served = Served(data, program=program, key=key)
    except AssertionError:
        return
    served.client.close()
    assert served.process.wait(timeout=PATIENCE_S) == -signal.SIGKILL


def penstock(
    *arguments: str, start: Start = ForkedProcess, **settings: str
) -> subprocess.CompletedProcess[str]:
    """Run one command and wait until it ends."""
    return run_module(*PENSTOCK, *arguments, start=start, descriptors=None, **settings)


Ended = subprocess.CompletedProcess[str]


def output_of(ended: Ended) -> str:
    """Return the standard output of a command, which must have succeeded."""
    assert ended.returncode == 0, ended.stderr + ended.stdout
    return ended.stdout


def error_of(ended: Ended, code: int = 1) -> str:
    """Return the standard error of a command, which must have failed with this exit code."""
    assert ended.returncode == code, ended.stderr + ended.stdout
    return ended.stderr


def run_module(
    module: str,
    *arguments: str,
    start: Start = ForkedProcess,
    descriptors: tuple[int, int] | None = None,
    **settings: str,
) -> subprocess.CompletedProcess[str]:
    """Run a module like `python -m`, with these settings in its environment, and wait until it
    ends.

    descriptors: soft and hard limit of open files.
    """
    with tempfile.TemporaryDirectory() as folder:
        stdout, stderr = Path(folder, "stdout"), Path(folder, "stderr")
        process = start(
            module,
            *arguments,
            environment=environment(**settings),
            stdout=stdout,
            stderr=stderr,
            descriptors=descriptors,
        )
        try:
            code = process.wait(PATIENCE_S)
        finally:
            process.kill()
        return subprocess.CompletedProcess(
            [module, *arguments], code, stdout.read_text("utf-8"), stderr.read_text("utf-8")
        )


def query_warehouse(data: Path, *statements: str) -> list[list[list[Any]]]:
    """Run statements on the embedded event store of a stopped service. Returns the rows of each."""
    run = run_module("tests.query_warehouse", str(data), *statements)
    assert run.returncode == 0, run.stderr
    results: list[list[list[Any]]] = json.loads(run.stdout)
    return results
