"""Batches without timestamps: a visitor's events keep the order of the batch."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.answers import body_of
from tests.conftest import ShiftedClock
from tests.events.conftest import Post, Stored
from tests.tenant import Tenant

ROUTES = ("/api/v1/events/batch", "/api/track", "/v1/batch")


@pytest.fixture(autouse=True)
def frozen(clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch) -> int:
    """A clock that stands still. Returns its time."""
    now_ms = clock()
    monkeypatch.setattr(ShiftedClock, "__call__", lambda self: now_ms + self.ahead_ms)
    return now_ms


def send(workspace: Tenant, route: str, *items: dict[str, Any]) -> None:
    """Send a batch of events, in the fields of its route. Events are of the visitor `v`."""
    events = [{"visitorId": "v", **item} for item in items]
    site = workspace.website_id
    match route:
        case "/api/v1/events/batch":
            body: Any = {"events": [{"websiteId": site, **event} for event in events]}
        case "/api/track":
            named = [{("name" if k == "event" else k): v for k, v in e.items()} for e in events]
            body = {"websiteId": site, "events": [{"type": "event", **event} for event in named]}
        case _:
            calls = [{"anonymousId": event.pop("visitorId"), **event} for event in events]
            body = {"writeKey": site, "batch": [{"type": "track", **call} for call in calls]}
    answer = workspace.client.post(route, json=body)
    assert answer.status_code in (200, 202), answer.text
    assert not body_of(answer, answer.status_code).get("rejected")


def times(stored: Stored, now_ms: int) -> dict[str, int]:
    """Return the times of all events, since the clock stood still."""
    rows = stored()
    assert all(row["stated_at"] == row["occurred_at"] <= row["received_at"] for row in rows)
    return {row["name"]: row["occurred_at"] - now_ms for row in rows}


def events(names: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"event": name, **fields} for name in names]


@pytest.mark.parametrize("route", ROUTES)
def test_each_visitors_events_have_the_order_of_the_batch(
    workspace: Tenant, stored: Stored, frozen: int, route: str
) -> None:
    others = events("XY", visitorId="w")
    a, b, c = events("abc")
    send(workspace, route, a, others[0], b, others[1], c)
    assert times(stored, frozen) == {"a": -2, "b": -1, "c": 0, "X": -1, "Y": 0}


@pytest.mark.parametrize("route", ROUTES)
def test_a_timestamp_stays_as_it_is(
    workspace: Tenant, stored: Stored, frozen: int, route: str
) -> None:
    given = {"event": "given", "timestamp": frozen - 500}
    at_receipt = {"event": "at receipt", "timestamp": frozen}
    send(workspace, route, *events("a"), at_receipt, given, *events("b"))
    assert times(stored, frozen) == {"a": -1, "b": 0, "given": -500, "at receipt": 0}


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((1, 2, 3, 4), (0, 0, 0, 0)),
        ((2.5, 1, None, None), (-2, -2, -1, 0)),
        ((None, 1, None, 1), (-3, 0, 0, 0)),
        ((None, "1", True, [1]), (-3, -2, -1, 0)),
    ],
)
@pytest.mark.parametrize("route", ROUTES)
def test_events_that_carry_a_number_keep_equal_times(
    workspace: Tenant,
    stored: Stored,
    frozen: int,
    route: str,
    numbers: Sequence[Any],
    expected: Sequence[int],
) -> None:
    items = [{"event": f"{n}", "properties": {"n": each}} for n, each in enumerate(numbers)]
    send(workspace, route, *items)
    assert tuple(times(stored, frozen)[f"{n}"] for n in range(4)) == expected


@pytest.mark.parametrize("route", ROUTES)
def test_a_batch_never_begins_before_the_visitors_previous_event(
    workspace: Tenant, stored: Stored, frozen: int, clock: ShiftedClock, route: str
) -> None:
    send(workspace, route, *events("ab"))
    clock.ahead_ms += 2
    send(workspace, route, *events("cdefg"))
    send(workspace, route, *events("hi"))
    first, second, third = {"a": -1, "b": 0}, {"c": 0, "d": 0, "e": 0, "f": 1, "g": 2}, "hi"
    assert times(stored, frozen) == first | second | dict.fromkeys(third, 2)


def test_single_events_and_events_with_timestamps_are_previous_events_too(
    workspace: Tenant, post_event: Post, stored: Stored, frozen: int, clock: ShiftedClock
) -> None:
    post_event(visitorId="v", event="single")
    post_event(visitorId="w", event="later", timestamp=frozen + 60_000)
    post_event(visitorId="x", event="old", timestamp=frozen - 60_000)
    clock.ahead_ms += 1
    batch = [*events("abc"), *events("ABC", visitorId="w"), *events("123", visitorId="x")]
    send(workspace, "/api/v1/events/batch", *batch)
    since = {row["name"]: row["occurred_at"] - frozen for row in stored()}
    in_the_future = {"later": 60_000, "A": 1, "B": 1, "C": 1}
    in_the_past = {"old": -60_000, "1": -1, "2": 0, "3": 1}
    assert since == {"single": 0, "a": 0, "b": 0, "c": 1} | in_the_future | in_the_past


def test_a_visitors_events_are_those_under_all_of_its_ids(
    workspace: Tenant, stored: Stored, frozen: int, clock: ShiftedClock
) -> None:
    """Also those before a merge, in the same batch and in an earlier one."""
    batch = "/api/v1/events/batch"
    send(workspace, batch, {"event": "home", "visitorId": "home", "userId": "u"})
    send(workspace, batch, *events("ab", visitorId="phone"))
    clock.ahead_ms += 1
    send(
        workspace,
        batch,
        {"event": "c", "visitorId": "phone"},
        {"event": "d", "visitorId": "phone", "userId": "u"},
        {"event": "e", "visitorId": None, "userId": "u"},
    )
    assert times(stored, frozen) == {"home": 0, "a": -1, "b": 0, "c": 0, "d": 0, "e": 1}


def test_duplicates_and_rejected_items_take_no_time(
    workspace: Tenant, stored: Stored, frozen: int, clock: ShiftedClock
) -> None:
    a, b, c = ({"event": name, "eventId": name} for name in "abc")
    send(workspace, "/api/v1/events/batch", a)
    clock.ahead_ms += 5_000
    send(workspace, "/api/v1/events/batch", a, b, b, c)
    assert times(stored, frozen) == {"a": 0, "b": 4_999, "c": 5_000}
