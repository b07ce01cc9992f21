"""`penstock_sdk` against a running service: what is queued is stored once, whatever dies."""

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest

from penstock_sdk import AsyncPenstock, Full, Penstock, PenstockError, Refusal, metadata
from penstock_sdk.delivery import Delivery, Request
from penstock_sdk.events import (
    EVENTS,
    TRANSACTIONS,
    EventFields,
    ItemFields,
    ItemType,
    TransactionFields,
    camel,
    event_entry,
    item_entry,
)
from penstock_sdk.outbox import Outbox
from tests import loops
from tests.http_server import Answering, http_server
from tests.records import create, new_key, new_website
from tests.serving import Served, http_client
from tests.stopped_store import rows_of
from tests.waiting import PATIENCE_S, eventually

AT = datetime(2026, 5, 1, 10, tzinfo=UTC)


@pytest.fixture(scope="module")
def served(starts_service: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("sdk") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def options(served: Served) -> dict[str, Any]:
    key, website_id = served.first_account()
    return {"api_key": key, "website_id": website_id}


@contextmanager
def sending(served: Served, **options: Any) -> Iterator[Penstock]:
    """A client whose events have been sent at the end."""
    with Penstock(served.url, **options) as penstock:
        yield penstock
        assert penstock.flush(PATIENCE_S)


def recent(served: Served) -> list[dict[str, Any]]:
    return served.client.get("/api/events/recent", params={"limit": 100}).json()["data"]


def test_calls_of_both_clients_arrive_in_order_and_with_their_fields(
    served: Served, options: dict[str, Any]
) -> None:
    async def use_async() -> None:
        async with AsyncPenstock(served.url, **options) as penstock:
            penstock.track("async_event", user_id="u-2")
            assert await penstock.flush(PATIENCE_S)
            with pytest.raises(PenstockError) as unknown:
                await penstock.results("fun_unknown")
            assert (unknown.value.status, unknown.value.code) == (404, "not_found")

    with Penstock(served.url, **options) as penstock:
        penstock.track("viewed", visitor_id="v-1", timestamp=AT, properties={"plan": "pro"})
        penstock.identify("u-1", "v-1", {"plan": "pro"})
        penstock.transaction("bought", user_id="u-1", transaction_id="o-1", amount=9.5)
        penstock.transaction("bought", user_id="u-1", transaction_id="o-1", amount=9.5)
        assert penstock.flush(PATIENCE_S)
        funnel = {
            "name": "Shop",
            "steps": [{"type": "Transaction", "value": name} for name in ("bought", "sent")],
        }
        created = create(served.client, "/api/funnels", funnel)
        results = penstock.results(created["id"], page_size=5)
        assert results["aggregate"]["entered"] == 1
        with Penstock(
            served.url, **(options | {"website_id": new_website(served.client)})
        ) as other:
            assert other.results(created["id"])["aggregate"]["entered"] == 0
            of_all = other.results(created["id"], website_id=None)
            assert of_all["aggregate"]["entered"] == 1
        imported = penstock.import_file(b'{"type": "event", "name": "old", "timestamp": 1e12}\n')
        assert penstock.import_state(imported["id"])["id"] == imported["id"]
    loops.run(use_async)
    stored = {event["name"]: event for event in recent(served)}
    assert stored["viewed"]["occurredAt"] == "2026-05-01T10:00:00.000Z"
    assert stored["viewed"]["properties"] == {"plan": "pro"}
    assert {"bought", "async_event"} <= set(stored)


def test_items_of_pages_and_apps_are_stored_without_the_device_of_the_program(
    served: Served, options: dict[str, Any]
) -> None:
    with sending(served, **options) as penstock:
        url = "https://shop.example/pricing?utm_source=news"
        penstock.track_item("pageview", visitor_id="v-2", url=url, timestamp=AT)
        penstock.track("between", visitor_id="v-2")
        penstock.track_item("screenview", visitor_id="v-2", screen="Home")
        penstock.track_item("event", visitor_id="v-2", name="tapped", session_id="s-1")
        for _ in range(2):
            penstock.track_item("transaction", visitor_id="v-2", name="paid", dedupe_key="o-2")
    stored = [
        event for event in recent(served) if event["clientEventId"] and event["device"] is None
    ]
    kinds = {event["name"]: event["kind"] for event in stored}
    assert kinds.items() >= {
        ("/pricing", "pageview"),
        ("Home", "screenview"),
        ("tapped", "event"),
        ("paid", "transaction"),
    }
    assert [event["name"] for event in stored].count("paid") == 1
    [page] = [event for event in stored if event["name"] == "/pricing"]
    assert (page["utmSource"], page["occurredAt"]) == ("news", "2026-05-01T10:00:00.000Z")


def set_clock(monkeypatch: pytest.MonkeyPatch, at: datetime) -> None:
    monkeypatch.setattr("penstock_sdk.events.time_ns", lambda: round(at.timestamp() * 1e9))


def time_of_next_event(**fields: Any) -> timedelta:
    """The time of a new event, since AT."""
    entry = event_entry(EVENTS, "w", "a", {"user_id": "u", **fields})
    return datetime.fromisoformat(entry.body["timestamp"]) - AT


def test_events_of_one_millisecond_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A given time stays, a burst runs at most a second ahead, and a clock that is set back further
    starts anew.
    """
    ms = timedelta(milliseconds=1)
    set_clock(monkeypatch, AT)
    assert [time_of_next_event() for _ in range(3)] == [0 * ms, 1 * ms, 2 * ms]
    assert time_of_next_event(timestamp=AT + 500 * ms) == 500 * ms
    item = item_entry("w", "event", {"name": "a", "visitor_id": "v"})
    assert item.body["timestamp"] == (AT + 3 * ms).isoformat()
    burst = [time_of_next_event() for _ in range(1_500)]
    assert burst == [min(number, 1_000) * ms for number in range(4, 1_504)]
    for clock, expected in ((300, 1_001), (2_000, 2_000), (1_500, 2_001), (900, 900)):
        set_clock(monkeypatch, AT + clock * ms)
        assert time_of_next_event() == expected * ms


def test_a_visitor_funnel_counts_events_of_one_moment(
    served: Served, options: dict[str, Any]
) -> None:
    names = ("moment_a", "moment_b", "moment_c")
    funnel = {
        "name": "Moments",
        "countingUnit": "visitor",
        "steps": [{"type": "Event", "value": name} for name in names],
    }
    created = create(served.client, "/api/funnels", funnel)
    with sending(served, **options) as penstock:
        for number in range(12):
            for name in names:
                penstock.track(name, user_id=f"moment-{number}")
        assert penstock.flush(PATIENCE_S)
        results = penstock.results(created["id"])
    assert [step["count"] for step in results["aggregate"]["steps"]] == [12, 12, 12]


def test_threads_never_share_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    set_clock(monkeypatch, AT + timedelta(days=1))
    with ThreadPoolExecutor(8) as pool:
        times = list(pool.map(lambda _: time_of_next_event(), range(800)))
    assert len(set(times)) == 800


def outbox_of(*names: str, entries: int = 10) -> Outbox:
    """An outbox with events of these names."""
    outbox = Outbox(None, entries)
    for name in names:
        outbox.add(event_entry(EVENTS, "w", name, {"user_id": "u"}))
    return outbox


def next_of(delivery: Delivery) -> Request:
    request = delivery.next_request()
    assert request is not None
    return request


def test_a_refused_event_costs_no_other_and_is_reported(
    served: Served, options: dict[str, Any]
) -> None:
    refused = list[Refusal]()
    with sending(served, **options, on_refused=refused.append) as penstock:
        penstock.track("x" * 201, user_id="u-1")
        penstock.track("fine", user_id="u-1")
        penstock.transaction("bought", user_id="u-1", currency="euros")
        penstock.track_item("screenview", visitor_id="v-1")
    texts = [str(refusal).partition(" was not stored. ")[2] for refusal in refused]
    assert [text.partition(":")[0] for text in texts] == ["event", "currency", "screen"]
    assert "fine" in {event["name"] for event in recent(served)}


def test_penstock_keeps_all_events_that_it_refuses_however_many_come_at_once(
    served: Served, options: dict[str, Any], tmp_path: Path
) -> None:
    """Each can be replayed after a fix."""
    refused = list[Refusal]()
    waiting = Penstock("http://127.0.0.1:9", **options, spill_to=tmp_path)
    for number in range(250):
        waiting.track("refused", user_id="u-1", properties={"$number": number})
    waiting.close(timeout_s=0)
    with sending(served, **options, spill_to=tmp_path, on_refused=refused.append):
        pass
    assert len(refused) == 250
    query = {"websiteId": options["website_id"]}
    export = served.client.get("/api/events/refused/export", params=query)
    contents = [line["content"] for line in map(json.loads, export.text.splitlines())]
    assert sum("$number" in str(content) for content in contents) == 250


def test_fields_are_those_of_the_api(served: Served) -> None:
    schemas = served.client.get("/api/openapi.json").json()["components"]["schemas"]
    for fields, schema, also in (
        (EventFields, "ServerEvent", {"websiteId", "event"}),
        (TransactionFields, "TransactionEvent", {"websiteId", "event"}),
        (ItemFields, "TrackItem", {"websiteId", "type"}),
    ):
        sent = {camel(name) for name in fields.__annotations__} | also
        assert sent <= set(schemas[schema]["properties"])
    types = schemas["TrackItem"]["properties"]["type"]["enum"]
    assert set(get_args(ItemType)) == set(types)


@pytest.mark.parametrize(
    "fields",
    [{}, {"user_id": "u-1", "timestamp": datetime(2026, 5, 1)}],  # noqa: DTZ001
)
def test_what_can_never_be_stored_is_an_error_at_once(tmp_path: Path, fields: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        Penstock("http://127.0.0.1:9", api_key="k", website_id="w").track("a", **fields)


@pytest.mark.parametrize("timestamp", ["soon", 1_790_000_000_000, 1.5, True])
def test_a_timestamp_that_is_no_time_is_a_type_error(timestamp: Any) -> None:
    with pytest.raises(TypeError, match="timestamp"):
        event_entry(EVENTS, "w", "a", {"user_id": "u", "timestamp": timestamp})


@pytest.mark.parametrize("host", ["penstock.example", "127.0.0.1:8000", ""])
def test_a_host_without_a_scheme_is_an_error_at_once(host: str) -> None:
    with pytest.raises(ValueError, match="scheme"):
        Penstock(host, api_key="k", website_id="w")


def test_whole_number_ids_and_text_times_are_stored(
    served: Served, options: dict[str, Any]
) -> None:
    with sending(served, **options) as penstock:
        penstock.track("numbered", user_id=77, event_id=0, timestamp="2026-05-01T10:00:00Z")
        penstock.identify(77, 78)
    assert "numbered" in {event["name"] for event in recent(served)}


def test_an_attempt_of_a_browser_continues_behind_its_last_number(
    served: Served, options: dict[str, Any]
) -> None:
    """Sequence numbers of browsers rise by thousands and end in digits of their tab."""
    with sending(served, **options) as penstock:
        attempt = penstock.attempt(
            "c-1", attempt_property="checkoutId", sequence_property="n", after=3_417
        )
        for name in ("continued_1", "continued_2"):
            attempt.track(name, visitor_id="v", properties={"plan": "pro"})
        assert attempt.last_number == 5_000
    stored = {event["name"]: event["properties"] for event in recent(served)}
    for number, name in ((4_000, "continued_1"), (5_000, "continued_2")):
        assert stored[name] == {"plan": "pro", "checkoutId": "c-1", "n": number}


def test_log_lines_name_the_package(caplog: pytest.LogCaptureFixture) -> None:
    delivery = Delivery(Outbox(None, 10), lambda refusal: None)
    delivery.record_error(httpx.ConnectError("no"))
    assert all("penstock_sdk" in record.getMessage() for record in caplog.records)
    assert caplog.records


def lost_on_devices(served: Served) -> int:
    websites = served.client.get("/api/events/counts").json()["data"]
    return sum(counts["lostOnDevices"] for counts in websites)


@pytest.mark.parametrize("is_async", [True, False])
def test_an_event_beyond_the_limit_is_an_error_and_the_next_one_states_the_loss(
    served: Served, options: dict[str, Any], tmp_path: Path, *, is_async: bool
) -> None:
    """The number is also known after a restart, and stated once."""
    limited: dict[str, Any] = {**options, "spill_to": tmp_path, "max_waiting": 1}

    def lose_three() -> None:
        penstock = Penstock("http://127.0.0.1:9", **limited)
        penstock.track("first", user_id="u-1")
        for call in (penstock.track, penstock.track, penstock.transaction):
            with pytest.raises(Full):
                call("dropped", user_id="u-1")
        with pytest.raises(Full):
            penstock.identify("u-1", "v-1")
        penstock.close(timeout_s=0)

    async def send_async() -> None:
        async with AsyncPenstock(served.url, **limited) as penstock:
            for name in ("later", "last"):
                assert await penstock.flush(PATIENCE_S)
                penstock.track(name, user_id="u-1")

    def send() -> None:
        with Penstock(served.url, **limited) as penstock:
            for name in ("later", "last"):
                assert penstock.flush(PATIENCE_S)
                penstock.transaction(name, user_id="u-1")

    before = lost_on_devices(served)
    lose_three()
    if is_async:
        loops.run(send_async)
    else:
        send()
    assert lost_on_devices(served) == before + 3


def test_a_close_that_does_not_wait_ends_the_delivery_without_an_error(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the next request was taken from the outbox just before."""
    errors, is_sending = list[object](), threading.Event()
    monkeypatch.setattr(threading, "excepthook", errors.append)
    penstock = Penstock("http://127.0.0.1:9", **options)
    next_request = penstock._delivery.next_request

    def once_closed() -> Request | None:
        is_sending.set()
        eventually(lambda: penstock._http.is_closed)
        return next_request()

    monkeypatch.setattr(penstock._delivery, "next_request", once_closed)
    penstock.track("late", user_id="u-1")
    assert is_sending.wait(PATIENCE_S)
    penstock.close(timeout_s=0)
    penstock._thread.join(PATIENCE_S)
    assert errors == []


def test_retries_wait_longer_and_as_long_as_the_server_says() -> None:
    delivery = Delivery(Outbox(None, 1), print)
    waits = [delivery.record_failure() for _ in range(10)]
    assert all(0.25 * 2**n <= wait <= 30 for n, wait in enumerate(waits[:6]))
    assert all(15 <= wait <= 30 for wait in waits[6:])
    assert delivery.record_failure("120") == 120
    # No lock of Python can wait for that many seconds.
    assert delivery.record_failure("9" * 12) == 86_400


class Answers(Delivery):
    """A delivery with one waiting transaction, and what a server said to it."""

    def __init__(self, refused: list[Refusal]) -> None:
        self.outbox = Outbox(None, 10)
        self.outbox.add(event_entry(TRANSACTIONS, "w", "bought", {"user_id": "u"}))
        super().__init__(self.outbox, refused.append)

    def wait_after(self, response: httpx.Response) -> float:
        return self.record_answer(next_of(self), response)


@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(200, text="<html>Back soon</html>"),
        httpx.Response(200, json=[]),
        httpx.Response(200, json={"status": "ok"}),
        httpx.Response(200, json={"results": "ok"}),
        httpx.Response(502, json={"code": 502, "errors": ["text"]}),
        httpx.Response(502, json={"code": 502, "errors": {"text": 1}}),
        httpx.Response(302, headers={"Location": "https://penstock.example"}),
        httpx.Response(503, json={}),
    ],
)
def test_only_an_answer_of_penstock_removes_an_event(response: httpx.Response) -> None:
    delivery = Answers([])
    assert delivery.wait_after(response) > 0
    assert len(delivery.outbox) == 1


NOT_OWNED = {"code": "website_not_owned", "message": "No such website."}


@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(401, json={"code": "key_not_valid", "detail": "The key is not valid."}),
        httpx.Response(401, json={"code": "website_not_owned", "detail": "No such website."}),
        httpx.Response(202, json={"results": [{"errors": [NOT_OWNED]}]}),
        httpx.Response(403, json={"code": "forbidden", "detail": "No."}),
        httpx.Response(403, text="<html>Firewall</html>"),
        httpx.Response(404),
        httpx.Response(413, text="<html>Too large</html>"),
        httpx.Response(413, json={"code": 413, "errors": ["text"]}),
        httpx.Response(422, json={"errors": ["not of Penstock"]}),
    ],
)
def test_an_answer_that_is_not_about_an_event_keeps_it_and_is_logged_once(
    response: httpx.Response, caplog: pytest.LogCaptureFixture
) -> None:
    refused = list[Refusal]()
    delivery = Answers(refused)
    waits = [delivery.wait_after(response) for _ in range(10)]
    assert waits[-1] >= 15
    assert (len(delivery.outbox), refused) == (1, [])
    [record] = caplog.records
    assert "Events wait. Check host, website_id, api_key and firewall." in record.getMessage()
    assert delivery.wait_after(httpx.Response(202, json={"visitorId": "v"})) == 0
    assert len(delivery.outbox) == 0


@contextmanager
def host(answer: Callable[[Any], tuple[int, Any]]) -> Iterator[str]:
    """The URL of a host that is no Penstock. answer: to a body, status and body."""

    class Host(Answering, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, content = answer(sent)
            self.answer(status, "application/json", json.dumps(content).encode())

    with http_server(Host) as url:
        yield url


@pytest.mark.parametrize("is_reached", [True, False])
def test_an_error_on_the_way_is_logged_once_and_the_event_waits(
    caplog: pytest.LogCaptureFixture, *, is_reached: bool
) -> None:
    """With its traceback, where nobody thought of it."""
    with host(lambda _: (200, {"results": [{"errors": 5}]})) as strange:
        url = strange if is_reached else "http://127.0.0.1:9"
        penstock = Penstock(url, api_key="psk_1", website_id="web_1")
        penstock.track("kept", user_id="u-1")
        eventually(lambda: penstock._delivery._failures > 1)
        penstock.close(timeout_s=0)
    assert penstock.waiting == 1
    [record] = [record for record in caplog.records if record.name == "penstock_sdk"]
    error = "TypeError" if is_reached else "ConnectError"
    assert record.getMessage().startswith(f"penstock_sdk: no answer ({error}). Events wait. Check ")
    assert (record.exc_info is not None) == is_reached


@pytest.mark.parametrize("status", [400, 413, 422])
def test_what_penstock_refuses_of_an_event_is_reported(status: int) -> None:
    refused = list[Refusal]()
    delivery = Answers(refused)
    problem = {"code": "too_large", "detail": "At most 64 KB."}
    assert delivery.wait_after(httpx.Response(status, json=problem)) == 0
    assert len(delivery.outbox) == 0
    assert [str(refusal) for refusal in refused] == ["bought was not stored. body: At most 64 KB."]


def test_an_event_that_a_firewall_refuses_waits_and_does_not_hold_up_the_others() -> None:
    outbox, stored = outbox_of(*"abcdef"), list[str]()
    delivery = Delivery(outbox, print)
    for _ in range(20):
        request = next_of(delivery)
        names = [entry.body["event"] for _, entry in request.entries]
        if "c" in names:
            delivery.record_answer(request, httpx.Response(403, text="<html>"))
        else:
            delivery.record_answer(
                request, httpx.Response(202, json={"results": [{} for _ in names]})
            )
            stored += names
    assert sorted(stored) == ["a", "b", "d", "e", "f"]
    assert len(outbox) == 1


def test_a_new_event_does_not_wait_for_those_that_a_firewall_refuses() -> None:
    outbox = outbox_of(*"abcdef")
    delivery, tried = Delivery(outbox, print), list[str]()
    for _ in range(20):
        request = next_of(delivery)
        tried.append(request.body["events"][0]["event"])
        delivery.record_answer(request, httpx.Response(403))
    assert set(tried[-6:]) == set("abcdef")
    outbox.add(event_entry(EVENTS, "w", "new", {"user_id": "u"}))
    request = next_of(delivery)
    assert [entry.body["event"] for _, entry in request.entries] == ["new"]


def test_an_event_that_a_firewall_refuses_delays_no_new_one_and_is_not_tried_with_each() -> None:
    refused = list[Any]()

    def answer(body: Any) -> tuple[int, Any]:
        if "poison" in str(body):
            refused.append(body)
            return 403, {}
        return 202, {"results": [{} for _ in body["events"]]}

    with host(answer) as url:
        penstock = Penstock(url, api_key="psk_1", website_id="web_1")
        penstock.track("poison", user_id="u-1")
        eventually(lambda: refused)
        for _ in range(5):
            penstock.track("new", user_id="u-1")
            eventually(lambda: penstock.waiting == 1)
        penstock.close(timeout_s=0)
    assert len(refused) == 1


@pytest.mark.parametrize("answer", [{}, {"results": "a"}, {"results": []}])
def test_a_batch_needs_a_result_for_each_event(answer: Any) -> None:
    outbox = outbox_of("a", entries=1)
    delivery = Delivery(outbox, print)
    request = next_of(delivery)
    assert delivery.record_answer(request, httpx.Response(200, json=answer)) > 0
    assert len(outbox) == 1


def key_of_another_website(served: Served) -> str:
    login = {"email": "owner@example.com", "password": "correct horse battery"}
    website_id = new_website(served.client, "B")
    with http_client(served.url) as session:
        session.post("/api/auth/login", json=login)
        return new_key(session, websiteId=website_id, scopes=["ingest"])


@pytest.mark.parametrize("is_valid", [False, True])
def test_events_wait_for_the_right_key(
    served: Served, options: dict[str, Any], tmp_path: Path, *, is_valid: bool
) -> None:
    """A key of another website gets 202 for a batch, with the fault at each event."""
    wrong_key = key_of_another_website(served) if is_valid else "psk_old"
    first = Penstock(served.url, **{**options, "api_key": wrong_key}, spill_to=tmp_path)
    names = {f"{name}_{is_valid}" for name in ("a", "b", "bought")}
    first.track(f"a_{is_valid}", user_id="u-1")
    first.track(f"b_{is_valid}", user_id="u-1")
    first.transaction(f"bought_{is_valid}", user_id="u-1")
    first.identify("u-1", "v-1")
    eventually(lambda: first._delivery._failures)
    first.close(timeout_s=0)
    with sending(served, **options, spill_to=tmp_path):
        pass
    assert {event["name"] for event in recent(served)} >= names


def test_an_error_of_the_program_does_not_end_the_delivery() -> None:
    outbox = Outbox(None, 1)
    outbox.add(event_entry(TRANSACTIONS, "w", "bought", {"user_id": "u"}))
    delivery = Delivery(outbox, lambda _: 1 / 0)
    request = next_of(delivery)
    refusal = httpx.Response(422, json={"code": "invalid", "detail": "no"})
    assert delivery.record_answer(request, refusal) == 0


def test_a_transaction_always_has_an_id() -> None:
    entry = event_entry(TRANSACTIONS, "w", "bought", {"user_id": "u", "transaction_id": None})
    assert entry.body["eventId"]


def test_metadata_names_somebody() -> None:
    attempt = {"checkoutId": "c-1"}
    assert metadata(visitor_id="v-1", attempt=attempt) == {**attempt, "visitorId": "v-1"}
    with pytest.raises(ValueError, match="required"):
        metadata(attempt=attempt)


_SENDER = """
import itertools, json, sys, time
from penstock_sdk import Penstock

url, options = sys.argv[1], json.loads(sys.argv[2])
penstock = Penstock(url, **options)
for number in itertools.count(int(sys.argv[3])):
    penstock.track(f"event-{number}", user_id=f"u-{number % 7}")
    print(number, flush=True)
    time.sleep(0.001)
"""


@pytest.mark.full("kills a service and a sender")
@pytest.mark.usefixtures("starts_service")
@pytest.mark.slow("kills the service and the sender again and again")
def test_kills_of_service_and_sender_lose_and_double_nothing(tmp_path: Path) -> None:
    """What `track` returned for is stored once, after the last sender read its folder again."""
    chance = random.Random(3)
    data, spill = tmp_path / "data", tmp_path / "spill"
    queued, first_number = set[str](), 0
    served = Served(data)
    try:
        key, website_id = served.first_account()
        port = served.url.rpartition(":")[2]
        options = {"api_key": key, "website_id": website_id, "spill_to": str(spill)}
        for turn in range(4):
            sender = subprocess.Popen(
                [sys.executable, "-c", _SENDER, served.url, json.dumps(options), str(first_number)],
                stdout=subprocess.PIPE,
                text=True,
                env={"PYTHONPATH": ":".join(sys.path)},
            )
            assert sender.stdout is not None
            first = sender.stdout.readline()
            time.sleep(chance.uniform(0.1, 0.4))
            if turn % 2:
                served.kill()
                served = Served(data, "--port", port)
            sender.send_signal(signal.SIGTERM if turn == 3 else signal.SIGKILL)
            numbers = [int(line) for line in (first, *sender.stdout.read().split())]
            sender.wait(PATIENCE_S)
            queued |= {f"event-{number}" for number in numbers}
            first_number = max(numbers) + 2  # One may be queued and not told.
        with Penstock(served.url, **options) as last:
            assert last.flush(PATIENCE_S)
        served.await_shipped()
        assert served.stop() == 0
    finally:
        served.kill()
    stored = Counter(name for (name,) in rows_of(data, "SELECT name FROM events"))
    print(f"{len(queued)} events made, {len(queued & stored.keys())} stored, {stored.total()} rows")
    assert queued <= stored.keys(), "lost"
    assert len(stored.keys() - queued) <= 4
    assert max(stored.values()) == 1, "twice"
