"""Posts over the protocol, whose key and website are cached as after a first post."""

import gc
import json
import socket
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from penstock.app import Services
from penstock.base.errors import Unavailable
from penstock.events.model import NewEvent, Receipt
from tests.answers import problem
from tests.edge.wire import answer_to, read_to_end
from tests.events.conftest import Stored
from tests.tenant import Tenant
from tests.user_agents import DESKTOP
from tests.waiting import eventually
from tests.wired import Wire

EVENT_PATH, TRACK_PATH = "/api/v1/events", "/api/track"
CHROME = DESKTOP["chrome_windows"]
FORWARDED = {"X-Forwarded-For": "203.0.113.5"}


class Sender:
    """Posts server events of a website; `raw` is such a post, byte by byte."""

    def __init__(self, wire: Wire, key: str, website_id: str) -> None:
        self.wire, self.key, self.website_id = wire, key, website_id

    def body(self, **fields: Any) -> bytes:
        event = {"websiteId": self.website_id, "visitorId": "v", "event": "signed_up", **fields}
        return json.dumps(event).encode()

    def __call__(self, headers: dict[str, str] | None = None, **fields: Any) -> httpx.Response:
        sent = {"Authorization": self.key, "Content-Type": "application/json", **(headers or {})}
        return self.wire.client.post(EVENT_PATH, content=self.body(**fields), headers=sent)

    def raw(self, *lines: str, version: str = "1.1", **fields: Any) -> tuple[bytes, bytes]:
        """Head and body. lines: more headers."""
        body = self.body(**fields)
        headers = (
            f"Authorization: {self.key}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            *lines,
        )
        return f"POST {EVENT_PATH} HTTP/{version}\r\n{_joined(headers)}\r\n".encode(), body


def _joined(headers: Sequence[str]) -> str:
    return "".join(f"{header}\r\n" for header in headers)


@pytest.fixture
def send(wire: Wire, workspace: Tenant, site: str, services: Services) -> Sender:
    services.events.keys._callers._ttl_s = services.events.websites._websites._ttl_s = 3600
    sender = Sender(wire, workspace.client.headers["Authorization"], site)
    assert sender(eventId="first").status_code == 202  # fills the caches
    return sender


@pytest.fixture
def no_framework(send: Sender, forbid_framework: Callable[[], None]) -> None:
    forbid_framework()


@pytest.fixture
def connection(wire: Wire) -> Iterator[socket.socket]:
    with wire.connect() as connection:
        yield connection


@pytest.mark.usefixtures("no_framework")
def test_a_post_is_answered_without_the_framework(send: Sender, stored: Stored) -> None:
    answer = send(eventId="1", visitorId="null")
    assert (answer.status_code, answer.headers["content-type"]) == (202, "application/json")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert len(answer.headers["x-request-id"]) == 16
    assert send(headers={"X-Request-Id": "mine"}).headers["x-request-id"] == "mine"
    again = send(eventId="1", visitorId="null", event="other").json()
    assert (again["status"], again["eventId"]) == ("duplicate", answer.json()["eventId"])
    assert [warning["code"] for warning in again["warnings"]] == ["body_differs"]
    assert len(stored()) == 3


def test_the_answer_says_what_is_wrong(send: Sender) -> None:
    assert send(event="").json()["errors"][0]["field"] == "event"
    assert send(headers={"Authorization": "Bearer none"}).status_code == 401
    assert send(websiteId="web_none").status_code == 401
    assert send(headers={"Content-Type": "text/csv"}).status_code == 415
    large = send(properties={"text": "a" * 20_000})
    assert large.json()["errors"][0]["field"] == "properties.text"


@pytest.mark.usefixtures("no_framework")
def test_a_post_in_pieces_is_answered_once_it_is_whole(
    send: Sender, connection: socket.socket, stored: Stored
) -> None:
    head, body = send.raw("Connection: close")
    for piece in (head[:40], head[40:], body[:7], body[7:]):
        connection.sendall(piece)
    answer = answer_to(connection)
    assert (answer.status, answer.headers["connection"]) == (202, "close")
    assert len(stored()) == 2


@pytest.mark.usefixtures("no_framework")
def test_pipelined_posts_are_answered_in_order(
    send: Sender, connection: socket.socket, stored: Stored
) -> None:
    for number in range(4):
        connection.sendall(b"".join(send.raw(visitorId=f"v{number}")))
    connection.sendall(b"".join(send.raw("Connection: close", visitorId="last")))
    answers = read_to_end(connection).split(b"HTTP/1.1 ")[1:]
    assert [json.loads(answer.partition(b"\r\n\r\n")[2])["visitorId"] for answer in answers] == [
        "v0", "v1", "v2", "v3", "last",
    ]  # fmt: skip
    assert len(stored()) == 6


def test_an_old_client_is_answered_and_disconnected(
    send: Sender, connection: socket.socket
) -> None:
    connection.sendall(b"".join(send.raw(version="1.0")))
    answer = answer_to(connection)
    assert (answer.status, answer.headers["connection"]) == (202, "close")


def test_a_client_that_expects_it_is_asked_for_the_body(
    send: Sender, connection: socket.socket
) -> None:
    head, body = send.raw("Expect: 100-continue", "Connection: close")
    connection.sendall(head)
    assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    connection.sendall(body)
    assert answer_to(connection).status == 202


def test_an_event_is_stored_though_its_client_leaves(
    send: Sender, services: Services, stored: Stored
) -> None:
    with services.database.write(), send.wire.connect() as connection:  # no commit meanwhile
        connection.sendall(b"".join(send.raw("X-Forwarded-For: 203.0.113.5", eventId="left")))
        eventually(lambda: services.intake.waiting() == 1)
        assert services.address_budget.requests_in_progress() == 1
    eventually(lambda: services.address_budget.requests_in_progress() == 0)
    assert send(eventId="left").json()["status"] == "duplicate"
    assert len(stored()) == 2


def test_a_post_whose_body_never_comes_leaves_no_trace(
    send: Sender, services: Services, stored: Stored
) -> None:
    with send.wire.connect() as connection:
        connection.sendall(send.raw("X-Forwarded-For: 203.0.113.5")[0])
        eventually(lambda: services.address_budget.requests_in_progress() == 1)
    eventually(lambda: services.address_budget.requests_in_progress() == 0)
    assert len(stored()) == 1


def test_posts_that_wait_when_the_service_stops_are_answered(
    send: Sender, services: Services, connection: socket.socket
) -> None:
    with services.database.write():
        connection.sendall(b"".join(send.raw()))
        eventually(lambda: services.intake.waiting() == 1)
        send.wire.begin_shutdown()
    answer = answer_to(connection)
    assert (answer.status, answer.headers["connection"]) == (202, "close")


def test_a_closed_connection_is_no_garbage(send: Sender) -> None:
    """The collector of garbage runs seldom, and others choose the number of connections."""
    gc.disable()
    try:
        others = set(send.wire.state.connections)
        with send.wire.connect() as connection:
            connection.sendall(b"".join(send.raw()))
            assert connection.recv(100).startswith(b"HTTP/1.1 202")
            [protocol] = map(weakref.ref, send.wire.state.connections - others)
        eventually(lambda: protocol() is None)
    finally:
        gc.enable()


@pytest.mark.parametrize("limits", [{"address_requests_per_second": 1}])
def test_the_rate_of_an_address_holds_for_posts(send: Sender, stored: Stored) -> None:
    answers = [send(headers=FORWARDED) for _ in range(12)]
    assert [answer.status_code for answer in answers] == [202] * 10 + [429] * 2
    assert answers[0].headers["ratelimit"].startswith('"address";r=9;')
    assert answers[11].headers["ratelimit"].startswith('"address";r=0;')
    assert answers[11].json()["instance"] == EVENT_PATH
    assert len(stored()) == 11


@pytest.mark.parametrize("limits", [{"website_events_per_second": 1}])
def test_the_rate_of_a_website_holds_for_posts(send: Sender, stored: Stored) -> None:
    answers = [send() for _ in range(11)]
    assert [answer.status_code for answer in answers] == [202] * 9 + [429] * 2
    assert answers[10].headers["ratelimit-policy"] == '"website";q=10;w=10'
    assert len(stored()) == 10


@pytest.fixture
def lose_answers(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], list[Sequence[NewEvent]]]:
    """Makes the store commit without an answer; returns the list of all submissions since then."""

    def lose() -> list[Sequence[NewEvent]]:
        submit, submissions = services.intake.submit, list[Sequence[NewEvent]]()

        async def submit_and_fail(events: Sequence[NewEvent]) -> list[Receipt]:
            submissions.append(events)
            await submit(events)
            raise Unavailable("No answer.", code="store_unavailable", retry_after_s=1)

        monkeypatch.setattr(services.intake, "submit", submit_and_fail)
        return submissions

    return lose


def test_an_ambiguous_commit_stores_an_event_without_id_once(
    send: Sender, stored: Stored, lose_answers: Callable[[], list[Sequence[NewEvent]]]
) -> None:
    lose_answers()
    answer = send()
    assert problem(answer) == (503, "store_unavailable")
    assert answer.headers["retry-after"] == "1"
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-request-id"] == answer.json()["requestId"]
    assert answer.json()["instance"] == EVENT_PATH
    assert len(stored()) == 2


async def _refuse_later(error: Exception) -> None:
    raise error


def _refuse_at_once(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("refuse", [_refuse_later, _refuse_at_once])
@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (Unavailable("Busy.", code="overloaded", retry_after_s=1), 503, "overloaded"),
        (RuntimeError("a fault of ours"), 500, "internal_error"),
    ],
)
def test_a_refusal_of_the_intake_costs_one_submission(
    send: Sender,
    services: Services,
    monkeypatch: pytest.MonkeyPatch,
    refuse: Callable[[Exception], Any],
    error: Exception,
    status: int,
    code: str,
) -> None:
    submissions = []

    def submit(events: Sequence[NewEvent]) -> Any:
        submissions.append(events)
        return refuse(error)

    monkeypatch.setattr(services.intake, "submit", submit)
    assert problem(send()) == (status, code)
    assert len(submissions) == 1


class Tracker:
    """Posts what a browser tracks on a website, as `/t.js` does."""

    def __init__(self, wire: Wire, website_id: str) -> None:
        self.wire, self.website_id = wire, website_id

    def item(self, **fields: Any) -> dict[str, Any]:
        return {"type": "event", "name": "signed_up", "visitorId": "v", **fields}

    def send(self, body: Any, headers: dict[str, str] | None = None) -> httpx.Response:
        sent = {"Content-Type": "text/plain;charset=UTF-8", "User-Agent": CHROME}
        content = json.dumps({"websiteId": self.website_id, **body}).encode()
        return self.wire.client.post(TRACK_PATH, content=content, headers=sent | (headers or {}))

    def batch(self, *items: Any, **fields: Any) -> httpx.Response:
        return self.send({"events": items, **fields})


@pytest.fixture
def tracker(wire: Wire, site: str, services: Services) -> Tracker:
    services.events.websites._websites._ttl_s = 3600
    tracker = Tracker(wire, site)
    assert tracker.send(tracker.item(dedupeKey="first")).status_code == 202  # fills the caches
    return tracker


def test_tracked_items_are_answered_without_the_framework(
    tracker: Tracker, stored: Stored, forbid_framework: Callable[[], None]
) -> None:
    forbid_framework()
    answer = tracker.send(tracker.item(dedupeKey="1", visitorId="null"))
    assert (answer.status_code, answer.headers["content-type"]) == (202, "application/json")
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["x-content-type-options"] == "nosniff"
    json_type = {"Content-Type": "application/json"}
    again = tracker.send(tracker.item(dedupeKey="1", name="other"), json_type).json()
    assert (again["accepted"], again["duplicates"], again["rejected"]) == (0, 1, 0)
    assert again["results"][0]["eventId"] == answer.json()["results"][0]["eventId"]
    assert [warning["code"] for warning in again["results"][0]["warnings"]] == ["body_differs"]
    items = [tracker.item(dedupeKey=f"b{number}") for number in range(10)]
    batch = tracker.batch(*items, sentAt=1).json()
    assert (batch["accepted"], len(batch["results"])) == (10, 10)
    assert len(stored()) == 12


def test_an_ambiguous_commit_stores_a_tracked_item_without_key_once(
    tracker: Tracker, stored: Stored, lose_answers: Callable[[], list[Sequence[NewEvent]]]
) -> None:
    submissions = lose_answers()
    answer = tracker.send(tracker.item())
    assert problem(answer) == (503, "store_unavailable")
    assert answer.headers["access-control-allow-origin"] == "*"
    assert (len(submissions), len(stored())) == (1, 2)


def test_a_key_that_is_sent_along_is_checked(tracker: Tracker, stored: Stored) -> None:
    assert tracker.send(tracker.item(), {"Authorization": "Bearer psk_wrong"}).status_code == 401
    assert len(stored()) == 1


def test_each_item_of_a_small_post_has_its_own_result(tracker: Tracker) -> None:
    item = tracker.item
    cases: list[tuple[Any, int, list[str]]] = [
        ({**item(dedupeKey="1"), "droppedBefore": 2}, 202, ["accepted"]),
        ({"events": [item(dedupeKey="2"), item(dedupeKey="1")]}, 202, ["accepted", "duplicate"]),
        ({"events": [item(), item(name="other")], "sentAt": 5}, 202, ["accepted"] * 2),
        ({"events": [item(), item(name="")]}, 202, ["accepted", "rejected"]),
        ({"events": [item(websiteId="web_none"), item()]}, 202, ["rejected", "accepted"]),
        ({"events": [item(websiteId=5), item(websiteId=None)]}, 202, ["rejected", "rejected"]),
        ({"events": [item(), 1]}, 202, ["accepted", "rejected"]),
        ({"events": [item(dedupeKey=f"e{n}") for n in range(11)]}, 202, ["accepted"] * 11),
        ({"events": []}, 422, []),
        ({"events": 1}, 422, []),
        (item(userId="ada"), 422, []),
    ]
    for body, status, results in cases:
        answer = tracker.send(body)
        assert answer.status_code == status, body
        assert [result["status"] for result in answer.json().get("results", [])] == results, body
        assert answer.headers["access-control-allow-origin"] == "*"
        media_type = "application/json" if status == 202 else "application/problem+json"
        assert answer.headers["content-type"] == media_type


def test_the_framework_answers_other_methods_and_spellings_of_an_address(
    tracker: Tracker, send: Sender, stored: Stored
) -> None:
    client, headers = tracker.wire.client, {"Authorization": send.key}
    body = {"websiteId": tracker.website_id, **tracker.item()}
    assert client.post(f"{TRACK_PATH}/", json=body).status_code == 202
    assert client.post(f"{TRACK_PATH}?x=1", json=body).status_code == 202
    wrong = client.get(TRACK_PATH)
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "OPTIONS, POST")
    refused = client.post(f"{EVENT_PATH}?x=1", content=send.body(), headers=headers)
    assert problem(refused) == (400, "bad_parameter")
    assert len(stored()) == 4


@pytest.mark.parametrize("limits", [{"website_events_per_second": 1}])
def test_the_rate_of_a_website_holds_for_what_browsers_track(
    tracker: Tracker, stored: Stored
) -> None:
    answers = [tracker.batch(tracker.item(), tracker.item()) for _ in range(6)]
    assert [answer.status_code for answer in answers] == [202] * 5 + [429]
    assert answers[5].headers["access-control-allow-origin"] == "*"
    assert len(stored()) == 11


@pytest.mark.parametrize("limits", [{"max_website_property_keys": 1}])
def test_what_the_intake_rejects_is_answered_and_recorded(
    tracker: Tracker, workspace: Tenant, stored: Stored
) -> None:
    good, bad = ({"properties": {key: 1}} for key in ("known", "unknown"))
    batch = tracker.batch(tracker.item(**good), tracker.item(**bad)).json()
    assert [result["status"] for result in batch["results"]] == ["accepted", "rejected"]
    assert batch["results"][1]["errors"][0]["code"] == "too_many_property_keys"
    single = tracker.send(tracker.item(**bad))
    assert (single.status_code, single.json()["status"]) == (422, 422)
    assert single.headers["access-control-allow-origin"] == "*"
    refused = workspace.client.get("/api/events/refused", params={"websiteId": tracker.website_id})
    assert refused.json()["total"] == 2
    assert len(stored()) == 2


@pytest.mark.parametrize("path", ["/api/v1/events", "/api/track"])
def test_a_length_of_thousands_of_digits_is_no_500(
    server: TestClient[Litestar], workspace: Tenant, path: str
) -> None:
    headers = {
        "Content-Length": "0" * 5_000 + "2",
        "Content-Type": "application/json",
        "Authorization": workspace.client.headers["Authorization"],
    }
    assert server.post(path, content=b"{}", headers=headers).status_code in (400, 413, 422)
