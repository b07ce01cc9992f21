"""Measures another workspace's calls, and the service's memory, during an attack."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import httpx

from tests.records import new_key
from tests.serving import Served


def memory_mb(service: Served, name: str) -> float:
    """Return the memory in MB. name: VmRSS for current resident memory, VmHWM for its peak."""
    lines = Path(f"/proc/{service.process.pid}/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


def cpu_s(service: Served) -> float:
    fields = Path(f"/proc/{service.process.pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def repeated(call: Callable[[], object], pause_s: float) -> Iterator[list[float]]:
    """Call `call` repeatedly in a thread. Yields the durations of the calls in seconds.

    Raises the error of a call that failed.
    """
    seconds, errors, stop = list[float](), list[BaseException](), Event()

    def repeat() -> None:
        while not (errors or stop.wait(pause_s)):
            began_s = time.perf_counter()
            try:
                call()
            except BaseException as error:
                errors.append(error)
            seconds.append(time.perf_counter() - began_s)

    thread = Thread(target=repeat)
    thread.start()
    try:
        yield seconds
    finally:
        stop.set()
        thread.join()
    for error in errors:
        raise error


def post_event(client: httpx.Client, website_id: str) -> None:
    event = {"websiteId": website_id, "event": "e", "userId": "u"}
    assert client.post("/api/v1/events", json=event).status_code == 202


def sign_up(service: Served, name: str) -> tuple[str, str]:
    """Create another workspace. Returns its API key and website ID."""
    form = {
        "email": f"{name}@example.com",
        "password": "correct horse battery",
        "workspaceName": name,
    }
    with httpx.Client(base_url=service.url, timeout=60) as browser:
        assert browser.post("/api/auth/signup", json=form).status_code == 201
        key = new_key(browser)
        website = browser.post("/api/settings/websites", json={"name": name, "kind": "web"})
        return str(key), str(website.json()["id"])


def client_of(service: Served, address: str, key: str | None) -> httpx.Client:
    headers = {"X-Forwarded-For": address}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    return httpx.Client(base_url=service.url, headers=headers, timeout=1_800)
