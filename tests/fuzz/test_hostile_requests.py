"""Random headers and bodies of requests, to routes that read them: never a 5xx."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.examples import fuzz_settings
from tests.fuzz.texts import GZIP_BODIES, HEADER_VALUES, JSON_BODIES, JSON_VALUES, objects
from tests.providers.conftest import SECRETS, standard_headers, stripe_headers
from tests.tenant import visitor

HEADERS = {
    "Accept": ["text/html", "*/*", ";q=", ","],
    "Accept-Language": ["de", ";q=0.5", ","],
    "Authorization": ["Bearer ", "psk_", "Basic ", "QTpi"],
    "Content-Encoding": ["gzip", "deflate", ",", "br"],
    "Content-Length": ["0", "9", "-", " "],
    "Content-Type": ["application/json", "; charset=", "multipart/form-data; boundary=", '"', "x"],
    "Cookie": ["service_session=", ";", '"', "\\", "=", "__Host-service_session="],
    "Host": ["localhost", ":80", "[::1]", "@", "/"],
    "Origin": ["http://", "null", "testserver.local", ":"],
    "Prefer": ["respond-async", ";", '"', ","],
    "Referer": ["https://", "example.com", "[", "?"],
    "User-Agent": ["Mozilla/5.0 (", "iPhone", "WhatsApp/", ";"],
    "X-Forwarded-For": ["1.2.3.4", ",", "::1", "[", "]:80", "unknown"],
    "X-Forwarded-Proto": ["https", ",", "gopher"],
    "X-Request-Id": ["a", "-", "9" * 70],
    "X-Service-Identity-Contract": ["legacy-user-id", " "],
}
ANY_HEADERS = st.fixed_dictionaries(
    {},
    optional={
        name: HEADER_VALUES | st.lists(st.sampled_from(pieces), max_size=6).map("".join)
        for name, pieces in HEADERS.items()
    },
)
ITEM = (
    *(
        "websiteId",
        "visitorId",
        "userId",
        "event",
        "name",
        "type",
        "eventId",
        "timestamp",
        "sentAt",
    ),
    *("properties", "path", "url", "screen", "events", "amount", "currency", "transactionId"),
    *("traits", "userHash", "installId", "platform", "firstOpen", "installReferrer", "clickToken"),
    *("dedupeKey", "country", "referrer", "utmSource", "sessionId", "externalSessionId"),
)
FUNNEL = ("name", "steps", "countingUnit", "attemptProperty", "breakdownProperties", "goals")
POSTS = {
    "/api/v1/events": ITEM,
    "/api/v1/transactions": ITEM,
    "/api/v1/events/batch": ITEM,
    "/api/track": ITEM,
    "/api/identify": ITEM,
    "/api/mobile/deferred-links/resolve": ITEM,
    "/api/funnels/validate": FUNNEL,
    "/api/funnels/preview": FUNNEL,
    "/api/deletions": ("websiteId", "visitorId", "userId", "from", "to"),
}


def headers_on_wire(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]


def test_no_header_is_an_error_of_the_service(workspace, server):
    link = "/l/of-nobody"

    @fuzz_settings(40, times=10)
    @given(
        ANY_HEADERS,
        st.sampled_from(
            [
                ("GET", link),
                ("GET", "/funnels"),
                ("GET", "/api/funnels"),
                ("GET", "/api/schema/events"),
                ("POST", "/api/track"),
                ("POST", "/api/v1/events"),
                ("POST", "/api/auth/login"),
            ]
        ),
        st.booleans(),
    )
    def send(headers: dict[str, str], request: tuple[str, str], is_signed_in: bool) -> None:
        method, path = request
        client = workspace.client if is_signed_in else visitor(server)
        answer = client.request(method, path, headers=headers_on_wire(headers), content=b"{}")
        assert answer.status_code < 500, (answer.text, headers)

    send()


@pytest.mark.parametrize("host", ["localhost:99999", "localhost:80x", "[::1", ""])
@pytest.mark.parametrize("path", ["/api/nothing", "/api/funnels", "/funnels", "/nothing"])
def test_a_malformed_host_changes_no_answer(server, host, path):
    usual, answer = (
        visitor(server).get(path, headers={"Host": name} | {"Accept": "text/html,*/*"})
        for name in ("testserver.local", host)
    )
    assert answer.status_code == usual.status_code
    assert answer.headers["content-type"] == usual.headers["content-type"]


@pytest.mark.parametrize("path", POSTS)
def test_no_body_is_an_error_of_the_service(workspace, path):
    fields = objects(*POSTS[path])

    @fuzz_settings(15, times=5)
    @given(
        st.builds(lambda body, more: {**more, **body}, fields, st.fixed_dictionaries({})),
        st.booleans(),
        JSON_BODIES | GZIP_BODIES,
        st.sampled_from(["object", "object", "bytes", "gzip"]),
    )
    def send(content: dict[str, Any], has_website: bool, other: bytes, kind: str) -> None:
        if has_website:
            content = {**content, "websiteId": workspace.website_id}
        body = other if kind != "object" else json.dumps(content).encode("utf-8", "replace")
        headers = {"Content-Type": "application/json"}
        if kind == "gzip":
            headers["Content-Encoding"] = "gzip"
        answer = workspace.client.post(path, content=body, headers=headers)
        assert answer.status_code < 500, (answer.text, body)
        if answer.status_code >= 400:
            assert answer.json()["code"], body

    send()


@pytest.mark.parametrize("provider", ["stripe", "standardwebhooks"])
def test_no_signed_webhook_is_an_error_of_the_service(workspace, clock, provider):
    address = f"/api/settings/websites/{workspace.website_id}/providers/{provider}"
    secret = {"signingSecret": SECRETS[provider]}
    assert workspace.client.put(address, json=secret).status_code == 200
    thing = objects("id", "amount", "amount_refunded", "currency", "metadata", "customer", "email")
    metadata = objects("visitorId", "userId", "visitor_id", "user_id", "eventName", "websiteId")

    @fuzz_settings(20, times=10)
    @given(
        objects("id", "type", "created", "timestamp", "data", "livemode") | JSON_VALUES,
        st.sampled_from(["charge.refunded", "invoice.paid", "order.paid", "other"]),
        thing,
        metadata,
    )
    def deliver(event: Any, kind: str, thing: dict[str, Any], metadata: dict[str, Any]) -> None:
        if isinstance(event, dict):
            content = {**thing, "metadata": metadata}
            event = {
                "id": "evt_1",
                "created": clock() // 1000,
                **event,
                "type": kind,
                "data": {**content, "object": content},
            }
        body, now_s = json.dumps(event), clock() // 1000
        headers = (
            stripe_headers(body, now_s)
            if provider == "stripe"
            else standard_headers(body, now_s, SECRETS[provider], "msg_1")
        )
        answer = workspace.client.post(
            f"/api/providers/{provider}/{workspace.website_id}",
            content=body,
            headers={**headers, "Content-Type": "application/json"},
        )
        assert answer.status_code < 500, (answer.text, body)

    deliver()
