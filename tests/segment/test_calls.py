"""How each call of the tracking protocol is stored."""

import pytest

from tests.answers import columns_of
from tests.conftest import ShiftedClock
from tests.events.test_track import CHROME
from tests.segment.conftest import Client, Json, Stored, plans_of, rejected
from tests.tenant import Tenant

PAGE = {
    "path": "/pricing", "url": "https://shop.example/pricing?utm_source=mail", "title": "Prices",
    "referrer": "https://News.example/a", "search": "?utm_source=mail",
}  # fmt: skip
_UNSTABLE = ("visitor_key", "received_at", "scalars", "hashes", "event_id", "scope_id")


def without_unstable(row: Json) -> Json:
    return {name: value for name, value in row.items() if name not in _UNSTABLE}


def at(clock: ShiftedClock, seconds: float = 0) -> int:
    return clock() + round(seconds * 1000)


def test_a_track_call_is_an_event(
    public: Client, stored: Stored, site: str, clock: ShiftedClock
) -> None:
    at_ms = at(clock, -60)
    answer = public.call(
        "track", event="Checkout Step Completed", messageId="m-1", timestamp=at_ms, sentAt=clock(),
        properties={"checkout_id": "c-1", "step": 2},
        context={
            "page": PAGE, "campaign": {"name": "may", "source": "mail"}, "userAgent": CHROME,
            "library": {"name": "analytics.js", "version": "next-1"}, "traits": {"$x": 1},
        },
        integrations={}, _metadata={"bundled": []},
    )  # fmt: skip
    assert answer.json() == {"success": True}
    [row] = stored()
    assert without_unstable(row) == {
        "website_id": site, "kind": "event", "name": "Checkout Step Completed",
        "source": "browser", "client_event_id": "m-1", "visitor_id": "anon-1",
        "path": "/pricing", "url": PAGE["url"], "title": "Prices", "referrer": PAGE["referrer"],
        "referrer_host": "news.example", "utm_source": "mail", "utm_campaign": "may",
        "device": "desktop", "os": "Windows", "browser": "Chrome",
        "occurred_at": at_ms, "stated_at": at_ms,
        "properties": '{"checkout_id":"c-1","step":2}',
    }  # fmt: skip


@pytest.mark.parametrize("where", ["properties", "context"])
def test_a_page_call_is_a_page_view(public: Client, stored: Stored, where: str) -> None:
    more: Json = {"properties": {**PAGE, "plan": "b"}}
    if where == "context":
        more = {"context": {"page": PAGE}, "properties": {"plan": "b"}}
    assert public.call("page", name="Pricing", category="Shop", **more).json() == {"success": True}
    [row] = stored()
    assert (row["kind"], row["name"], row["path"]) == ("pageview", "/pricing", "/pricing")
    assert (row["title"], row["utm_source"]) == ("Prices", "mail")
    search = '"search":"?utm_source=mail",' if where == "properties" else ""
    assert row["properties"] == ('{"name":"Pricing","category":"Shop",' + search + '"plan":"b"}')


def test_a_screen_call_is_a_screen_view(trusted: Client, stored: Stored) -> None:
    trusted.call("screen", name="Checkout", properties={"checkout_id": "c-1"})
    [row] = stored()
    assert (row["kind"], row["name"], row["source"]) == ("screenview", "Checkout", "server")


def test_an_order_is_a_transaction_by_its_name(trusted: Client, stored: Stored) -> None:
    order = {"order_id": "o-1", "revenue": 9.5, "total": 12, "currency": "EUR"}
    calls = {
        "Order Completed": order,
        "order_refunded": {"order_id": 7, "total": 12},
        "Completed-Order": {"revenue": "9.5", "amount": 3},
        "completed order": {"revenue": "19.99"},
        "Checkout Started": order,
        "Order Updated": order,
        "Payment Info Entered": order,
    }
    trusted.batch(
        *(
            {"type": "track", "userId": "u", "event": event, "properties": properties}
            for event, properties in calls.items()
        )
    )
    rows = stored()
    assert [(row["kind"], row["name"]) for row in rows] == [
        ("transaction" if index < 4 else "event", event) for index, event in enumerate(calls)
    ]
    assert [row["properties"].partition('"order_id"')[0] for row in rows] == [
        '{"amount":9.5,"transactionId":"o-1",',
        '{"amount":12,"transactionId":"7",',
        '{"amount":3,"revenue":"9.5"}',
        '{"amount":19.99,"revenue":"19.99"}',
        *["{"] * 3,
    ]


FAULTS: list[tuple[str, Json, dict[str, str]]] = [
    ("track", {}, {"event": "required"}),
    ("track", {"event": 5}, {"event": "wrong_type"}),
    ("track", {"event": "e", "anonymousId": ""}, {"anonymousId": "identity_required"}),
    ("track", {"event": "e", "messageId": "x" * 201}, {"messageId": "too_long"}),
    ("track", {"event": "e", "properties": [1]}, {"properties": "wrong_type"}),
    ("track", {"event": "e", "properties": {"$a": 1}}, {"properties.$a": "reserved_property"}),
    ("track", {"event": "e", "timestamp": "soon", "sentAt": "x"},
     {"timestamp": "not_a_time", "sentAt": "not_a_time"}),
    ("track", {"event": "e", "context": {"page": {"path": "/\x00"}}},
     {"context.page.path": "nul_character"}),
    ("page", {"name": "Home"}, {"properties.path": "required"}),
    ("page", {"properties": {"path": "home"}}, {"properties.path": "not_a_path"}),
    ("page", {"properties": {"url": "mailto:a@b.example"}}, {"properties.url": "not_a_url"}),
    ("screen", {}, {"name": "required"}),
    ("identify", {"anonymousId": None}, {"anonymousId": "identity_required"}),
    ("identify", {"userId": "u", "traits": {"a": {"$b": "\x00"}}},
     {"traits.a.$b": "nul_character"}),
    ("identify", {"userId": "u", "context": {"userHash": "00"}},
     {"context.userHash": "wrong_signature"}),
    ("alias", {"userId": "u"}, {"previousId": "required"}),
    ("alias", {"previousId": "p"}, {"userId": "required"}),
]  # fmt: skip


def test_a_fault_has_the_name_of_the_field_in_the_call(public: Client) -> None:
    calls = [{"type": call_type, "anonymousId": "v", **fields} for call_type, fields, _ in FAULTS]
    assert rejected(public.batch(*calls)) == dict(enumerate(faults for _, _, faults in FAULTS))


def test_calls_of_a_batch_are_stored_independently(
    trusted: Client, workspace: Tenant, stored: Stored
) -> None:
    answer = trusted.batch(
        {"type": "track", "event": "a", "userId": "u"},
        {"type": "track", "userId": "u"},
        7,
        {"type": "delete"},
        {"type": "group", "userId": "u", "groupId": "g"},
        {"type": "track", "event": "b", "userId": "u"},
    )
    assert rejected(answer) == {
        1: {"event": "required"}, 2: {"": "wrong_type"}, 3: {"type": "not_one_of"},
    }  # fmt: skip
    assert [row["name"] for row in stored()] == ["a", "b"]
    entries = workspace.client.get("/api/events/refused").json()["data"]
    assert [
        (entry["route"], entry["websiteId"], entry["errors"][0]["field"]) for entry in entries
    ] == [("/v1/batch", workspace.website_id, field) for field in ("type", "", "event")]


def test_what_is_refused_is_kept_without_the_write_key(
    public: Client, workspace: Tenant, site: str
) -> None:
    public.http.post("/v1/track", json={"writeKey": site, "anonymousId": "a"})
    [entry] = workspace.client.get("/api/events/refused").json()["data"]
    assert entry["item"] == '{"anonymousId":"a","type":"track"}'
    [counts] = workspace.client.get("/api/events/counts").json()["data"]
    assert (counts["received"], counts["refused"]) == (1, 1)


@pytest.mark.parametrize("limits", [{"quarantine_rows": 3}])
def test_no_public_body_takes_the_place_of_a_trusted_one(
    public: Client, trusted: Client, workspace: Tenant
) -> None:
    for client, calls in ((trusted, "of-backend"), *[(public, 1)] * 5):
        assert client.post("/v1/batch", {"batch": calls}).status_code == 422
    entries = workspace.client.get("/api/events/refused").json()["data"]
    numbers = [entry["number"] for entry in entries]
    assert numbers == [max(numbers), max(numbers) - 1, max(numbers) - 5]
    assert {entry["websiteId"] for entry in entries} == {workspace.website_id}


def test_a_repeat_of_a_message_id_changes_nothing(trusted: Client, stored: Stored) -> None:
    call = {"type": "track", "event": "a", "userId": "u", "messageId": "m"}
    for retry in range(2):
        again = {**call, "_metadata": {"retryCount": retry}}
        answer = trusted.batch(again, again, sentAt=f"2026-01-01T00:00:0{retry}Z")
        assert answer.json() == {"success": True}
    assert len(stored()) == 1


def test_a_public_repeat_cannot_use_up_a_message_id_of_a_backend(
    public: Client, trusted: Client, stored: Stored
) -> None:
    for client in (public, trusted):
        client.call("track", event="Order Completed", messageId="order-1")
    assert sorted(row["source"] for row in stored()) == ["browser", "server"]


def test_a_public_clock_is_corrected(public: Client, stored: Stored, clock: ShiftedClock) -> None:
    true_ms = at(clock, -10)
    for wrong_s in (3600, -86_400, -3600, 2):
        public.batch(
            {
                "type": "track", "event": str(wrong_s), "anonymousId": f"v{wrong_s}",
                "originalTimestamp": true_ms + wrong_s * 1000,
            },
            sentAt=at(clock, wrong_s),
        )  # fmt: skip
    by_name = {int(row["name"]): row for row in stored()}
    for wrong_s, row in by_name.items():
        assert row["stated_at"] == true_ms + wrong_s * 1000
        shown_ms = row["stated_at"] if wrong_s in (-3600, 2) else true_ms
        assert abs(row["occurred_at"] - shown_ms) < 2_000


def test_the_clock_of_a_backend_is_believed(
    trusted: Client, stored: Stored, clock: ShiftedClock
) -> None:
    past_ms = at(clock, -7200)
    sent_at_ms = at(clock, -3600)
    trusted.call("track", event="a", timestamp=past_ms, sentAt=sent_at_ms)
    [row] = stored()
    assert row["occurred_at"] == row["stated_at"] == past_ms
    assert rejected(trusted.call("track", event="a", timestamp=at(clock, 3600))) == {
        0: {"timestamp": "timestamp_in_future"}
    }


def test_the_users_of_a_batch_are_linked_in_its_order(
    trusted: Client, workspace: Tenant, stored: Stored
) -> None:
    answer = trusted.batch(
        {"type": "track", "event": "before", "anonymousId": "v"},
        {"type": "identify", "anonymousId": "v", "userId": "u", "traits": {"plan": "b"}},
        {"type": "track", "event": "after", "userId": "u"},
    )
    assert answer.json() == {"success": True}
    assert [row["visitor_id"] for row in stored()] == ["v", "v"]
    profile = workspace.client.get(f"/api/visitors/v?websiteId={workspace.website_id}").json()
    assert profile["userId"] == "u", profile


@pytest.mark.usefixtures("warehouse")
def test_traits_are_those_of_the_user(trusted: Client, workspace: Tenant) -> None:
    trusted.call("identify", userId="ada", traits={"plan": "b"})
    trusted.call("identify", userId="bob", context={"traits": {"plan": "b"}})
    for user_id in ("ada", "bob"):
        trusted.call("identify", userId=user_id, traits={})  # none: the earlier ones stay
    trusted.call("identify", traits={"plan": "c"})  # of nobody: nothing is stored
    for user_id in ("ada", "bob"):
        assert plans_of(workspace, user_id) == {"b"}


@pytest.mark.usefixtures("warehouse")
def test_late_calls_do_not_replace_newer_traits(
    trusted: Client, public: Client, workspace: Tenant, clock: ShiftedClock
) -> None:
    ada = {"userId": "ada"}
    trusted.call("identify", **ada, timestamp=at(clock, -60), traits={"plan": "b", "seats": 1})
    trusted.call("identify", **ada, timestamp=at(clock, -3600), traits={"plan": "a", "city": "B"})
    assert plans_of(workspace, "ada") == {"b"}
    trusted.call("identify", **ada, timestamp="yesterday", traits={"plan": "c"})
    assert plans_of(workspace, "ada") == {"c"}, "a call without a valid time is of now"
    # The device's clock is a day ahead. Its second call is from before the first.
    for plan, sent_s in (("e", 86_340), ("d", 82_800)):
        times = {"timestamp": at(clock, sent_s), "sentAt": at(clock, 86_400)}
        public.call("identify", anonymousId="v", userId="bob", **times, traits={"plan": plan})
    assert plans_of(workspace, "bob") == {"e"}


def test_a_conflict_of_an_alias_is_a_warning(trusted: Client) -> None:
    assert trusted.call("alias", previousId="v", userId="ada").json() == {"success": True}
    answer = trusted.call("alias", previousId="v", userId="bob").json()
    assert columns_of(answer["warnings"], "index", "code") == [(0, "identity_conflict")]
