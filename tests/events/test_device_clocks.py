"""A request's delay moves no event, and one offset corrects all events of a device."""

import json
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from penstock.app import Services
from penstock.metadb.tables import device_clocks
from tests.answers import faults_in
from tests.cases import cases, full_except
from tests.conftest import ShiftedClock
from tests.events.conftest import Stored
from tests.events.test_deduplication import clean_up
from tests.segment.conftest import basic
from tests.tenant import Tenant, visitor

HOUR_S = 3_600
A_DELAYED = {"A": (0, 15), "B": (3, 0.1)}
"""Events by name: when each happened and was sent, and how long its request took, in seconds."""


class Device(NamedTuple):
    """A device whose clock is ahead, and which sends each event with the time of sending."""

    server: TestClient[Litestar]
    clock: ShiftedClock
    site: str
    ahead_s: float = 0
    visitor_id: str = "device-1"
    path: str = "/api/track"

    def run(self, events: dict[str, tuple[float, float]]) -> int:
        """Send events; the requests arrive in the order of their arrivals. Returns the start."""
        began_ms, began_ahead_ms = self.clock(), self.clock.ahead_ms
        for name, (at_s, transit_s) in sorted(events.items(), key=lambda item: sum(item[1])):
            self.clock.ahead_ms = began_ahead_ms + round((at_s + transit_s) * 1000)
            sent_at_ms = began_ms + round((at_s + self.ahead_s) * 1000)
            self.send(name, timestamp=sent_at_ms, sentAt=sent_at_ms, number=int(at_s))
        return began_ms

    def send(self, name: str, number: int = 0, **times: int) -> None:
        properties = {"order": "o-1", "n": number}
        if self.path == "/api/track":
            item = {"type": "event", "name": name, "visitorId": self.visitor_id}
            body: Any = {"websiteId": self.site, **item, "properties": properties, **times}
            answer = visitor(self.server).post(self.path, json=body)
        else:
            call = {"type": "track", "event": name, "anonymousId": self.visitor_id}
            sent_at = times.pop("sentAt")
            body = {"batch": [{**call, "properties": properties, **times}], "sentAt": sent_at}
            headers = basic(self.site)
            answer = visitor(self.server).post(self.path, json=body, headers=headers)
        assert answer.status_code in (200, 202), answer.text
        assert not answer.json().get("rejected"), answer.text


DeviceOf = Callable[..., Device]


@pytest.fixture
def device(server: TestClient[Litestar], clock: ShiftedClock, site: str) -> DeviceOf:
    return lambda **fields: Device(server, clock, site, **fields)


def times(stored: Stored, began_ms: int) -> dict[str, float]:
    """Seconds after the start by name, in the order of the times."""
    return {row["name"]: round((row["occurred_at"] - began_ms) / 1000, 1) for row in stored()}


DELAYED = {("visitor", "/api/track", 15), ("attempt", "/v1/batch", 15 * 60)} | {
    ("sequence", "/api/track", 8 * HOUR_S)
}
"""Cases of `make test`, which have each counting unit, route and delay once."""
MORE_DELAYED = (
    ("visitor", "attempt", "sequence"), ("/api/track", "/v1/batch"), (15, 15 * 60, 8 * HOUR_S),
)  # fmt: skip


@pytest.mark.usefixtures("warehouse")
@cases(
    ("unit", "path", "delay_s"),
    full_except(DELAYED, product(*MORE_DELAYED), "each unit on each route with each delay"),
)
def test_a_delayed_request_of_a_right_clock_keeps_the_order(
    device: DeviceOf, workspace: Tenant, delay_s: int, path: str, unit: str
) -> None:
    case = f"{unit} {path} {delay_s}"
    names = [f"A {case}", f"B {case}"]
    device(path=path, visitor_id=case).run({names[0]: (0, delay_s), names[1]: (3, 0.1)})
    steps = [{"type": "Event", "value": name} for name in names]
    attempt: dict[str, Any] = {
        "countingUnit": "attempt",
        "attemptProperty": "order",
        "conversionWindowSeconds": 3_600,
    }
    units: dict[str, dict[str, Any]] = {
        "visitor": {"countingUnit": "visitor"},
        "attempt": attempt,
        "sequence": attempt | {"sequenceProperty": "n"},
    }
    body = {"name": case, "steps": steps, **units[unit]}
    funnel = workspace.client.post("/api/funnels", json=body)
    assert funnel.status_code == 201, funnel.text
    report = workspace.client.get(f"/api/funnels/{funnel.json()['id']}/results").json()
    assert [step["count"] for step in report["aggregate"]["steps"]] == [1, 1]


def test_a_body_that_trickles_in_keeps_its_time(
    server: TestClient[Litestar], clock: ShiftedClock, site: str, stored: Stored
) -> None:
    began_ms = clock()
    item = {"type": "event", "name": "A", "visitorId": "v", "timestamp": began_ms}
    text = json.dumps({"websiteId": site, **item, "sentAt": began_ms}).encode()

    def trickle() -> Iterator[bytes]:
        for start in range(0, len(text), 50):
            yield text[start : start + 50]
            clock.advance(seconds=5)

    headers = {"Content-Type": "application/json"}
    assert visitor(server).post("/api/track", content=trickle(), headers=headers).status_code == 202
    [row] = stored()
    assert row["occurred_at"] == row["stated_at"] == began_ms


@pytest.mark.parametrize(
    ("path", "ahead_s"),
    full_except(
        [("/api/track", 10), ("/v1/batch", -24 * HOUR_S)],
        product(("/api/track", "/v1/batch"), (10, 600, 24 * HOUR_S, -24 * HOUR_S)),
        "each offset on each route",
    ),
)
def test_one_offset_corrects_all_requests_of_a_device(
    device: DeviceOf, stored: Stored, ahead_s: int, path: str
) -> None:
    began_ms = device(ahead_s=ahead_s, path=path).run({"first": (-5, 0.1), **A_DELAYED})
    assert list(times(stored, began_ms)) == ["first", "A", "B"]
    assert times(stored, began_ms)["B"] - times(stored, began_ms)["A"] == pytest.approx(3, abs=0.2)
    assert all(row["stated_at"] != row["occurred_at"] for row in stored()), "both times are stored"
    assert times(stored, began_ms)["A"] == pytest.approx(0, abs=0.5)


@pytest.mark.parametrize(("ahead_s", "delay_s"), [(600, 20), (3_600, 8 * HOUR_S)])
def test_a_delayed_first_request_of_a_clock_that_is_ahead_keeps_the_order(
    device: DeviceOf, stored: Stored, ahead_s: int, delay_s: int
) -> None:
    """The error is at most the transit of the first request that arrives."""
    began_ms = device(ahead_s=ahead_s).run({"A": (0, delay_s), "B": (3, delay_s), "C": (60, 0.1)})
    assert list(times(stored, began_ms)) == ["A", "B", "C"]


def test_a_later_quicker_request_stays_behind_the_first(device: DeviceOf, stored: Stored) -> None:
    began_ms = device(ahead_s=600).run({"A": (0, 15), "B": (15.1, 0.1)})
    assert list(times(stored, began_ms)) == ["A", "B"]


def test_devices_have_clocks_of_their_own(device: DeviceOf, stored: Stored) -> None:
    began_ms = device(ahead_s=600, visitor_id="wrong").run({"A": (0, 0.1)})
    device(visitor_id="right").run({"B": (0, 15)})
    assert times(stored, began_ms)["B"] < 1, "not corrected by the other device's clock"


def test_a_placeholder_is_no_device(device: DeviceOf, stored: Stored) -> None:
    device(ahead_s=600, visitor_id="anonymous").run({"A": (0, 0.1)})
    began_ms = device(visitor_id="anonymous").run({"B": (0, 15)})
    assert times(stored, began_ms)["B"] == pytest.approx(0, abs=0.2)


def test_a_clock_that_was_set_is_right_at_once(device: DeviceOf, stored: Stored) -> None:
    device(ahead_s=24 * HOUR_S).run({"A": (0, 0.1)})
    began_ms = device().run({"B": (60, 0.1), "C": (61, 15)})
    assert times(stored, began_ms)["B"] == pytest.approx(60, abs=0.2)
    assert times(stored, began_ms)["C"] == pytest.approx(61, abs=0.2)


def test_a_clock_that_was_set_back_by_a_day_and_is_still_wrong_is_right_at_once(
    device: DeviceOf, stored: Stored
) -> None:
    device(ahead_s=48 * HOUR_S).run({"A": (0, 0.1)})
    began_ms = device(ahead_s=24 * HOUR_S).run({"B": (0, 0.1)})
    assert times(stored, began_ms)["B"] == pytest.approx(0, abs=0.2)


def test_a_measured_offset_is_exact_and_holds_for_requests_that_measured_none(
    device: DeviceOf, clock: ShiftedClock, stored: Stored
) -> None:
    phone = device()
    began_ms = clock()
    stated_ms = began_ms - 600_000 - 5_000
    phone.send("A", timestamp=stated_ms, clockOffset=600_000)
    phone.send("B", timestamp=stated_ms + 1_000, sentAt=stated_ms)
    assert times(stored, began_ms) == {"A": -5.0, "B": -4.0}
    assert {row["stated_at"] for row in stored()} == {stated_ms, stated_ms + 1_000}


@cases("wrong", ["600", 1.5, True, 10**20])
def test_an_offset_is_a_whole_number(
    server: TestClient[Litestar], site: str, wrong: object
) -> None:
    item = {"type": "event", "name": "A", "visitorId": "v", "timestamp": 10**12}
    body = {"websiteId": site, "events": [{**item, "clockOffset": wrong}]}
    [result] = visitor(server).post("/api/track", json=body).json()["results"]
    assert list(faults_in(result)) == ["clockOffset"]


def test_an_offset_beside_the_items_is_for_all_and_no_part_of_what_was_sent(
    server: TestClient[Litestar], clock: ShiftedClock, site: str, stored: Stored
) -> None:
    at_ms = clock() - 60_000
    item = {"type": "event", "name": "A", "visitorId": "v", "timestamp": at_ms, "dedupeKey": "d"}
    for offset in (-7_000, -7_001):
        body = {"websiteId": site, "clockOffset": offset, "events": [item]}
        answer = visitor(server).post("/api/track", json=body).json()
        assert "warnings" not in answer["results"][0]
    [row] = stored()
    assert (row["stated_at"], row["occurred_at"]) == (at_ms, at_ms - 7_000)


def test_answers_have_the_servers_time(
    server: TestClient[Litestar], clock: ShiftedClock, site: str
) -> None:
    item = {"websiteId": site, "type": "event", "name": "A", "visitorId": "v"}
    for body in (item, {"events": [item]}, {"events": [item] * 11}):
        answer = visitor(server).post("/api/track", json=body).json()
        assert answer["serverTime"].endswith("Z")
        assert len(answer["serverTime"]) == len("2026-11-26T12:00:00.000Z")


def test_clocks_are_forgotten_a_day_later(
    device: DeviceOf, services: Services, clock: ShiftedClock
) -> None:
    def known() -> int:
        with services.database.read() as connection:
            return len(connection.execute(device_clocks.select()).all())

    device(ahead_s=600).run({"A": (0, 0.1)})
    assert known() == 1
    clock.advance(days=2)
    clean_up(services, clock)
    assert known() == 0
