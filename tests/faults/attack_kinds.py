"""Ways to use up what tenants share: bodies, files and questions that cost little to send.

Each was found by somebody who attacked Penstock. The table `ATTACKS` has them all.
"""

import gzip
import json
import time
from collections.abc import Callable
from functools import cache
from io import BytesIO
from typing import Any, NamedTuple

import httpx
import pyarrow as pa
import pyarrow.parquet
from backports import zstd

_SIZE = 10_000_000
_POLL_S = 0.02
_IMPORTS = "/api/imports"
_EVENT = {"type": "event", "name": "e", "timestamp": "2024-05-01T10:00:00Z", "visitorId": "v"}


class Attacker(NamedTuple):
    """A workspace that attacks. client: sends its API key. stranger: sends none."""

    client: httpx.Client
    stranger: httpx.Client
    website_id: str


class Attack(NamedTuple):
    """send: sends one request, and returns its outcome. prepare: runs once for each attacker."""

    send: Callable[[Attacker], str]
    prepare: Callable[[Attacker], None] = lambda _: None


def _post(path: str, body: Callable[[str], bytes]) -> Attack:
    """A compressed body without a key. body: builds it for a website ID."""
    build = cache(lambda website_id: gzip.compress(body(website_id)))

    def send(attacker: Attacker) -> str:
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        answer = attacker.stranger.post(path, content=build(attacker.website_id), headers=headers)
        return str(answer.status_code)

    return Attack(send)


def _listed(name: str, item: bytes) -> Callable[[str], bytes]:
    """Return a function that builds a body with as many equal items as fit into it."""

    def body(website_id: str) -> bytes:
        head = b'{"writeKey":"%s",' % website_id.encode() if name == "batch" else b"{"
        items = b",".join([item] * (_SIZE // (len(item) + 1)))
        return head + b'"%s":[%s]}' % (name.encode(), items)

    return body


def _beside(website_id: str) -> bytes:
    """Build a body with empty objects in a field that the route does not know."""
    return b'{"websiteId":"%s","events":[{}],"junk":[%s0]}' % (
        website_id.encode(),
        b"{}," * (_SIZE // 3),
    )


def _event_with(website_id: str, field: bytes) -> bytes:
    head = json.dumps({**_EVENT, "websiteId": website_id}, separators=(",", ":")).encode()[:-1]
    return head + b"," + field + b"}"


def _one_item(website_id: str) -> bytes:
    """Build a body with one event that has a property with many empty objects."""
    return _event_with(website_id, b'"properties":{"a":[%s0]}' % (b"{}," * (_SIZE // 3)))


def _wide_items(website_id: str, *, items: int = 1000, lists: int = 3_200) -> bytes:
    """Build a body with many events. Each is below the size limit and has many empty lists."""
    item = _event_with(website_id, b'"properties":{"x":[%s0]}' % (b"[]," * lists))
    return b'{"events":[%s]}' % b",".join([item] * items)


def _file(
    build: Callable[[], bytes],
    media_type: str = "application/x-ndjson",
    *,
    encoding: str | None = None,
    waits: bool = True,
    **query: str,
) -> Attack:
    """An import. waits: whether to wait until it has ended. query: more parameters."""
    content = cache(build)

    def send(attacker: Attacker) -> str:
        headers = {"Content-Type": media_type}
        if encoding is not None:
            headers["Content-Encoding"] = encoding
        params = {"websiteId": attacker.website_id, **query}
        answer = attacker.client.post(_IMPORTS, params=params, content=content(), headers=headers)
        if answer.status_code != 201 or not waits:
            return str(answer.status_code)
        return ended(attacker.client, answer.json())

    return Attack(send)


def ended(client: httpx.Client, job: dict[str, Any]) -> str:
    """Wait until an import has ended. Returns its state."""
    while job["state"] in ("queued", "running"):
        time.sleep(_POLL_S)
        job = client.get(f"{_IMPORTS}/{job['id']}").raise_for_status().json()
    return str(job["state"])


def line(**fields: Any) -> bytes:
    """Build a line of an import."""
    return json.dumps({**_EVENT, **fields}, separators=(",", ":")).encode() + b"\n"


def _dense_lines() -> bytes:
    """Build 24 KB that decompress to 4,000 lines of 21,700 empty lists."""
    text = line(properties={"x": "LISTS"}).replace(b'"LISTS"', b"[" + b"[]," * 21_699 + b"[]]")
    return zstd.compress(text * 4_000, options={zstd.CompressionParameter.compression_level: 19})


def _far_window() -> bytes:
    """Build a Zstandard file whose window of 128 MB a reader must keep in memory."""
    options = {
        zstd.CompressionParameter.compression_level: 3,
        zstd.CompressionParameter.window_log: 27,
        zstd.CompressionParameter.enable_long_distance_matching: 1,
    }
    return zstd.compress(line() * 1_800_000, options=options)


def _equal_keys() -> bytes:
    """Build a Parquet file of 2,000 rows, each a map with 20,000 equal keys."""
    entries = [[("k", 1)] * 20_000]
    maps = pa.array(entries, pa.map_(pa.string(), pa.int64())).take([0] * 2_000)
    plain = {name: [value] * 2_000 for name, value in _EVENT.items()}
    file = BytesIO()
    pyarrow.parquet.write_table(pa.table({**plain, "properties": maps}), file, compression="zstd")
    return file.getvalue()


_LETTERS = "ab" * 2_000


def _letters(attacker: Attacker) -> None:
    """Store 6,000 events whose text has 4,000 letters."""
    event = {"websiteId": attacker.website_id, "event": "e", "userId": "u"}
    for _ in range(15):
        events = [{**event, "properties": {"t": _LETTERS}} for _ in range(400)]
        attacker.client.post("/api/v1/events/batch", json={"events": events}).raise_for_status()


def _ask(patterns: int, pattern: str) -> Callable[[Attacker], str]:
    """Return a function that asks for a report with filters by regular expressions."""
    each = {"property": "t", "operator": "matches_regex"}
    filters = [{**each, "value": f"{pattern}|{number}"} for number in range(patterns)]
    groups = [filters[at : at + 20] for at in range(0, patterns, 20)]
    steps = [{"type": "Event", "value": "e", "filters": group} for group in groups]
    definition = {"name": "f", "steps": [*steps, {"type": "Event", "value": "f"}]}

    def send(attacker: Attacker) -> str:
        answer = attacker.client.post("/api/funnels/preview", json=definition)
        return str(answer.status_code)

    return send


_EMPTY_MEMBER = gzip.compress(b"", mtime=0)

ATTACKS = {
    "empty objects": _post("/api/track", _listed("events", b"{}")),
    "small objects": _post("/api/track", _listed("events", b'{"":{}}')),
    "empty calls": _post("/v1/batch", _listed("batch", b"{}")),
    "small calls": _post("/v1/batch", _listed("batch", b'{"":{}}')),
    "one wide item": _post("/api/track", _one_item),
    "unknown field": _post("/api/track", _beside),
    "wide items": _post("/api/track", _wide_items),
    "many lists": _post("/api/track", lambda site: _wide_items(site, items=150, lists=20_000)),
    "patterns": Attack(_ask(100, r"(\pL{30}){25}")),
    "costly pattern": Attack(_ask(1, "[ab]*a[ab]{900}c"), _letters),
    "file: members": _file(
        lambda: gzip.compress(line()) + _EMPTY_MEMBER * 105_000, encoding="gzip"
    ),
    "file: lines": _file(lambda: gzip.compress(line() + b"\n" * 30_000_000, 1), encoding="gzip"),
    "file: dense": _file(_dense_lines, "application/zstd"),
    "file: window": _file(_far_window, "application/zstd"),
    "file: maps": _file(_equal_keys, "application/vnd.apache.parquet"),
    "file: waiting": _file(lambda: line() * 400_000, waits=False, dryRun="true"),
}
SEVEN = (
    *("many lists", "patterns", "costly pattern"),
    *("file: dense", "file: window", "file: maps", "file: waiting"),
)
"""The attacks on a machine with 2 GB, all at once."""
