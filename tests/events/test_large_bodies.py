"""Bodies over 64 KB are refused before objects are built, and mean what small ones mean."""

import gc
import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import process_time
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import Invalid, Malformed
from penstock.http.bodies import parse_object
from penstock.http.lists import ListLimits, UnreadList, parse_object_with_list
from tests.answers import faults, problem
from tests.cases import cases
from tests.events.conftest import Stored
from tests.events.test_refusal_budget import memory_mb
from tests.fuzz.texts import JSON_VALUES
from tests.serving import Served
from tests.tenant import Tenant
from tests.waiting import eventually
from tests.wired import Wire

ROUTES = ("/api/track", "/api/v1/events/batch", "/v1/batch")
MANY = 4_000_000
"""Bytes of a body after decompression. Its objects would take a hundred MB."""
PADDING = b" " * 70_000
"""Makes a body too large to be parsed as a whole."""

Send = Callable[[str, bytes], httpx.Response]


def list_name(path: str) -> bytes:
    return b"batch" if path == "/v1/batch" else b"events"


def listed(path: str, website_id: str, *items: bytes, **more: Any) -> bytes:
    """A body with a list of items, and other fields behind it."""
    named = "writeKey" if path == "/v1/batch" else "websiteId"
    fields = dict(more) if "v1/events" in path else {named: website_id, **more}
    rest = b"".join(b',"%s":%s' % (n.encode(), json.dumps(v).encode()) for n, v in fields.items())
    return b'{"%s":[%s]%s}' % (list_name(path), b",".join(items), rest)


def event(path: str, website_id: str, **fields: bytes) -> bytes:
    """A valid event of the route. fields: as JSON."""
    own = {
        "/api/track": {"type": b'"event"', "name": b'"e"', "visitorId": b'"v"'},
        "/v1/batch": {"type": b'"track"', "event": b'"e"', "anonymousId": b'"v"'},
    }.get(path, {"websiteId": json.dumps(website_id).encode(), "event": b'"e"', "userId": b'"u"'})
    members = (b'"%s":%s' % (name.encode(), value) for name, value in {**own, **fields}.items())
    return b"{%s}" % b",".join(members)


@pytest.fixture
def send(wire: Wire, workspace: Tenant) -> Send:
    key = workspace.client.headers["Authorization"]

    def send(path: str, body: bytes) -> httpx.Response:
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        if "v1/events" in path:
            headers["Authorization"] = key
        return wire.client.post(path, content=gzip.compress(body, 1), headers=headers)

    return send


def rejected(answer: httpx.Response) -> dict[int, str]:
    """The code of the first fault of each rejected item."""
    document = answer.json()
    results = document.get("results", document.get("rejected", ()))
    return {result["index"]: result["errors"][0]["code"] for result in results if result["errors"]}


REFUSED = {
    "empty objects": b"{}",
    "small objects": b'{"":{}}',
    "nested lists": b"[[[[[]]]]]",
    "numbers": b"1",
}


@cases("path", ROUTES)
def test_a_list_of_too_many_items_is_refused_at_little_cost(
    send: Send, site: str, path: str
) -> None:
    for item in REFUSED.values():
        body = listed(path, site, *[item] * (MANY // (len(item) + 1)))
        if path == "/v1/batch":  # the write key must be found: put it first
            body = b'{"writeKey":"%s",' % site.encode() + body[1:]
        before_s = process_time()
        answer = send(path, body)
        assert process_time() - before_s < 1  # to build the objects takes longer
        assert faults(answer) == {list_name(path).decode(): "too_many"}


@cases("path", ROUTES)
def test_fields_beside_the_list_are_limited_too(send: Send, site: str, path: str) -> None:
    junk = b"[" + b"{}," * (MANY // 3) + b"0]"
    for body in (
        b'{"junk":%s,"%s":[{}]}' % (junk, list_name(path)),
        b'{"%s":[{}],"junk":%s}' % (list_name(path), junk),
        b'{"%s":%s}' % (list_name(path), b'{"a":%s}' % junk),
        b"{%s}" % b",".join(b'"%x":0' % number for number in range(400_000)),
    ):
        before_s = process_time()
        answer = send(path, body)
        assert process_time() - before_s < 1
        assert (answer.status_code, [e["code"] for e in answer.json()["errors"]]) == (
            422,
            ["too_large"],
        )


def test_a_single_item_is_limited_too(send: Send, site: str) -> None:
    large = b'{"a":[%s0]}' % (b"{}," * (MANY // 3))
    answer = send("/api/track", event("/api/track", site, properties=large))
    assert faults(answer) == {"": "too_large"}
    call = b'{"writeKey":"%s","event":"e","anonymousId":"v","properties":%s}'
    answer = send("/v1/track", call % (site.encode(), large))
    assert faults(answer) == {"": "too_large"}


@cases("path", ROUTES)
def test_an_item_that_is_too_large_loses_no_other(
    send: Send, site: str, path: str, stored: Stored
) -> None:
    good = event(path, site)
    large = event(path, site, properties=b'{"a":[%s0]}' % (b"{}," * (MANY // 3)))
    before = len(stored())
    answer = send(path, listed(path, site, good, large, good))
    assert answer.is_success, answer.text
    assert rejected(answer) == {1: "too_large"}
    assert len(stored()) == before + 2


ODD_TEXTS = (
    b'"],[}{"', b'"\\"],"', b'"\\\\"', b'"\\\\\\","', b'"\\u005d\\u0022"', '"é𝄞]"'.encode(),
    b'"\\n\\\\\\""', b'""', b"[[],{},[\"]\"]]", b'{"]":"["}',
)  # fmt: skip


@pytest.mark.parametrize("path", ROUTES)
def test_brackets_commas_and_quotes_in_texts_are_texts(
    send: Send, site: str, path: str, stored: Stored
) -> None:
    items = [event(path, site, properties=b'{"p":%s}' % text) for text in ODD_TEXTS]
    answer = send(path, listed(path, site, *items, PADDING + event(path, site)))
    assert answer.is_success, answer.text
    assert rejected(answer) == {}
    rows = stored()
    assert len(rows) == len(items) + 1
    values = [json.loads(row.get("properties", "{}")).get("p") for row in rows]
    expected = [None, *map(json.loads, ODD_TEXTS)]
    assert sorted(map(json.dumps, values)) == sorted(map(json.dumps, expected))


@cases("path", ROUTES)
def test_a_bad_item_of_a_large_body_loses_no_other(
    send: Send, site: str, path: str, stored: Stored
) -> None:
    bad = [
        event(path, site, properties=b'{"n":NaN}'),
        event(path, site, properties=b'{"n":[1,-Infinity]}'),
        b"5",
        b"null",
        b'"text"',
        b"[]",
    ]
    before = len(stored())
    answer = send(path, listed(path, site, *bad, PADDING + event(path, site)))
    assert answer.is_success, answer.text
    assert set(rejected(answer)) == set(range(len(bad)))
    assert len(stored()) == before + 1


@cases("path", ROUTES)
def test_a_large_body_that_is_not_json_stores_nothing(
    send: Send, site: str, path: str, stored: Stored
) -> None:
    good = event(path, site)
    whole = listed(path, site, *[good] * 20, PADDING + good)
    for broken in (
        whole[:-1],
        whole[:-1] + b",}",
        whole + b"]",
        whole.replace(b"[{", b"[,{"),
        whole.replace(good + b",", good + b",,", 1),
        whole.replace(good, b"[}", 1),
        whole.replace(good, b'{"a":1,}', 1),
        whole.replace(good, b'{"a":"\xff"}', 1),
        whole.replace(good, b'{"a":"\\ud800"}', 1),
        whole.replace(good, b"[" * 250 + b"]" * 250, 1),
        whole.replace(good, b"tru", 1),
        whole.replace(b"]", b",]"),
        b"x" + whole,
        PADDING,
    ):
        assert problem(send(path, broken)) == (400, "not_json"), broken[:80]
    assert stored() == []


@cases("path", ROUTES)
def test_a_large_body_that_is_not_an_object_is_rejected(send: Send, path: str) -> None:
    for body in (b"[" + b"{}," * (MANY // 3) + b"{}]", PADDING + b"7", b'"' + PADDING + b'"'):
        answer = send(path, body)
        assert faults(answer) == {"body": "wrong_type"}


@cases("path", ROUTES)
def test_of_two_lists_the_last_counts(send: Send, site: str, path: str, stored: Stored) -> None:
    name, fields = list_name(path), b""
    if "v1/events" not in path:
        named = b"writeKey" if path == "/v1/batch" else b"websiteId"
        fields = b'"%s":"%s",' % (named, site.encode())
    many, few = (b"[%s]" % b",".join([event(path, site)] * n + [PADDING + b"0"]) for n in (9, 1))
    before = len(stored())
    for number, lists in enumerate(((many, few), (few, many), (b"[]", few), (many, b"[5]"))):
        expected = (1, 10, 11, 11)[number]
        answer = send(path, b'{%s"%s":%s,"%s":%s}' % (fields, name, lists[0], name, lists[1]))
        assert answer.is_success, answer.text
        assert len(rejected(answer)) == 1
        assert len(stored()) == before + expected


@cases("path", ROUTES)
def test_unknown_fields_of_a_large_body_are_named(send: Send, site: str, path: str) -> None:
    body = listed(path, site, PADDING + event(path, site), extra=1)
    answer = send(path, body)
    if path == "/v1/batch":  # which allows them
        assert answer.is_success
    else:
        assert faults(answer) == {"extra": "unknown_field"}


@cases("path", ROUTES)
def test_an_item_may_be_larger_as_sent_than_in_utf8(
    send: Send, site: str, path: str, stored: Stored
) -> None:
    texts = {f"k{number}": "é" * 4_000 for number in range(7)}  # 56 KB, and 168 KB with escapes
    item = event(path, site, properties=json.dumps(texts).encode())
    assert len(item) > 2 * 65_536
    before = len(stored())
    assert rejected(send(path, listed(path, site, item))) == {}
    assert len(stored()) == before + 1


@contextmanager
def without_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def is_held() -> bool:
    return any(isinstance(thing, UnreadList) for thing in gc.get_objects())


@cases("path", ROUTES)
def test_a_refused_body_is_released_without_a_garbage_collection(
    send: Send, site: str, path: str
) -> None:
    body = b'{"writeKey":"%s",' % site.encode() if path == "/v1/batch" else b"{"
    body += b'"%s":[%s0]}' % (list_name(path), b"{}," * 100_000)
    with without_collection():
        assert send(path, body).status_code == 422
        assert eventually(lambda: not is_held())


@pytest.mark.usefixtures("starts_service")
@pytest.mark.slow("starts a service, whose memory it measures")
def test_eight_bodies_of_millions_of_objects_take_little_memory(tmp_path: Path) -> None:
    with Served(tmp_path / "data") as served:
        _, site = served.first_account()
        served.client.headers.pop("Authorization")
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        bodies = {
            path: gzip.compress(
                b'{"writeKey":"%s","%s":[%s0]}'
                % (site.encode(), list_name(path), b'{"":{}},' * 1_250_000)
            )
            for path in ("/api/track", "/v1/batch")
        }
        warm = {"websiteId": site, "type": "event", "name": "e", "visitorId": "v"}
        assert served.client.post("/api/track", json=warm).is_success
        before_mb = memory_mb(served, "VmRSS")
        for path, body in bodies.items():
            for _ in range(8):
                assert served.client.post(path, content=body, headers=headers).status_code == 422
        assert memory_mb(served, "VmHWM") - before_mb < 60  # once 5 GB


small = st.dictionaries(st.sampled_from(["a", "events", "b"]), JSON_VALUES, max_size=3)


@given(
    fields=small,
    items=st.lists(JSON_VALUES, max_size=6),
    indent=st.sampled_from([None, 0, 3]),
    cut=st.none() | st.integers(0, 40),
    limits=st.builds(ListLimits, st.integers(1, 8), st.integers(0, 40)),
)
def test_a_large_body_has_the_values_of_a_small_one(
    fields: dict[str, Any], items: list[Any], indent: int | None, cut: int | None, limits: Any
) -> None:
    body = json.dumps({**fields, "events": items, "z": 1}, indent=indent).encode()
    body = body[: len(body) - cut] if cut else body
    try:
        expected = parse_object(body)
    except Malformed:
        expected = None
    try:
        read = parse_object_with_list(body, "events", limits)
        read = {name: list(v) if isinstance(v, UnreadList) else v for name, v in read.items()}
    except Malformed:
        assert expected is None
        return
    except Invalid as error:
        read = {"code": error.faults[0].code}
    if "code" not in read and len(read["events"]) > limits.items and expected != read:
        assert read["events"] == items[: limits.items + 1]  # refused by its number
    else:
        assert read in (expected, {"code": "too_large"})
