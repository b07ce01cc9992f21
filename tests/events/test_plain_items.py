"""The quick validation of plain items has the result of the full one."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.accounts.model import Website, WebsiteKind
from penstock.base.errors import PenstockError
from penstock.base.ids import ScopeId, WebsiteId, WorkspaceId
from penstock.base.user_agent import parse_user_agent
from penstock.events import server_events, tracked_events, validation
from penstock.events.fields import EventValidationContext
from penstock.events.imports import entries
from penstock.events.imports.entries import Occurrences, read_line
from penstock.events.model import NewEvent
from penstock.events.server_events import plain_server_event, server_event, transaction
from penstock.events.tracked_events import plain_tracked_event, tracked_event
from penstock.http.bodies import parse_json
from tests.tiers import TIER, Tier

NOW_MS = 1_790_000_000_000
SITE = Website(
    id=WebsiteId("web_1"),
    workspace_id=WorkspaceId("wsp_1"),
    name="Shop",
    kind=WebsiteKind.WEB,
    domain=None,
    identity_scope=None,
    scope_id=ScopeId("web_1"),
    created_at_ms=0,
    updated_at_ms=0,
)
CONTEXT = EventValidationContext(NOW_MS, {"web_1": SITE}.get)

Read = Callable[[bytes], NewEvent]

READERS: dict[str, Read] = {
    "event": lambda text: (
        plain_server_event(text, CONTEXT.find_website, CONTEXT)
        or server_event(parse_json(text), lambda _: SITE, CONTEXT)
    ),
    "single": lambda text: (
        plain_tracked_event(text, CONTEXT, parse_user_agent(""))
        or tracked_event(parse_json(text), CONTEXT, parse_user_agent(""))
    ),
    "batch": lambda text: server_event(parse_json(text), lambda _: SITE, CONTEXT),
    "transaction": lambda text: transaction(parse_json(text), lambda _: SITE, CONTEXT),
    "track": lambda text: tracked_event(parse_json(text), CONTEXT, parse_user_agent("")),
    "import": lambda text: read_line(text, SITE, Occurrences(), CONTEXT)[-1],
}
USUAL: dict[str, dict[str, str]] = {
    "event": {
        "websiteId": '"web_1"', "visitorId": '"v"', "userId": '"u"', "event": '"e"',
        "eventId": '"1"',
        "properties": '{"plan": "pro", "n": 1, "x": 1.5, "new": true, "old": null}',
        "timestamp": '"2026-09-01T10:00:00Z"', "country": '"DE"',
    },
    "transaction": {
        "websiteId": '"web_1"', "userId": '"u"', "event": '"paid"', "transactionId": '"t"',
        "amount": "12.5", "currency": '"EUR"',
    },
    "track": {
        "websiteId": '"web_1"', "visitorId": '"v"', "type": '"pageview"', "path": '"/pricing/?a=1"',
        "url": '"https://shop.example/pricing?utm_source=mail"', "referrer": '"https://a.example/"',
        "timestamp": "1789999990000", "sentAt": "1789999999000", "clockOffset": "-9000",
        "sessionId": '"s"', "title": '"P"',
    },
    "import": {
        "type": '"transaction"', "name": '"paid"', "timestamp": '"2025-01-01T00:00:00+02:00"',
        "visitorId": '"v"', "amount": "3", "currency": '"EUR"', "device": '"mobile"',
        "properties": '{"plan": "pro"}',
    },
}  # fmt: skip
_CLOCK = ("timestamp", "sentAt", "clockOffset")
USUAL["batch"] = USUAL["event"]
USUAL["single"] = {name: text for name, text in USUAL["track"].items() if name not in _CLOCK}
TEXTS = [
    '""', '"x"', '"\\u0000"', '"a\\u0000b"', '"\\\\u0000"', '"$x"', '"ü"', '"\U0001f600"', "null",
    f'"{"x" * 50}"', f'"{"x" * 51}"', f'"{"ü" * 100}"', f'"{"ü" * 101}"', f'"{"x" * 201}"',
    f'"{"/" * 2001}"', f'"{"x" * 8193}"', '"/a/?b#c"', '"/"', '"https://a.example"', '"mailto:x"',
    '"http://[x"', '"pageview"', '"event"', '"web_1"', '"web_2"', '"EUR"', '"eur"', '"ÄÄÄ"',
]  # fmt: skip
NUMBERS = [
    "0", "-0", "1", "1.0", "-1.5", "true", "false", "1e400", "-1e400", "1e16", "1" * 30, "NaN",
    "9007199254740992", "9007199254740993", "18446744073709551615", "18446744073709551616",
    "-9223372036854775808", "1789999990000", "1789999990000.0", "1799999990000", '"1789999990000"',
    '"2026-09-01"', '"2026-09-01T10:00:00"', '"9999-12-31T23:59:59Z"', '"0001-01-01T00:00:00Z"',
]  # fmt: skip
OTHERS = [
    "[]", "{}", "[1]", '{"a": {"b": [1, null]}}', '{"$a": 1}', '{"a": "$"}', '{"": ""}',
    '{"a\\u0000": 1}', '{"a": 1, "a": 2}', '{"amount": 1}',
    "{" + ", ".join(f'"k{n}": {n}' for n in range(256)) + "}",
]  # fmt: skip
VALUES = st.sampled_from([*TEXTS, *NUMBERS, *OTHERS])
PROPERTIES = st.dictionaries(
    st.sampled_from(['"a"', '""', '"$b"', '"a.b"', '"ü"', f'"{"k" * 2049}"']), VALUES, max_size=3
).map(lambda pairs: "{" + ", ".join(f"{key}: {value}" for key, value in pairs.items()) + "}")
NAMES = sorted({name for fields in USUAL.values() for name in fields} | {
    "name", "screen", "dedupeKey", "externalSessionId", "region", "utmSource", "os", "browser",
    "session_id", "unknown", "sessionId",
})  # fmt: skip


def text_of(fields: dict[str, str]) -> bytes:
    return ("{" + ", ".join(f'"{name}": {value}' for name, value in fields.items()) + "}").encode()


def outcome(read: Read, text: bytes) -> Any:
    try:
        return read(text)
    except PenstockError as error:
        return type(error), error.code, error.detail, error.faults, error.more_faults


@pytest.mark.parametrize("kind", READERS)
def test_usual_items_are_plain(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of(USUAL[kind])
    full = outcome(READERS[kind], text)
    assert isinstance(full, NewEvent)
    monkeypatch.setattr(validation, "_validate_fully", None)  # not needed for a plain item
    assert READERS[kind](text) == full


def test_usual_single_events_are_read_without_a_dictionary() -> None:
    event, item = text_of(USUAL["event"]), text_of(USUAL["single"])
    assert plain_server_event(event, CONTEXT.find_website, CONTEXT)
    assert plain_tracked_event(item, CONTEXT, parse_user_agent(""))


@pytest.mark.parametrize("kind", READERS)
@settings(
    max_examples=300 if TIER is Tier.FULL else 100,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    changes=st.dictionaries(st.sampled_from(NAMES), VALUES | st.none(), max_size=2),
    properties=st.none() | PROPERTIES,
)
def test_a_plain_item_is_what_the_full_validation_makes_of_it(
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, str | None],
    properties: str | None,
) -> None:
    changed = USUAL[kind] | changes | ({} if properties is None else {"properties": properties})
    text = text_of({name: value for name, value in changed.items() if value is not None})
    quick = outcome(READERS[kind], text)
    with monkeypatch.context() as patch:
        patch.setattr(validation, "plain_item", lambda *_: None)
        for module in (entries, server_events, tracked_events):
            patch.setattr(module, "plain_text", lambda *_: None)
        full = outcome(READERS[kind], text)
    assert quick == full
    if isinstance(quick, NewEvent):  # 1 == 1.0 == True
        assert repr(quick) == repr(full)
