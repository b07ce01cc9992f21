"""Measures what hostile bodies and files cost a service: `python -m tests.faults.attacks [NAME
...]`.

Each attack sends eight bodies, two at a time, to a separate service, while another workspace posts
an event every 20 ms. One line per run shows the growth of resident memory (final and peak), the CPU
time, and the slowest post of the other workspace. The first run has no attack. Import files are
sent with an API key. Their runs last until the files have been read; meanwhile, the other workspace
repeatedly imports a one-line file.

Environment variables: `BODIES=1000` sends more bodies, and `RUNS=1` repeats each attack less often.
"""

import gzip
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import httpx

from tests import scratch
from tests.faults.neighbour import (
    client_of,
    cpu_s,
    memory_mb,
    post_event,
    repeated,
    sign_up,
)
from tests.processes import new_python
from tests.serving import Served

_SIZE = 10_000_000
_AT_ONCE = 2
_PAUSE_S = 0.02
_SETTLE_S = 2.0


class Attack(NamedTuple):
    """One kind of request. path: path of the route. body: creates the body for a website's public
    ID.
    """

    path: str
    body: Callable[[str], bytes]


def _zipped(body: Callable[[str], bytes]) -> Callable[[str], bytes]:
    return lambda website_id: gzip.compress(body(website_id))


def _listed(name: str, item: bytes, *, count: int = 0) -> Callable[[str], bytes]:
    """Return a function that builds a body with a list of equal items.

    count: number of items; by default, as many as fit into the body.
    """

    def body(website_id: str) -> bytes:
        head = b'{"writeKey":"%s",' % website_id.encode() if name == "batch" else b"{"
        items = b",".join([item] * (count or _SIZE // (len(item) + 1)))
        return head + b'"%s":[%s]}' % (name.encode(), items)

    return body


def _beside(website_id: str) -> bytes:
    """Build a body with empty objects in a field that the route does not know."""
    return b'{"websiteId":"%s","events":[{}],"junk":[%s0]}' % (
        website_id.encode(),
        b"{}," * (_SIZE // 3),
    )


def _one_item(website_id: str) -> bytes:
    """Build a body with one event that has a property with many empty objects."""
    event = {"websiteId": website_id, "type": "event", "name": "e", "visitorId": "v"}
    head = json.dumps(event, separators=(",", ":")).encode()[:-1]
    return head + b',"properties":{"a":[%s0]}}' % (b"{}," * (_SIZE // 3))


def _wide_items(website_id: str) -> bytes:
    """Build a body with the maximum number of events. Each is below the size limit and has many
    empty lists.
    """
    event = {"websiteId": website_id, "type": "event", "name": "e", "visitorId": "v"}
    head = json.dumps(event, separators=(",", ":")).encode()[:-1]
    item = head + b',"x":[%s0]}' % (b"[]," * 3_200)
    return b'{"events":[%s]}' % b",".join([item] * 1000)


_EMPTY_MEMBER = gzip.compress(b"", mtime=0)
_LINE = b'{"type":"event","name":"e","timestamp":"2024-05-01T10:00:00Z","visitorId":"v"}\n'
_IMPORTS = "/api/imports"

ATTACKS = {
    "empty objects": Attack("/api/track", _zipped(_listed("events", b"{}"))),
    "small objects": Attack("/api/track", _zipped(_listed("events", b'{"":{}}'))),
    "empty calls": Attack("/v1/batch", _zipped(_listed("batch", b"{}"))),
    "small calls": Attack("/v1/batch", _zipped(_listed("batch", b'{"":{}}'))),
    "one wide item": Attack("/api/track", _zipped(_one_item)),
    "unknown field": Attack("/api/track", _zipped(_beside)),
    "wide items": Attack("/api/track", _zipped(_wide_items)),
    "gzip members": Attack("/api/track", lambda _: _EMPTY_MEMBER * 100_000),
    "file: members": Attack(_IMPORTS, lambda _: gzip.compress(_LINE) + _EMPTY_MEMBER * 105_000),
    "file: lines": Attack(_IMPORTS, lambda _: gzip.compress(_LINE + b"\n" * 30_000_000, 1)),
}


def _import(client: httpx.Client, website_id: str, body: bytes) -> str:
    """Upload a file and wait until it has been read. Returns the state of the import."""
    answer = client.post(
        _IMPORTS,
        params={"websiteId": website_id},
        content=body,
        headers={"Content-Type": "application/x-ndjson"},
    )
    job = answer.raise_for_status().json()
    while job["state"] in ("queued", "running"):
        time.sleep(_PAUSE_S)
        job = client.get(f"{_IMPORTS}/{job['id']}").raise_for_status().json()
    return str(job["state"])


def run(name: str | None, bodies: int) -> str:
    """Measure one run and return a line with the results. name: None for no attack."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-attack-"))
    with Served(folder / "data", start=new_python, PENSTOCK_SIGNUP_OPEN="true") as service:
        key, neighbour_id = service.first_account()
        attacker_key, website_id = sign_up(service, "attacked")
        attack = None if name is None else ATTACKS[name]
        body = b"" if attack is None else attack.body(website_id)
        is_file = attack is not None and attack.path == _IMPORTS
        with (
            client_of(service, "198.51.100.1", key) as neighbour,
            client_of(service, "203.0.113.1", attacker_key if is_file else None) as attacker,
            repeated(lambda: post_event(neighbour, neighbour_id), _PAUSE_S) as posts,
            (
                repeated(lambda: _import(neighbour, neighbour_id, _LINE), _PAUSE_S)
                if is_file
                else nullcontext(list[float]())
            ) as imports,
        ):

            def send(_: int) -> str:
                assert attack is not None
                if is_file:
                    return _import(attacker, website_id, body)
                headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
                answer = attacker.post(attack.path, content=body, headers=headers)
                return str(answer.status_code)

            time.sleep(_SETTLE_S)
            before_mb, before_s = memory_mb(service, "VmRSS"), cpu_s(service)
            posts.clear()
            imports.clear()
            outcomes = Counter[str]()
            began_s = time.perf_counter()
            if attack is None:
                time.sleep(_SETTLE_S)
            else:
                with ThreadPoolExecutor(_AT_ONCE) as pool:
                    outcomes.update(pool.map(send, range(bodies)))
            took_s = time.perf_counter() - began_s
            used_s, seconds = cpu_s(service) - before_s, sorted(posts)
            time.sleep(_SETTLE_S)
            after_mb = memory_mb(service, "VmRSS") - before_mb
            peak_mb = memory_mb(service, "VmHWM") - before_mb
        slowest_import = f"  slowest import {max(imports) * 1000:6.0f} ms" if imports else ""
    return (
        f"{name or 'no attack':14} {len(body):>9,} bytes {took_s:7.1f} s"
        f" {used_s:7.2f} CPU s  +{after_mb:5.0f} MB after  +{peak_mb:5.0f} MB peak"
        f"  slowest post {seconds[-1] * 1000:6.0f} ms"
        f"  median {seconds[len(seconds) // 2] * 1000:4.0f} ms{slowest_import}"
        f"  {dict(outcomes)}"
    )


if __name__ == "__main__":
    scratch.use_memory()
    for attack in [None, *(sys.argv[1:] or ATTACKS)]:
        for _ in range(int(os.environ.get("RUNS", "3"))):
            print(run(attack, int(os.environ.get("BODIES", "8"))), flush=True)
