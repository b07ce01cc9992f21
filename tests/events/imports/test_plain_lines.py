"""A plain line is read in one step, and any other line takes the full path. Both store the same."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from penstock.app import Services
from penstock.events.imports import entries
from penstock.events.repeats.model import event_id_of
from tests.answers import body_of
from tests.events.conftest import Import
from tests.events.event_keys import all_keys
from tests.tenant import Tenant

TEXTS = [
    '"a"', '""', '"ü"', '"\\ud83d\\ude00"', '"\\ud800"', '"\\u0000"', '"\\/"', '"$a"', '"null"',
    '"x\\"y"', "null", f'"{"x" * 60}"', f'"{"x" * 300}"', f'"{"x" * 8200}"', '"anonymous"', '"5"',
]  # fmt: skip
NUMBERS = [
    "0", "-0", "-0.0", "5", "5.0", "1e5", "0.1", "1e400", "NaN", "-Infinity", "01", "true",
    "1e-400",
    "9007199254740993", "18446744073709551616", "1" * 40, "0.30000000000000004",
]  # fmt: skip
NESTED = ["{}", "[]", "[1, null]", '{"b": {"c": [1]}}', '{"$b": 1}', '{"b": 1, "b": 2}']
VALUES = st.sampled_from([*TEXTS, *NUMBERS, *NESTED])
IDS = st.sampled_from(
    ['"v1"', '"v2"', '"u1"', '"u2"', "17", '""', "null", '"undefined"', '"\\u0076"']
)
TIMES = st.sampled_from([
    '"2025-03-01T10:00:00Z"', '"2025-03-01T10:00:00.123456+02:00"', "1740823200000", '"soon"',
    '"2025-03-01"', '"2025-03-01 10:00:00 UTC"', "1740823200", '"20250301T100000Z"', "null",
    '"1740823200000"', '"2999-01-01T00:00:00Z"', '"2025-02-30T00:00:00Z"', '"-001-01-01T00:00:00Z"',
])  # fmt: skip
KEYS = ['"plan"', '"n"', '"a.b"', '"ü"', '"$plan"', '""', '"amount"', '"currency"']
PROPERTIES = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4).map(
    lambda pairs: "{" + ", ".join(f"{key}: {value}" for key, value in pairs.items()) + "}"
)
URLS = st.sampled_from([
    '"https://a.example/b?utm_source=mail"', '"mailto:a"', '"/pricing/"', '"https://a.example/%00"',
    '"http://[a"',
])  # fmt: skip
FIELDS: dict[str, st.SearchStrategy[str]] = {
    "visitorId": IDS, "userId": IDS, "externalSessionId": IDS, "dedupeKey": IDS,
    "transactionId": IDS, "visitorIds": st.sampled_from(['["v1"]', '["v3", "v4"]', "[]", '"v1"']),
    "timestamp": TIMES, "properties": PROPERTIES, "name": VALUES, "event": VALUES, "screen": VALUES,
    "path": URLS, "url": URLS, "referrer": URLS, "title": VALUES, "utmSource": VALUES,
    "country": st.sampled_from(['"DE"', '"Germany"', '""']), "device": VALUES, "os": VALUES,
    "amount": VALUES, "currency": st.sampled_from(['"eur"', '"EURO"', '"ÄÖÜ"']),
    "traits": PROPERTIES,
    "sessionId": IDS, "unknown": VALUES, "na\\u006de": VALUES,
    "type": st.sampled_from([
        '"event"', '"pageview"', '"screenview"', '"transaction"', '"identify"', '"stored"', '"x"',
        "1",
    ]),
}  # fmt: skip
USUAL = {
    "event": {"name": '"e"', "visitorId": '"v1"', "properties": '{"plan": "pro", "n": 1}'},
    "pageview": {"path": '"/a?b"', "userId": '"u1"'},
    "screenview": {"screen": '"Home"', "visitorId": '"v2"'},
    "transaction": {"name": '"paid"', "userId": '"u1"', "visitorId": '"v1"', "amount": "12.5"},
    "identify": {"userId": '"u2"', "visitorIds": '["v1", "v2"]'},
}
BROKEN = st.sampled_from([
    b"", b" ", b"{", b"[]", b"null", b"{}x", b'{"a": "\xff"}', b"\xef\xbb\xbf{}", b"\x0b",
    b"{}\x0b",
    b'{"type": "event", "name": "' + b"x" * 70_000 + b'"}', b"[" * 2000, b'{"a":' * 300,
])  # fmt: skip


def text_of(fields: dict[str, str]) -> bytes:
    return ("{" + ", ".join(f'"{name}": {value}' for name, value in fields.items()) + "}").encode()


@st.composite
def lines(draw: Callable[[st.SearchStrategy[Any]], Any]) -> bytes:
    kind = draw(st.sampled_from(list(USUAL)))
    names = draw(st.lists(st.sampled_from(list(FIELDS)), max_size=3, unique=True))
    time = {} if kind == "identify" else {"timestamp": '"2025-03-01T10:00:00Z"'}
    usual = {"type": f'"{kind}"', **time, **USUAL[kind]}
    return text_of(usual | {name: draw(FIELDS[name]) for name in names})


FILES = st.lists(lines() | lines() | lines() | BROKEN, min_size=1, max_size=60)
_OF_ONE_IMPORT = (
    "event_id", "received_at", "website_id", "scope_id", "visitor_key", "import_id"
)  # fmt: skip


def with_usual_names(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without what differs in every import. New visitors get numbers."""
    visitors: dict[str, str] = {}
    usual = []
    for row in rows:
        own = {name: value for name, value in row.items() if name not in _OF_ONE_IMPORT}
        if own["visitor_id"].startswith("vis_"):
            own["visitor_id"] = visitors.setdefault(own["visitor_id"], f"new {len(visitors)}")
        usual.append(own)
    return usual


def summary(job: dict[str, Any]) -> dict[str, Any]:
    names = (
        *("state", "error", "accepted", "duplicates", "rejected", "linesRead", "emptyLines"),
        *("identifyLines", "identityConflicts", "firstEventAt", "lastEventAt", "warnings"),
    )
    return {name: job[name] for name in names}


@settings(
    max_examples=8,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(content=FILES)
def test_a_file_is_stored_as_the_full_path_stores_it(
    content: list[bytes],
    run_import: Import,
    workspace: Tenant,
    services: Services,
    stored_at: Callable[[str], list[dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def new_website() -> str:
        website = {"name": "Shop", "kind": "web"}
        answer = workspace.browser.post("/api/settings/websites", json=website)
        return body_of(answer, 201)["id"]

    def rejects(job: dict[str, Any]) -> Any:
        return workspace.client.get(f"/api/imports/{job['id']}/rejects").json()["data"]

    def bodies(website_id: str) -> list[int | None]:
        events = {row["event_id"] for row in stored_at(website_id)}
        return sorted(key.body for key in all_keys(services) if event_id_of(key) in events)

    first = text_of({"type": '"event"', "timestamp": "1740823200000"} | USUAL["event"])
    body = b"\n".join([first, *content])
    site, full_site = new_website(), new_website()
    quick = run_import(body, website_id=site)
    with monkeypatch.context() as patch:
        patch.setattr(entries, "plain_text", lambda *_: None)
        full = run_import(body, website_id=full_site)
        again = run_import(body, website_id=site)
    assert summary(quick) == summary(full)
    assert rejects(quick) == rejects(full)
    rows = stored_at(site)
    assert with_usual_names(rows) == with_usual_names(stored_at(full_site))
    assert bodies(site) == bodies(full_site)
    assert (again["accepted"], again["duplicates"]) == (0, quick["accepted"] + quick["duplicates"])
    assert json.dumps([row["event_id"] for row in rows]) == json.dumps(
        [row["event_id"] for row in stored_at(site)]
    )
