"""What bodies of strangers cost a service: `python -m tests.faults.attacks [NAME ...]`.

Each attack sends eight bodies, two at a time, to a service of its own, while another workspace
posts an event every 20 ms. A line for each run shows how much resident memory rose, afterwards and
at its peak, the CPU time, and the slowest post of the other workspace; first without an attack.
BODIES=1000 sends more bodies, RUNS=1 repeats less.
"""

import gzip
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

import httpx

from tests import scratch
from tests.processes import new_python
from tests.serving import Served

_SIZE = 10_000_000
_AT_ONCE = 2
_PAUSE_S = 0.02
_SETTLE_S = 2.0


class Attack(NamedTuple):
    """path: of the route. body: before compression, for the public ID of a website."""

    path: str
    body: Callable[[str], bytes]


def _listed(name: str, item: bytes, *, count: int = 0) -> Callable[[str], bytes]:
    """A body with a list of equal items. count: by default as many as fit."""

    def body(website_id: str) -> bytes:
        head = b'{"writeKey":"%s",' % website_id.encode() if name == "batch" else b"{"
        items = b",".join([item] * (count or _SIZE // (len(item) + 1)))
        return head + b'"%s":[%s]}' % (name.encode(), items)

    return body


def _beside(website_id: str) -> bytes:
    """Empty objects in a field that the route does not know."""
    return b'{"websiteId":"%s","events":[{}],"junk":[%s0]}' % (
        website_id.encode(),
        b"{}," * (_SIZE // 3),
    )


def _one_item(website_id: str) -> bytes:
    """One event with a property of many empty objects."""
    event = {"websiteId": website_id, "type": "event", "name": "e", "visitorId": "v"}
    head = json.dumps(event, separators=(",", ":")).encode()[:-1]
    return head + b',"properties":{"a":[%s0]}}' % (b"{}," * (_SIZE // 3))


def _wide_items(website_id: str) -> bytes:
    """As many events as a batch may have, each below its limit, with many empty lists."""
    event = {"websiteId": website_id, "type": "event", "name": "e", "visitorId": "v"}
    head = json.dumps(event, separators=(",", ":")).encode()[:-1]
    item = head + b',"x":[%s0]}' % (b"[]," * 3_200)
    return b'{"events":[%s]}' % b",".join([item] * 1000)


ATTACKS = {
    "empty objects": Attack("/api/track", _listed("events", b"{}")),
    "small objects": Attack("/api/track", _listed("events", b'{"":{}}')),
    "empty calls": Attack("/v1/batch", _listed("batch", b"{}")),
    "small calls": Attack("/v1/batch", _listed("batch", b'{"":{}}')),
    "one wide item": Attack("/api/track", _one_item),
    "unknown field": Attack("/api/track", _beside),
    "wide items": Attack("/api/track", _wide_items),
    "gzip members": Attack("/api/track", lambda _: b""),
}


def _compressed(name: str, website_id: str) -> bytes:
    if name == "gzip members":
        return gzip.compress(b"", mtime=0) * 100_000
    return gzip.compress(ATTACKS[name].body(website_id))


def _memory_mb(service: Served, name: str) -> float:
    """VmRSS: resident memory now. VmHWM: the most so far."""
    lines = Path(f"/proc/{service.process.pid}/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


def _cpu_s(service: Served) -> float:
    fields = Path(f"/proc/{service.process.pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _neighbour(service: Served, key: str, website_id: str) -> Iterator[list[float]]:
    """Another workspace posts events. Yields the seconds of each post."""
    seconds, stop = list[float](), Event()

    def post() -> None:
        headers = {"Authorization": f"Bearer {key}", "X-Forwarded-For": "198.51.100.1"}
        with httpx.Client(base_url=service.url, headers=headers, timeout=120) as client:
            event = {"websiteId": website_id, "event": "e", "userId": "u"}
            while not stop.wait(_PAUSE_S):
                began_s = time.perf_counter()
                assert client.post("/api/v1/events", json=event).status_code == 202
                seconds.append(time.perf_counter() - began_s)

    thread = Thread(target=post)
    thread.start()
    try:
        yield seconds
    finally:
        stop.set()
        thread.join()


def _attacked_website(service: Served) -> str:
    """The public ID of a website of another workspace than the neighbour's."""
    form = {"email": "b@example.com", "password": "correct horse battery", "workspaceName": "B"}
    with httpx.Client(base_url=service.url, timeout=60) as browser:
        assert browser.post("/api/auth/signup", json=form).status_code == 201
        website = browser.post("/api/settings/websites", json={"name": "B", "kind": "web"})
        return str(website.json()["id"])


def run(name: str | None, bodies: int) -> str:
    """A line with the figures of one run. name: None without an attack."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-attack-"))
    with Served(folder / "data", start=new_python, PENSTOCK_SIGNUP_OPEN="true") as service:
        key, neighbour_id = service.first_account()
        website_id = _attacked_website(service)
        body = b"" if name is None else _compressed(name, website_id)
        headers = {
            "Content-Type": "application/json",
            "Content-Encoding": "gzip",
            "X-Forwarded-For": "203.0.113.1",
        }
        with (
            _neighbour(service, key, neighbour_id) as seconds,
            httpx.Client(base_url=service.url, headers=headers, timeout=600) as attacker,
        ):
            time.sleep(_SETTLE_S)
            before_mb, before_s = _memory_mb(service, "VmRSS"), _cpu_s(service)
            seconds.clear()
            statuses = Counter[int]()
            began_s = time.perf_counter()
            if name is None:
                time.sleep(_SETTLE_S)
            else:
                path = ATTACKS[name].path
                with ThreadPoolExecutor(_AT_ONCE) as pool:
                    answers = pool.map(
                        lambda _: attacker.post(path, content=body).status_code, range(bodies)
                    )
                    statuses.update(answers)
            took_s = time.perf_counter() - began_s
            cpu_s, posts = _cpu_s(service) - before_s, sorted(seconds)
            time.sleep(_SETTLE_S)
            after_mb = _memory_mb(service, "VmRSS") - before_mb
            peak_mb = _memory_mb(service, "VmHWM") - before_mb
    return (
        f"{name or 'no attack':14} {len(body):>9,} bytes {took_s:7.1f} s"
        f" {cpu_s:7.2f} CPU s  +{after_mb:5.0f} MB after  +{peak_mb:5.0f} MB peak"
        f"  slowest post {posts[-1] * 1000:6.0f} ms  median {posts[len(posts) // 2] * 1000:4.0f} ms"
        f"  {dict(statuses)}"
    )


if __name__ == "__main__":
    scratch.use_memory()
    for attack in [None, *(sys.argv[1:] or ATTACKS)]:
        for _ in range(int(os.environ.get("RUNS", "3"))):
            print(run(attack, int(os.environ.get("BODIES", "8"))), flush=True)
