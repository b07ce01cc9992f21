"""What the clients need of HTTP: addresses, encodings, answers and errors, CORS, settings."""

import gzip
import json
from collections import Counter
from typing import Any

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from tests.answers import problem
from tests.segment.conftest import Client, Stored, basic
from tests.tenant import visitor

TRACK = {"event": "a", "anonymousId": "v"}


def test_every_address_has_a_short_name(public: Client, stored: Stored) -> None:
    page, screen = {"properties": {"path": "/"}}, {"name": "Home"}
    batch, user = {"batch": [{**TRACK, "type": "track"}]}, {"userId": "u", "previousId": "v"}
    addresses: dict[tuple[str, ...], Any] = {
        ("track", "t"): TRACK, ("page", "p"): page, ("screen", "s"): screen,
        ("batch", "b", "import"): batch,
        ("identify", "i", "alias", "a", "group", "g", "m"): user,
    }  # fmt: skip
    for names, body in addresses.items():
        for name in names:
            answer = public.post(f"/v1/{name}", {"anonymousId": "v", **body})
            assert (answer.status_code, answer.json()) == (200, {"success": True}), name
    kinds = Counter(row["kind"] for row in stored())
    assert kinds == {"event": 5, "pageview": 2, "screenview": 2}


def test_an_unknown_address_is_404(public: Client) -> None:
    assert public.post("/v1/delete", TRACK).status_code == 404


def test_a_body_may_be_gzip_of_any_content_type(public: Client, stored: Stored) -> None:
    body = gzip.compress(json.dumps(TRACK).encode())
    for content_type in ("text/plain", "application/x-www-form-urlencoded", ""):
        headers = {"Content-Encoding": "gzip", "Content-Type": content_type}
        for content in (body, iter([body[:10], body[10:]])):
            answer = public.http.post(
                "/v1/track", content=content, headers=headers | basic(public.write_key)
            )
            assert answer.status_code == 200
    assert len(stored()) == 6


def test_an_error_has_code_and_message(public: Client) -> None:
    for address, body, status, code in (
        ("/v1/batch", b"{", 400, "not_json"),
        ("/v1/batch", b"[]", 422, "invalid"),
        ("/v1/batch", b"{}", 422, "invalid"),
        ("/v1/batch", json.dumps({"batch": [{}] * 1001}).encode(), 422, "invalid"),
        ("/v1/track", b" " * 3_000_000, 413, "too_large"),
    ):
        answer = public.http.post(address, content=body, headers=basic(public.write_key))
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (status, code)
        assert problem["message"] == problem["detail"]


@pytest.mark.parametrize("limits", [{"bodies_bytes": 20_000}])
def test_an_overload_is_429_with_a_time_to_retry(public: Client) -> None:
    answer = public.call("track", event="a", properties={"text": "x" * 20_000})
    problem = answer.json()
    assert (answer.status_code, problem["status"], problem["code"]) == (429, 429, "overloaded")
    assert answer.headers["retry-after"] == "5"
    assert problem["message"] == problem["detail"]
    assert answer.headers["access-control-allow-origin"] == "*"
    assert public.call("track", event="a").status_code == 200


@pytest.mark.parametrize("limits", [{"website_events_per_second": 1}])
def test_the_rate_of_a_website_is_429_with_a_time_to_retry(public: Client) -> None:
    calls = [{**TRACK, "type": "track"}] * 10
    assert public.batch(*calls).status_code == 200
    answer = public.batch(*calls)
    assert problem(answer) == (429, "rate_limited")
    assert 1 <= int(answer.headers["retry-after"]) <= 10


def test_any_website_may_send_calls(server: TestClient[Litestar]) -> None:
    for address, methods in {
        "/v1/t": "POST", "/beacon/v1/batch": "POST", "/v1/projects/x/settings": "GET, HEAD",
        "/sourceConfig": "GET, HEAD",
    }.items():  # fmt: skip
        answer = visitor(server).options(address)
        assert answer.status_code == 204
        assert answer.headers["access-control-allow-origin"] == "*"
        assert answer.headers["access-control-allow-methods"] == methods
        allowed = answer.headers["access-control-allow-headers"].split(", ")
        assert {"Authorization", "AnonymousId", "Content-Type"} <= set(allowed)


def test_settings_of_segment_lead_back_here(server: TestClient[Litestar], site: str) -> None:
    for prefix in ("", "/v1"):
        answer = visitor(server).get(f"{prefix}/projects/{site}/settings")
        assert answer.json()["integrations"] == {
            "Segment.io": {"apiKey": site, "apiHost": "testserver.local/v1", "protocol": "http"}
        }
        assert answer.headers["access-control-allow-origin"] == "*"
        assert visitor(server).get(f"{prefix}/projects/web_unknown/settings").status_code == 401


def test_settings_of_rudderstack_have_no_destinations(
    server: TestClient[Litestar], site: str
) -> None:
    by_header = visitor(server).get("/sourceConfig/", headers=basic(site))
    by_query = visitor(server).get(f"/sourceConfig?p=npm&v=3&writeKey={site}")
    assert by_header.json() == by_query.json()
    source = by_header.json()["source"]
    assert (source["id"], source["enabled"], source["destinations"]) == (site, True, [])
    assert visitor(server).get("/sourceConfig").status_code == 401
