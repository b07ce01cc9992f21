"""What every request goes through: its ID, the rate of its address and website, safe headers."""

import re

import httpx
import pytest

from tests.edge.wire import connect, send
from tests.health.test_metrics import figures, logged
from tests.serving import Served, http_client

PER_10_S = 20


@pytest.fixture(scope="module")
def service(starts_service, tmp_path_factory):
    """Loopback is the proxy, as by default; tests name addresses of clients."""
    with Served(
        tmp_path_factory.mktemp("edge") / "data",
        PENSTOCK_ADDRESS_REQUESTS_PER_SECOND=str(PER_10_S // 10),
        PENSTOCK_WEBSITE_EVENTS_PER_SECOND="10",
        PENSTOCK_ADDRESS_CONNECTIONS="3",
        PENSTOCK_METRICS_PORT="0",
        PENSTOCK_LOG_LEVEL="debug",
    ) as service:
        service.website_id = service.first_account()[1]
        yield service


def statuses(service, address, *, path="/health/live", count=PER_10_S + 2, method="GET", **more):
    return [
        service.client.request(
            method, path, headers={"X-Forwarded-For": address}, **more
        ).status_code
        for _ in range(count)
    ]


EVENT = {"visitorId": "v", "event": "opened"}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/health/live"),
        ("GET", "/l/nothing"),
        ("GET", "/login"),
        ("POST", "/api/v1/events"),
        ("POST", "/api/track"),
        ("GET", "/nothing"),
    ],
)
def test_requests_of_an_address_beyond_its_rate_are_429(service, method, path):
    address = f"198.51.100.{len(method + path)}"
    *_, before, last = statuses(service, address, method=method, path=path, content=b"{}")
    assert (before, last) == (429, 429)
    answer = service.client.get("/health/live", headers={"X-Forwarded-For": address})
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "rate_limited"
    assert 1 <= int(answer.headers["retry-after"]) <= 10
    assert answer.headers["ratelimit-policy"] == f'"address";q={PER_10_S};w=10'
    assert answer.headers["ratelimit"] == f'"address";r=0;t={answer.headers["retry-after"]}'
    assert service.client.get("/health/live").status_code == 200  # of another address


@pytest.mark.parametrize("path", ["/api/funnels", "/login", "/l/nothing", "/api/track"])
def test_more_than_100_query_parameters_are_refused_unread(service, path):
    def answer(count):
        query = "&".join(f"x{number}" for number in range(count))
        return service.client.get(f"{path}?{query}")

    refused = answer(101)
    assert (refused.status_code, refused.json()["code"]) == (400, "too_many_parameters")
    within = answer(100)
    assert "too_many_parameters" not in within.text
    assert within.status_code in (200, 400, 404, 405)


@pytest.mark.parametrize(
    ("path", "is_open", "has_message"),
    [
        ("/api/track", True, False),
        ("/api/identify", True, False),
        ("/api/mobile/deferred-links/resolve", True, False),
        ("/v1/t", True, True),
        ("/beacon/v1/batch", True, True),
        ("/api/v1/events", False, False),
        ("/api/funnels", False, False),
        ("/v1/track/more", False, False),
    ],
)
def test_pages_may_read_a_refusal_where_they_may_call_the_route(
    service, path, is_open, has_message
):
    address = f"198.51.101.{len(path)}"
    statuses(service, address)
    answer = service.client.post(path, content=b"{}", headers={"X-Forwarded-For": address})
    assert answer.status_code == 429
    assert answer.headers.get("access-control-allow-origin") == ("*" if is_open else None)
    exposed = answer.headers.get("access-control-expose-headers", "")
    assert ("Retry-After" in exposed) is is_open
    assert answer.headers["ratelimit"].startswith('"address";r=0;')
    problem = answer.json()
    assert (problem.get("message") == problem["detail"]) is has_message


def test_answers_say_what_is_left(service):
    answers = [
        service.client.get("/health/live", headers={"X-Forwarded-For": "203.0.113.9"})
        for _ in range(2)
    ]
    left = [
        re.fullmatch(r'"address";r=(\d+);t=\d+', answer.headers["ratelimit"])[1]
        for answer in answers
    ]
    assert left == [str(PER_10_S - 1), str(PER_10_S - 2)]


def test_ipv6_addresses_count_by_their_64(service):
    for number in range(PER_10_S):
        address = f"2001:db8:1:1::{number:x}"
        assert statuses(service, address, count=1) == [200]
    assert statuses(service, "2001:db8:1:1:ffff::1", count=1) == [429]
    assert statuses(service, "2001:db8:1:2::1", count=1) == [200]


def test_a_proxys_own_requests_count_for_nobody(service):
    answers = [service.client.get("/health/live") for _ in range(3 * PER_10_S)]
    assert {answer.status_code for answer in answers} == {200}
    assert "ratelimit" not in answers[0].headers


def test_more_addresses_than_any_chain_of_proxies_has_are_refused_unread(service):
    for count, status in ((100, 200), (200, 400)):
        addresses = ", ".join(["192.0.2.1"] * count)
        for headers in ([addresses], [*addresses.split(", ")[:50], addresses]):
            answer = service.client.get(
                "/health/live", headers=[("X-Forwarded-For", value) for value in headers]
            )
            assert answer.status_code == status or len(headers) > 1
    assert (answer.status_code, answer.json()["code"]) == (400, "too_many_proxies")


def test_only_the_last_untrusted_address_counts(service):
    """A client cannot escape by inventing addresses before its own."""
    for number in range(PER_10_S):
        statuses(service, f"192.0.2.{number}, 203.0.113.77", count=1)
    assert statuses(service, "192.0.2.99, 203.0.113.77", count=1) == [429]


@pytest.mark.parametrize("path", ["/api/v1/events", "/api/v1/events/batch", "/api/track"])
def test_events_of_a_website_beyond_its_rate_are_429(service, path):
    website_id = service.client.post(
        "/api/settings/websites", json={"name": path, "kind": "web"}
    ).json()["id"]
    event = {"websiteId": website_id, "visitorId": "v"}
    event |= {"event": "opened"} if "v1" in path else {"type": "pageview", "path": "/"}
    body = {"events": [event] * 10} if "batch" in path else event
    answers = [service.client.post(path, json=body) for _ in range(101)]
    assert {answer.status_code for answer in answers} == {202, 429}, answers[0].text
    assert answers[-1].headers["ratelimit-policy"] == '"website";q=100;w=10'
    assert "events of this website" in answers[-1].json()["detail"]
    other = EVENT | {"websiteId": service.website_id}
    assert service.client.post("/api/v1/events", json=other).status_code == 202


def test_items_of_anyone_count_towards_a_rate_of_their_own_also_refused_ones(service):
    website_id = service.client.post(
        "/api/settings/websites", json={"name": "open", "kind": "web"}
    ).json()["id"]
    item = {"websiteId": website_id, "type": "pageview", "typo": 1}
    batch = {"websiteId": website_id, "events": [item] * 98}
    with http_client(service.url) as stranger:
        answers = [
            stranger.post("/api/track", json=body).status_code for body in (batch, item, item, item)
        ]
    assert answers == [202, 422, 422, 429]
    for path in ("/api/v1/events", "/api/v1/events/batch", "/api/track"):  # with a key
        event = EVENT | {"websiteId": website_id}
        event |= {"type": "event", "name": event.pop("event")} if "track" in path else {}
        body = {"events": [event]} if "batch" in path else event
        assert service.client.post(path, json=body).status_code == 202, path


def test_requests_under_way_from_one_address_are_bounded_behind_a_proxy(service):
    head = (
        b"POST /api/track HTTP/1.1\r\nX-Forwarded-For: 203.0.113.50\r\n"
        b"Content-Type: application/json\r\nContent-Length: 10\r\n\r\n"
    )
    clients = [connect(service) for _ in range(4)]
    try:
        for client in clients[:3]:
            send(client, head)
        for _ in range(20):  # until all three are under way
            answer = service.client.get("/health/live", headers={"X-Forwarded-For": "203.0.113.50"})
            if answer.status_code != 200:
                break
        assert (answer.status_code, answer.json()["code"]) == (503, "too_many_connections")
        assert answer.headers["retry-after"] == "1"
        call = {"X-Forwarded-For": "203.0.113.50", "Origin": "https://shop.example"}
        answer = service.client.post("/v1/track", content=b"{}", headers=call)
        assert (answer.status_code, answer.json()["code"]) == (429, "too_many_connections")
        assert answer.headers["access-control-allow-origin"] == "*"
    finally:
        for client in clients:
            client.close()


PATHS = [
    "/health/live",
    "/login",
    "/api/funnels",
    "/api/nothing",
    "/nothing",
    "/l/nothing",
    "/.well-known/assetlinks.json",
    "/api/docs",
    "/api/openapi.json",
    "/tracker.js",
]


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_forbids_sniffing_and_has_its_id(service, path):
    answer = httpx.get(service.url + path, verify=False)
    assert answer.headers.get_list("x-content-type-options") == ["nosniff"]
    assert re.fullmatch("[0-9a-f]{16}", answer.headers["x-request-id"])


def test_a_plain_post_forbids_sniffing_too(service):
    answer = service.client.post("/api/v1/events", json=EVENT | {"websiteId": service.website_id})
    assert answer.status_code == 202
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers.get_list("cache-control") == ["no-store"]


@pytest.mark.parametrize(
    "path", ["/api/funnels", "/api/funnels/fun_unknown", "/v1/projects/x/settings"]
)
def test_no_cache_keeps_an_answer_of_the_api(service, path):
    for method in ("GET", "HEAD", "DELETE"):
        answer = service.client.request(method, path)
        assert answer.headers.get_list("cache-control") == ["no-store"], method


def test_an_answer_that_caches_may_keep_says_so_itself(service):
    answer = service.client.get("/t.js")
    assert answer.headers.get_list("cache-control") == ["public, max-age=300"]


def test_a_problem_and_the_log_have_the_id_that_was_sent(service):
    sent = "trace-2026.11_22"
    answer = service.client.post(
        "/api/v1/events",
        json={"websiteId": "none"},
        headers={"X-Request-Id": sent, "Authorization": "Bearer none"},
    )
    assert answer.headers["x-request-id"] == answer.json()["requestId"] == sent


@pytest.mark.parametrize("sent", ["", "a b", "a" * 129, "<script>", "ä"])
def test_an_id_that_is_not_short_and_plain_is_replaced(service, sent):
    answer = httpx.get(
        f"{service.url}/health/live", headers={"X-Request-Id": sent.encode()}, verify=False
    )
    assert re.fullmatch("[0-9a-f]{16}", answer.headers["x-request-id"])


def test_requests_are_measured_by_the_template_of_their_route(service):
    assert service.client.get("/api/funnels/fun_secret").status_code == 404
    event = EVENT | {"websiteId": service.website_id}
    assert service.client.post("/api/v1/events", json=event).status_code == 202
    service.client.get("/l/some-slug")
    service.client.get("/no/such/page")
    text = httpx.get(f"http://127.0.0.1:{logged(service, 'metrics_served')['port']}/metrics").text
    counts = {
        (labels["method"], labels["route"], labels["status"])
        for (name, items), value in figures(text).items()
        if name == "penstock_http_request_seconds_count" and value and (labels := dict(items))
    }
    assert ("GET", "/l/{slug}", "404") in counts
    assert ("POST", "/api/v1/events", "202") in counts
    assert ("GET", "none", "404") in counts
    assert any(route.startswith("/api/funnels/{") for _, route, _ in counts)
    assert "fun_secret" not in text
    assert "some-slug" not in text
    assert "such/page" not in text
