"""Starts servers for benchmarks: the service from this commit or an older one, and plain
servers.
"""

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import httpx
from tests.serving import environment

Result = TypeVar("Result")
ROOT = Path(__file__).parents[1]
_BANNER = re.compile(r"^Penstock \S+ serves (\S+)$", re.MULTILINE)
_WAIT_S = 60
_SETTINGS = {
    # The limits are high, because all clients share one address here.
    "PENSTOCK_ADDRESS_REQUESTS_PER_SECOND": "1000000",
    "PENSTOCK_WEBSITE_EVENTS_PER_SECOND": "1000000",
    "PENSTOCK_DAILY_EVENTS": "1000000000",
}


class Service(NamedTuple):
    """A running service."""

    url: str
    pid: int


class Account(NamedTuple):
    """The first account of a service. key: an API key."""

    key: str
    website_id: str


@contextmanager
def penstock(data: Path, source: Path = ROOT, **settings: str) -> Iterator[Service]:
    """Run a service with its own data folder. source: a checkout.

    settings: environment variables. If they include `TEST_LIMITS`, `tests.limited` runs instead.
    """
    module = "tests.limited" if "TEST_LIMITS" in settings else "penstock.cli.main"
    log = data.with_suffix(".log")
    path = os.pathsep.join([str(source / "src"), str(source)])
    command = [sys.executable, "-m", module, "serve", "--port", "0"]
    with log.open("w") as output:
        options = {
            "stdout": output,
            "stderr": subprocess.STDOUT,
            "env": environment(**_SETTINGS, **settings, PYTHONPATH=path),
        }
        with process([*command, "--data", str(data)], cwd=source, **options) as pid:
            banner = wait_for(lambda: _BANNER.search(log.read_text()))
            yield Service(banner[1], pid)


def sign_up(url: str, kind: str = "web") -> Account:
    """Create the first account, an API key and a website or app."""
    with signed_in(url) as client:
        key = create(client, "/api/settings/api-keys", {"name": "bench"})["key"]
        website = create(client, "/api/settings/websites", {"name": "Bench", "kind": kind})
        return Account(key, website["id"])


@contextmanager
def signed_in(url: str) -> Iterator[httpx.Client]:
    """Yield a client with a session. Creates the first account."""
    with httpx.Client(base_url=url, timeout=60) as client:
        form = {
            "email": "bench@example.com",
            "password": "correct horse battery",
            "workspaceName": "Bench",
        }
        client.post("/api/auth/signup", json=form).raise_for_status()
        yield client


def create(client: httpx.Client, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Create a record with a POST, and return it."""
    record: dict[str, Any] = client.post(path, json=body).raise_for_status().json()
    return record


@contextmanager
def plain_server(program: str) -> Iterator[str]:
    """Run a Python program that serves on a given port. Yields its URL."""
    port = free_port()
    with process([sys.executable, "-c", program, str(port)]):
        url = f"http://127.0.0.1:{port}"
        wait_for(lambda: responds(url))
        yield url


def responds(url: str) -> bool:
    """Whether a server answers, whatever the status."""
    try:
        httpx.get(url)
    except httpx.TransportError:
        return False
    return True


def wait_for(find: Callable[[], Result | None]) -> Result:
    """Wait until `find` has a result, and return it."""
    deadline = time.monotonic() + _WAIT_S
    while time.monotonic() < deadline:
        if result := find():
            return result
        time.sleep(0.02)
    raise RuntimeError("a server did not start")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def process(command: list[str], **options: Any) -> Iterator[int]:
    """Run a process until the context ends. Yields its ID."""
    process = subprocess.Popen(command, **options)
    try:
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
