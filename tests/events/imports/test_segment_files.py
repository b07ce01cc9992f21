"""Files of Segment and RudderStack calls: the same mapping as that of calls that are sent."""

import json

import pytest

from tests.events.imports.conftest import assert_faulty_rejected, between, importer, rejects, stored
from tests.records import new_key, new_website

pytestmark = pytest.mark.usefixtures("warehouse")

BROWSER = (
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/124.0.0.0 Safari/537.36"
)


def call(kind="track", /, **more):
    name = {"event": "e"} if kind == "track" else {}
    return {
        "type": kind,
        "anonymousId": "v",
        "timestamp": "2024-05-01T10:00:00.000Z",
        **name,
        **more,
    }


import_calls = importer("segment")


CALLS = [
    call(event="a", properties={"plan": "pro"}, messageId="m-1"),
    call("page", name="Home", properties={"path": "/a/", "title": "A", "n": 1}, messageId="m-2"),
    call("screen", name="Home", messageId="m-3"),
    call(
        event="Order Completed", messageId="m-4",
        properties={"revenue": 9.5, "order_id": "o-1", "currency": "EUR"},
    ),
    call(
        event="b", messageId="m-5",
        context={
            "userAgent": BROWSER, "campaign": {"source": "news", "name": "spring"},
            "page": {"url": "https://a.example/b", "referrer": "https://b.example/"},
        },
    ),
]  # fmt: skip
COLUMNS = (
    "toString(kind), name, path, title, referrer, utm_source, utm_campaign, os, browser, properties"
)


def test_a_call_in_a_file_is_the_event_that_the_sent_call_is(import_calls, workspace, services):
    import_calls(*CALLS)
    in_file = sorted(stored(services, workspace.website_id, COLUMNS))
    other = new_website(workspace.client, "Other")
    key = new_key(workspace.browser, scopes=["ingest"], websiteId=other)
    sent = workspace.client.post("/v1/batch", json={"batch": CALLS, "writeKey": key})
    assert (sent.status_code, sent.json().get("rejected")) == (200, None), sent.text
    for event, sent_event in zip(in_file, sorted(stored(services, other, COLUMNS)), strict=True):
        assert event[:-1] == sent_event[:-1]
        assert json.loads(event[-1] or "{}") == json.loads(sent_event[-1] or "{}")


NO_IDS = ({"a": 1}, {}, ["a"], [], 1.5, True)
IDS = (("identify", "anonymousId"), ("alias", "previousId"), ("identify", "userId"))


def test_an_id_that_is_no_text_rejects_its_line_only(import_calls, workspace):
    lines = [
        call(kind, **{"anonymousId": "v", "previousId": "v", "userId": "u", field: sent})
        for kind, field in IDS
        for sent in NO_IDS
    ]
    job = import_calls(call(), *lines, call(event="after"))
    assert (job["state"], job["accepted"], job["rejected"]) == ("done", 2, len(lines))
    assert [
        (reject["line"], [(fault["field"], fault["code"]) for fault in reject["errors"]])
        for reject in rejects(workspace.client, job)
    ] == [
        (number, [(IDS[(number - 2) // len(NO_IDS)][1], "wrong_type")])
        for number in range(2, len(lines) + 2)
    ]


def test_users_are_linked_with_their_traits_and_groups_are_ignored(
    import_calls, workspace, services
):
    job = import_calls(
        call(),
        call("identify", userId="u", traits={"plan": "pro", "$os": "iOS"}),
        call("identify", userId="u", timestamp="2023-01-01T10:00:00Z", traits={"plan": "free"}),
        call("alias", anonymousId=None, previousId="w", userId="u"),
        call("identify"),
        call("group", groupId="g"),
    )
    assert (job["accepted"], job["identifyLines"], job["ignoredLines"]) == (1, 3, 2)
    stored(services, workspace.website_id)
    record = workspace.client.get("/api/visitors/w").json()
    assert set(record["ids"]) == {"v", "w"}
    assert record["user"]["traits"] == {"plan": "pro", "os": "iOS"}


def test_signs_of_properties_fields_of_orders_and_missing_times(import_calls, workspace, services):
    job = import_calls(
        call(properties={"$value": 1, "value": 2}),
        call(event="order completed", properties={"amount": "much", "currency": "euro"}),
        {"type": "track", "event": "late", "userId": 7, "receivedAt": "2024-05-01T11:00:00Z"},
    )
    assert (job["accepted"], job["rejected"]) == (3, 0)
    rows = stored(services, workspace.website_id, "name, user_id, properties")
    assert [(name, user, json.loads(own or "{}")) for name, user, own in rows] == [
        ("e", "", {"value": 2, "segment_value": 1}),
        ("order completed", "", {"segment_amount": "much", "segment_currency": "euro"}),
        ("late", "7", {}),
    ]


FAULTY = [
    ({"type": "delete"}, "type"),
    (call(timestamp=None), "timestamp"),
    (call(anonymousId=None), "visitorId"),
    (call(event=None), "name"),
    (call("alias", userId="u"), "visitorId"),
    (call(properties=[1]), "properties"),
]


def test_a_faulty_line_costs_no_other_line(import_calls, client):
    job = import_calls(*between(call(), FAULTY))
    assert_faulty_rejected(client, job, FAULTY)
