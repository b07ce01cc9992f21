"""JSON values are counted before a body is decoded: a few kilobytes can be millions of lists."""

import gzip
import json
from collections.abc import Callable
from time import process_time
from typing import Any

import httpx
import pytest

from penstock.base.value_budget import EVENT, count_values
from tests.answers import faults, faults_in
from tests.cases import cases
from tests.events.test_large_bodies import ROUTES, event, listed
from tests.tenant import Tenant
from tests.test_tenancy import Operation, described
from tests.wired import Wire

LISTS = b"[" + b",".join([b"[]"] * 20_000) + b"]"
"""60 KB, which is less than an event may have."""
Post = Callable[[str, bytes], httpx.Response]
REFUSED = ({"too_many_values"}, {"too_large"})


@pytest.fixture
def post(wire: Wire, workspace: Tenant) -> Post:
    key = workspace.client.headers["Authorization"]

    def post(path: str, body: bytes) -> httpx.Response:
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        if path.startswith("/api/v1/"):
            headers["Authorization"] = key
        return wire.client.post(path, content=gzip.compress(body, 1), headers=headers)

    return post


@cases("path", ROUTES)
def test_a_body_with_too_many_values_is_refused_at_little_cost(
    post: Post, site: str, path: str
) -> None:
    properties = b'{"list":%s}' % LISTS
    body = listed(path, site, *[event(path, site, properties=properties)] * 150)
    if path == "/v1/batch":  # the write key must be found: put it first
        body = b'{"writeKey":"%s",' % site.encode() + body[1:]
    before_s = process_time()
    answer = post(path, body)
    assert process_time() - before_s < 1.5  # once five seconds
    assert faults(answer) == {"": "too_many_values"}


@cases("path", ROUTES)
def test_an_event_with_too_many_values_is_rejected_and_the_others_are_stored(
    post: Post, site: str, path: str
) -> None:
    good, bad = event(path, site), event(path, site, properties=b'{"list":%s}' % LISTS)
    answer = post(path, listed(path, site, good, bad, good)).json()
    results = answer.get("results") or answer["rejected"]
    [rejected] = [result for result in results if result["errors"]]
    assert rejected["index"] == 1
    assert faults_in(rejected) == {"properties": "too_many_values"}
    assert answer.get("accepted", 2) == 2


@cases("path", ["/api/v1/events", "/api/track"])
def test_a_single_event_with_too_many_values_names_the_field(
    post: Post, site: str, path: str
) -> None:
    fields = {"properties": b'{"list":%s}' % LISTS, "websiteId": json.dumps(site).encode()}
    answer = post(path, event(path, site, **fields))
    assert faults(answer) == {"properties": "too_many_values"}
    assert "at most 10,000 JSON values" in answer.json()["detail"]


def test_an_event_at_its_budget_is_stored_and_one_above_it_is_not(post: Post, site: str) -> None:
    own = {"websiteId": json.dumps(site).encode()}
    spare = EVENT.max_values - count_values(
        event("/api/track", site, properties=b'{"l":[1]}', **own)
    )
    for more, status in ((0, 202), (1, 422)):
        numbers = b",".join([b"1"] * (1 + spare + more))
        body = event("/api/track", site, properties=b'{"l":[%s]}' % numbers, **own)
        assert post("/api/track", body).status_code == status


def test_commas_and_brackets_in_texts_are_not_values(post: Post, site: str) -> None:
    text = json.dumps({"a": ',[{\\"' * 1_500, "b": '",' * 2_700, "c": "[" * 8_000}).encode()
    own = {"websiteId": json.dumps(site).encode()}
    assert len(text) > 2 * EVENT.max_values
    assert post("/api/track", event("/api/track", site, properties=text, **own)).status_code == 202


def test_a_batch_with_255_properties_in_each_of_1000_events_is_stored(
    post: Post, site: str
) -> None:
    properties = json.dumps({f"p{number}": number for number in range(255)}).encode()
    body = listed("/api/track", site, *[event("/api/track", site, properties=properties)] * 1000)
    answer = post("/api/track", body)
    assert (answer.status_code, answer.json()["accepted"]) == (202, 1000)


@pytest.mark.parametrize("value", [None, "text", ["[", "{"], [1, [2, {"a": "\\"}]], {"a,": '"'}])
def test_no_value_is_missing_in_the_count(value: Any) -> None:
    def values_of(value: Any) -> int:
        inner = value.values() if isinstance(value, dict) else value
        return 1 + (sum(map(values_of, inner)) if isinstance(value, dict | list) else 0)

    assert values_of(value) <= count_values(json.dumps(value).encode()) <= 2 * values_of(value)


def test_a_fault_deep_in_a_long_list_names_its_path(post: Post, site: str) -> None:
    items = b"[" + b"[1]," * 3_000 + b'[{"a":1e999}]]'
    fields = {"properties": b'{"list":%s}' % items, "websiteId": json.dumps(site).encode()}
    answer = post("/api/track", event("/api/track", site, **fields))
    assert faults(answer) == {"properties.list[3000][0].a": "not_finite"}


@pytest.mark.slow("calls every route with a body")
def test_every_route_with_a_json_body_counts_its_values(workspace: Tenant) -> None:
    document = workspace.client.get("/api/openapi.json").json()
    uncounted, counted = dict[str, str](), 0
    for operation in described(document):
        media = document["paths"][operation.path][operation.method].get("requestBody", {})
        if "application/json" not in media.get("content", {}):
            continue
        answer = send_lists(workspace, operation, 140_000)
        if answer.status_code == 413:  # the bytes are limited to fewer
            answer = send_lists(workspace, operation, 20_000)
        codes = {error["code"] for error in answer.json().get("errors", ())}
        counted += codes == {"too_many_values"}
        if codes not in REFUSED and answer.status_code not in (401, 403, 404):
            uncounted[str(operation)] = f"{answer.status_code} {answer.text[:200]}"
    assert uncounted == {}
    assert counted > 30


def send_lists(tenant: Tenant, operation: Operation, count: int) -> httpx.Response:
    path = operation.path.format(**dict.fromkeys(operation.parameters, "x"))
    headers = {"Content-Type": "application/json"}
    client = tenant.client if "/v1/events" in path else tenant.browser
    body = b'{"x":[%s]}' % b",".join([b"[]"] * count)
    return client.request(
        operation.method,
        path,
        params=dict.fromkeys(operation.required, "x"),
        content=body,
        headers=headers,
    )
