"""Invalid input: each is a 4xx problem document that names the field, and nothing is stored."""

import gzip
import json
import zlib
from time import process_time

import httpx
import pytest

from penstock.settings import Settings
from tests.answers import faults, faults_in, problem
from tests.cases import cases
from tests.events.conftest import Post, Stored
from tests.tenant import Tenant

JSON = {"Content-Type": "application/json"}
ZIPPED = {**JSON, "Content-Encoding": "gzip"}
DEEP = b"[" * 3000 + b"]" * 3000


def body(site: str, **fields: bytes) -> bytes:
    """A valid event as JSON text, some fields replaced by raw text."""
    texts = {"websiteId": b'"%s"' % site.encode(), "visitorId": b'"v"', "event": b'"e"', **fields}
    return (
        b"{"
        + b", ".join(b'"%s": %s' % (name.encode(), text) for name, text in texts.items())
        + b"}"
    )


on_any_route = cases(
    "any_route",
    [
        "/api/v1/events",
        "/api/v1/transactions",
        "/api/v1/events/batch",
        "/api/track",
        "/api/identify",
    ],
)


NO_JSON = {
    "empty": b"", "cut": b"{", "word": b"nonsense", "comma": b'{"a": 1,}', "utf16": b"\xff\xfe",
    "utf8": b'{"event": "\xff"}',
    "cut utf8": b'{"event": "\xc3"}', "deep": DEEP, "deep field": b'{"a": ' + DEEP + b"}",
    "surrogate": b'{"event": "\\ud800"}',
    "surrogates": b'{"event": "\\udc00\\ud800"}', "digits": b'{"n": 1' + b"0" * 5000 + b"}",
    "two": b"{}{}", "bom": b"\xef\xbb\xbf{}",
    "quotes": b"'{}'",
}  # fmt: skip


@on_any_route
def test_a_body_that_is_not_json_is_malformed(
    workspace: Tenant, stored: Stored, any_route: str
) -> None:
    for name, text in NO_JSON.items():
        answer = workspace.client.post(any_route, content=text, headers=JSON)
        assert problem(answer) == (400, "not_json"), f"{name}: {answer.text}"
        assert answer.headers["content-type"] == "application/problem+json"
    assert stored() == []


@on_any_route
def test_a_body_that_is_not_an_object_is_rejected(
    workspace: Tenant, stored: Stored, any_route: str
) -> None:
    for value in (b"null", b"true", b"7", b'"text"', b"[]", b"[{}]", b"NaN"):
        answer = workspace.client.post(any_route, content=value, headers=JSON)
        assert faults(answer) == {"body": "wrong_type"}, value
        assert "JSON object" in answer.json()["detail"]
    assert stored() == []


WRONG_FIELDS: list[tuple[dict[str, bytes], str, str]] = [
    ({"visitorId": b"7.5"}, "visitorId", "wrong_type"),
    ({"visitorId": b'["v"]'}, "visitorId", "wrong_type"),
    ({"visitorId": b'""'}, "visitorId", "too_short"),
    ({"visitorId": b'"a\\u0000b"'}, "visitorId", "nul_character"),
    ({"userId": b"1" + b"0" * 40}, "userId", "wrong_type"),
    ({"event": b'"\\u0000"'}, "event", "nul_character"),
    ({"event": b"{}"}, "event", "wrong_type"),
    ({"eventId": b'"\\u0000"'}, "eventId", "nul_character"),
    ({"externalSessionId": b"[]"}, "externalSessionId", "wrong_type"),
    ({"country": b'"\\u0000"'}, "country", "nul_character"),
    ({"properties": b"[1]"}, "properties", "wrong_type"),
    ({"properties": b'"x"'}, "properties", "wrong_type"),
    ({"properties": b'{"n": NaN}'}, "properties.n", "not_finite"),
    ({"properties": b'{"n": [1, -Infinity]}'}, "properties.n[1]", "not_finite"),
    ({"properties": b'{"n": 1e999}'}, "properties.n", "not_finite"),
    ({"properties": b'{"n": 18446744073709551616}'}, "properties.n", "integer_out_of_range"),
    ({"properties": b'{"n": -9223372036854775809}'}, "properties.n", "integer_out_of_range"),
    ({"properties": b'{"n": 1234567890123456789012}'}, "properties.n", "integer_out_of_range"),
    ({"properties": b'{"a": {"b": "\\u0000"}}'}, "properties.a.b", "nul_character"),
    ({"properties": b'{"a\\u0000": 1}'}, "properties.a\x00", "nul_character"),
    ({"properties": b'{"$source": "x"}'}, "properties.$source", "reserved_property"),
    ({"properties": b'{"a":{"b":{"c":{"d":{"e":[]}}}}}'}, "properties.a.b.c.d.e", "too_deep"),
    ({"timestamp": b"1" + b"0" * 13}, "timestamp", "timestamp_in_future"),
    ({"timestamp": b"1" + b"0" * 30}, "timestamp", "timestamp_in_future"),
    ({"timestamp": b"NaN"}, "timestamp", "not_a_time"),
    ({"sessionId": b"null"}, "sessionId", "session_id_not_accepted"),
    ({"unheard": b"1"}, "unheard", "unknown_field"),
]  # fmt: skip


def test_a_field_that_breaks_a_rule_is_named(
    workspace: Tenant, site: str, stored: Stored, subtests: pytest.Subtests
) -> None:
    good = body(site)
    for fields, field, code in WRONG_FIELDS:
        wrong = body(site, **fields)
        with subtests.test(field=field, code=code):
            answer = workspace.client.post("/api/v1/events", content=wrong, headers=JSON)
            assert faults(answer) == {field: code}
            batch = workspace.client.post(
                "/api/v1/events/batch",
                content=b'{"events": [%s, %s]}' % (wrong, good),
                headers=JSON,
            )
            rejected, accepted = batch.json()["results"]
            assert list(faults_in(rejected)) == [field]
            assert accepted["status"] == "accepted"
    assert len(stored()) == len(WRONG_FIELDS), "the good item beside each bad one, and nothing else"


@on_any_route
def test_a_body_that_is_not_labelled_json_is_unsupported(
    workspace: Tenant, site: str, stored: Stored, any_route: str
) -> None:
    for label in (
        "text/html",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/jsonx",
        "",
    ):
        headers = {"Content-Type": label} if label else {}
        answer = workspace.client.post(any_route, content=body(site), headers=headers)
        assert problem(answer) == (415, "unsupported_media_type"), label
    assert stored() == []


def test_only_the_tracker_accepts_plain_text(workspace: Tenant, site: str) -> None:
    answer = workspace.client.post(
        "/api/v1/events", content=body(site), headers={"Content-Type": "text/plain"}
    )
    assert answer.status_code == 415


@on_any_route
def test_an_unknown_encoding_is_unsupported(
    workspace: Tenant, site: str, stored: Stored, any_route: str
) -> None:
    for encoding in ("br", "deflate", "zstd", "gzip, gzip", "nonsense"):
        headers = {**JSON, "Content-Encoding": encoding}
        answer = workspace.client.post(any_route, content=body(site), headers=headers)
        assert problem(answer) == (415, "unsupported_media_type"), encoding
    assert stored() == []


def test_gzip_is_understood(workspace: Tenant, site: str, stored: Stored) -> None:
    content = gzip.compress(body(site))
    answer = workspace.client.post("/api/v1/events", content=content, headers=ZIPPED)
    assert answer.status_code == 202
    content = gzip.compress(b'{"events": [%s]}' % body(site))
    answer = workspace.client.post("/api/v1/events/batch", content=content, headers=ZIPPED)
    assert answer.json()["accepted"] == 1
    assert len(stored()) == 2


def test_gzip_of_several_members_is_read_to_its_end(
    workspace: Tenant, site: str, stored: Stored
) -> None:
    whole = body(site)
    answers = [
        workspace.client.post("/api/v1/events", content=members, headers=ZIPPED)
        for members in (
            gzip.compress(whole[:9]) + gzip.compress(whole[9:]),
            gzip.compress(whole) + gzip.compress(whole),
            gzip.compress(whole) + b"junk",
        )
    ]
    assert [(answer.status_code, answer.json().get("code")) for answer in answers] == [
        (202, None),
        (400, "not_json"),
        (400, "bad_gzip"),
    ]
    assert len(stored()) == 1


@on_any_route
def test_a_body_has_at_most_16_gzip_members(workspace: Tenant, site: str, any_route: str) -> None:
    for count in (17, 100_000):
        content = gzip.compress(b"") * count
        before_s = process_time()
        answer = workspace.client.post(any_route, content=content, headers=ZIPPED)
        if len(content) < 64 * 1024 or answer.json()["code"] != "too_large":
            assert problem(answer) == (413, "too_many_gzip_members")
        assert process_time() - before_s < 0.5  # once 3.5 s
    content = gzip.compress(body(site)) + gzip.compress(b" ") * 15
    assert workspace.client.post("/api/v1/events", content=content, headers=ZIPPED).is_success


@on_any_route
def test_broken_gzip_is_malformed(workspace: Tenant, any_route: str) -> None:
    for broken in (b"no gzip", gzip.compress(b"{}")[:-9], zlib.compress(b"{}")):
        answer = workspace.client.post(any_route, content=broken, headers=ZIPPED)
        assert problem(answer) == (400, "bad_gzip"), broken


@on_any_route
def test_a_gzip_bomb_is_too_large(workspace: Tenant, settings: Settings, any_route: str) -> None:
    bomb = gzip.compress(b" " * (settings.limits.max_inflated_bytes + 1))
    assert len(bomb) < 64 * 1024
    answer = workspace.client.post(any_route, content=bomb, headers=ZIPPED)
    assert problem(answer) == (413, "too_large")


@on_any_route
def test_a_body_over_the_limit_is_too_large(
    workspace: Tenant, settings: Settings, any_route: str
) -> None:
    """Whether its length is declared or it is sent in chunks."""
    text = b" " * (settings.limits.max_body_bytes + 1)
    for content in (text, iter([text[:1000], text[1000:]])):
        answer = workspace.client.post(any_route, content=content, headers=JSON)
        assert problem(answer) == (413, "too_large")


@pytest.mark.parametrize(
    "limits", [{"max_body_bytes": 20_000_000, "max_inflated_bytes": 20_000_000}]
)
def test_a_limit_that_was_raised_holds(workspace: Tenant, site: str) -> None:
    single_body = body(site)
    batch = b'{"events": [' + single_body + b", " + single_body + b" " * 11_000_000 + b"]}"
    answer = workspace.client.post("/api/v1/events/batch", content=batch, headers=JSON)
    assert answer.json()["accepted"] == 2


class TestLimits:
    """Each at its edge: the limit itself is accepted, one more is rejected."""

    def check(self, answer: httpx.Response, field: str | None, code: str = "too_long") -> None:
        if field is None:
            assert answer.status_code == 202, answer.text
        else:
            assert faults(answer) == {field: code}

    def test_an_id_has_200_bytes(self, post_event: Post) -> None:
        for field in ("visitorId", "userId", "eventId", "externalSessionId"):
            for longest in ("x" * 200, "é" * 100, "𝄞" * 50):
                self.check(post_event(**{field: longest}), None)
                self.check(post_event(**{field: longest + "x"}), field)

    def test_a_website_id_over_the_limit_is_a_fault_of_its_field(self, post_event: Post) -> None:
        self.check(post_event(websiteId="w" * 201), "websiteId")

    def test_a_name_has_200_characters(self, post_event: Post) -> None:
        self.check(post_event(event="é" * 200), None)
        self.check(post_event(event="é" * 201), "event")
        self.check(post_event(event=""), "event", "too_short")

    def test_properties_have_255_keys_nested_ones_included(self, post_event: Post) -> None:
        self.check(post_event(properties={f"k{n}": n for n in range(255)}), None)
        answer = post_event(properties={f"k{n}": n for n in range(256)})
        self.check(answer, "properties", "too_many_keys")
        self.check(post_event(properties={"a": {f"k{n}": n for n in range(254)}}), None)
        answer = post_event(properties={"a": {f"k{n}": n for n in range(255)}})
        self.check(answer, "properties", "too_many_keys")

    def test_properties_nest_five_levels(self, post_event: Post) -> None:
        self.check(post_event(properties={"a": {"b": {"c": {"d": 1}}}}), None)
        self.check(post_event(properties={"a": {"b": {"c": {"d": [1]}}}}), None)
        answer = post_event(properties={"a": {"b": {"c": {"d": [[1]]}}}})
        self.check(answer, "properties.a.b.c.d[0]", "too_deep")

    def test_a_string_has_8_kb(self, post_event: Post) -> None:
        self.check(post_event(properties={"a": "é" * 4096}), None)
        self.check(post_event(properties={"a": "é" * 4096 + "x"}), "properties.a")
        self.check(post_event(properties={"a": ["x" * 8192]}), None)
        self.check(post_event(properties={"a": ["x" * 8193]}), "properties.a[0]")
        self.check(post_event(properties={"k" * 8192: 1}), None)
        self.check(post_event(properties={"k" * 8193: 1}), "properties." + "k" * 64 + "…")

    def test_an_event_has_64_kb(self, workspace: Tenant, site: str, post_event: Post) -> None:
        properties = {f"k{n}": "x" * 8000 for n in range(8)}

        def text(more: int) -> str:
            event = {"websiteId": site, "visitorId": "v", "event": "e"}
            return json.dumps({**event, "properties": {**properties, "last": "x" * more}})

        size = len(text(0))
        assert size < 65_536
        for more, status in ((65_536 - size, 202), (65_537 - size, 413)):
            answer = workspace.client.post("/api/v1/events", content=text(more), headers=JSON)
            assert answer.status_code == status

    def test_an_event_of_a_batch_has_64_kb(self, workspace: Tenant, site: str) -> None:
        events = [
            {
                "websiteId": site,
                "visitorId": "v",
                "event": "e",
                "properties": {f"k{n}": "x" * 8000 for n in range(count)},
            }
            for count in (8, 9)
        ]
        accepted, rejected = workspace.client.post(
            "/api/v1/events/batch", json={"events": events}
        ).json()["results"]
        assert (accepted["status"], rejected["errors"][0]["code"]) == ("accepted", "too_large")

    def test_only_the_first_of_hundreds_of_faults_are_listed(self, post_event: Post) -> None:
        assert len(post_event(properties={f"${n}": 1 for n in range(250)}).json()["errors"]) == 100
