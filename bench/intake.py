"""Rate of single events, stored durably, beside the same framework with an empty handler.

Both servers are one process of Litestar on uvicorn with uvloop and httptools, and get the same
requests from `wrk`, in turn. An event is on disk before the response: in the metadata DB with its
dedupe key and visitor. Shipping to the warehouse continues.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from bench.rounds import Comparison, compare

CONNECTIONS = 256
SECONDS = 4
ROUNDS = 7
TARGET = 0.5
_SCRIPT = Path(__file__).with_suffix(".lua")

EMPTY_APP = """
import sys, uvicorn
from litestar import Litestar, post

@post("/api/v1/events", status_code=202)
async def empty() -> dict[str, str]:
    return {"status": "accepted"}

uvicorn.run(Litestar([empty], openapi_config=None, logging_config=None), port=int(sys.argv[1]),
            loop="uvloop", http="httptools", access_log=False, log_level="warning")
"""


def run(seconds: int = SECONDS, rounds: int = ROUNDS) -> Comparison:
    """Data of earlier rounds remain, so that later rounds search more."""
    if shutil.which("wrk") is None:
        raise SystemExit("the intake benchmark needs wrk (Debian: apt install wrk)")
    results: dict[str, list[dict[str, float]]] = {"empty": [], "durable": []}
    with (
        tempfile.TemporaryDirectory() as folder,
        _empty_server() as empty,
        penstock(Path(folder) / "data") as ours,
    ):
        key, website_id = _workspace(ours)
        for round_number in range(rounds):
            for name, url in (("empty", empty), ("durable", ours)):
                results[name].append(_load(url, key, website_id, f"{name}-{round_number}", seconds))
    return compare(results, CONNECTIONS, ours="durable", bare="empty")


def _load(url: str, key: str, website_id: str, prefix: str, seconds: int) -> dict[str, float]:
    output = subprocess.run(
        ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", "-s", str(_SCRIPT), url],
        env={**os.environ, "BENCH_KEY": key, "BENCH_WEBSITE": website_id, "BENCH_PREFIX": prefix},
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    figures: dict[str, float] = json.loads(output.splitlines()[-1])
    if figures["refused"] or figures["socket_errors"]:
        raise SystemExit(f"{url} refused requests: {figures}")
    return {**figures, "rate": figures["requests"] / figures["seconds"]}


def _workspace(url: str) -> tuple[str, str]:
    with new_account(url) as client:
        key: str = (
            client.post("/api/settings/api-keys", json={"name": "bench"})
            .raise_for_status()
            .json()["key"]
        )
        website = (
            client.post("/api/settings/websites", json={"name": "Bench", "kind": "web"})
            .raise_for_status()
            .json()
        )
        return key, website["id"]


@contextmanager
def new_account(url: str) -> Iterator[httpx.Client]:
    """A client with the session of the first account."""
    with httpx.Client(base_url=url) as client:
        form = {
            "email": "bench@example.com",
            "password": "correct horse battery",
            "workspaceName": "Bench",
        }
        client.post("/api/auth/signup", json=form).raise_for_status()
        yield client


@contextmanager
def penstock(data: Path) -> Iterator[str]:
    """The URL of a service on its own data folder."""
    log = data.with_suffix(".log")
    with (
        log.open("w") as output,
        process(
            [
                sys.executable,
                "-m",
                "penstock.cli.main",
                "serve",
                "--port",
                "0",
                "--data",
                str(data),
            ],
            stdout=output,
        ),
    ):
        yield wait_for(
            lambda: (
                (match := re.search(r"^Penstock \S+ serves (\S+)$", log.read_text(), re.MULTILINE))
                and match[1]
            )
        )


@contextmanager
def _empty_server() -> Iterator[str]:
    url = "http://127.0.0.1:18473"
    with process([sys.executable, "-c", EMPTY_APP, url.rpartition(":")[2]]):
        yield wait_for(lambda: url if responds(url, 404) else None)


def responds(url: str, status: int) -> bool:
    """Whether a server answers with this status."""
    try:
        return httpx.get(url).status_code == status
    except httpx.TransportError:
        return False


def wait_for(find: Callable[[], str | None]) -> str:
    """The result of `find`, once it has one."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if result := find():
            return result
        time.sleep(0.1)
    raise SystemExit("a server did not start")


@contextmanager
def process(command: list[str], **options: Any) -> Iterator[None]:
    """A program that runs until the context ends."""
    process = subprocess.Popen(command, **options)
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=30)


if __name__ == "__main__":
    print(run())
