"""Every decoder of what comes from outside returns a value or raises its documented error, soon."""

import gzip
import json
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import thread_time
from typing import Any, NamedTuple

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from penstock.accounts.identity_secrets.model import user_hash
from penstock.accounts.model import Website, WebsiteKind
from penstock.accounts.second_factor.codes import bare_code, matching_step, new_totp_secret
from penstock.activity.live.cursor import Cursor
from penstock.base.clock import LATEST_MS
from penstock.base.cursors import decode_cursor, encode_cursor
from penstock.base.errors import Invalid, Malformed, TooLarge
from penstock.base.ids import ScopeId, WebsiteId, WorkspaceId
from penstock.base.networks import TrustedNetworks, client_network
from penstock.base.paths import path_of_url, split_url
from penstock.base.payment_providers import Provider
from penstock.base.request_ids import request_id_of
from penstock.base.scalar import plain_text, tagged, untagged, value_hash
from penstock.base.spreadsheets import decode_cell, encode_cell, is_formula
from penstock.base.user_agent import parse_user_agent
from penstock.events.fields import EventValidationContext
from penstock.events.imports.entries import Occurrences, line_excerpt, read_line, stated_ms
from penstock.events.imports.formats.amplitude import AMPLITUDE
from penstock.events.imports.formats.csv_rows import CSV
from penstock.events.imports.formats.ga4 import GA4
from penstock.events.imports.formats.mixpanel import MIXPANEL
from penstock.events.imports.formats.ndjson import NDJSON
from penstock.events.imports.formats.posthog import POSTHOG
from penstock.events.imports.formats.reader import ReaderLimits, Row, UnreadableFile
from penstock.events.imports.formats.segment import SEGMENT
from penstock.events.segment_fields import TYPES
from penstock.funnels.definitions.filters import parse_comparison
from penstock.funnels.definitions.operators import Operator
from penstock.funnels.definitions.regexes import PatternChecker
from penstock.http import bodies
from penstock.http.body_memory import BodyMemory, HeldBody
from penstock.http.period import read_time_ms
from penstock.http.schema import RuleBroken
from penstock.jobs.prefer import prefers_async
from penstock.links.attribution.evidence import parse_opened_url, referrer_token
from penstock.links.management.addresses import WebUrlRules, destination_path, web_url
from penstock.links.management.csv_file import COLUMNS, read_csv
from penstock.links.redirect.languages import accepted_languages
from penstock.providers.model import Delivery, NotAnEvent
from penstock.providers.signatures import is_base64, is_signed
from penstock.providers.stripe_events import client_reference
from penstock.providers.table import PROVIDERS
from penstock.segment.calls import CallContext, read_call
from penstock.segment.model import Sender
from tests.fuzz.examples import fuzz_settings
from tests.fuzz.texts import (
    GZIP_BODIES,
    JSON_BODIES,
    JSON_VALUES,
    objects,
    repeated,
    spliced,
    texts,
)
from tests.providers.conftest import standard_headers, stripe_headers

CPU_S = 1.0
"""More than any decoder needs for the longest text here, on the slowest machine."""
NOW_MS = 1_800_000_000_000
_RULES = WebUrlRules("https://links.example.com", private_hosts=False)
_PROXIES = TrustedNetworks("127.0.0.1,10.0.0.0/8,2001:db8::/32")

URLS = texts(
    *(
        "https://",
        "http:/",
        "//",
        "[::1]",
        "127.1",
        "0x7f",
        "example.com",
        ".localhost",
        ":80",
        "@",
    ),
    *(
        "%2e%2e",
        "..",
        "\\",
        "?lk=lnk_1",
        "&ct=x",
        "#",
        "/l/spring",
        "ä",
        "xn--",
        "。",
        "\u202e",
        ":",
    ),
)
TIMES = texts("2026-01-01", "T10:00", "+14:00", "Z", "-", "9", "1e9", ".", ":", "24", " ")
NUMBERS = ('"', "[", "]", ",", "-", "1e400", "0.1", "9" * 20, "true", "null", "\\ud800", "10, 20")
WEBHOOK = objects(
    *("id", "type", "created", "data", "livemode", "timestamp", "metadata", "amount", "currency")
)
KNOWN_TYPE = st.sampled_from(
    ["charge.refunded", "invoice.paid", "order.paid", "subscription.active", "customer.created"]
)


SITE = Website(
    WebsiteId("web_1"),
    WorkspaceId("wsp_1"),
    "Shop",
    WebsiteKind.WEB,
    domain=None,
    identity_scope=None,
    scope_id=ScopeId("web_1"),
    created_at_ms=0,
    updated_at_ms=0,
)
_CALL = objects(
    *("messageId", "anonymousId", "userId", "previousId", "event", "name", "properties", "traits"),
    *("context", "timestamp", "originalTimestamp", "sentAt", "_metadata", "integrations"),
)
_LINKS_CSV = texts(
    *COLUMNS[:6], "slug,name\r\n", ",", '"', "\n", "\r", "'=", "\ufeff", "true", "\0"
)


class Decoder(NamedTuple):
    """errors: what it may raise."""

    name: str
    decode: Callable[[Any], Any]
    inputs: st.SearchStrategy[Any]
    errors: tuple[type[Exception], ...] = ()

    def __str__(self) -> str:
        return self.name


def _compared(operator_and_value: tuple[Operator, str]) -> object:
    return parse_comparison(*operator_and_value, lambda _: None)


def _with_object(kind: str, event: dict[str, Any], thing: Any) -> dict[str, Any]:
    """An event of a known type whose object is anything."""
    return {"id": "evt_1", "created": 1, **event, "type": kind, "data": {"object": thing, **thing}}


def _called(call: Any, is_trusted: bool) -> object:
    limits = EventValidationContext(NOW_MS, lambda _: SITE)
    sender = Sender(SITE, is_trusted)
    return read_call(call, CallContext(sender, limits, lambda *_: False, "Mozilla/5.0"))


_EVENTS = JSON_VALUES | WEBHOOK | st.builds(_with_object, KNOWN_TYPE, WEBHOOK, WEBHOOK)
_WEBHOOK_HEADERS = {"webhook-id": "msg_1", "webhook-timestamp": "1"}

DECODERS = [
    Decoder("json", bodies.parse_json, JSON_BODIES, (Malformed,)),
    Decoder("object", bodies.parse_object, JSON_BODIES, (Malformed, Invalid)),
    Decoder(
        "gzip",
        lambda body: bodies._inflate(body, 10_000, HeldBody(BodyMemory(10**6), "")),
        GZIP_BODIES,
        (Malformed, TooLarge),
    ),
    Decoder("import excerpt", line_excerpt, JSON_BODIES),
    Decoder("import time", stated_ms, JSON_BODIES),
    Decoder("period", read_time_ms, TIMES | JSON_VALUES, (RuleBroken,)),
    Decoder("cursor", decode_cursor, texts("AAAA", "=", "_-", "+"), (ValueError,)),
    Decoder("live cursor", Cursor.parse, texts("AAAA", "=", "_-"), (ValueError,)),
    Decoder(
        "filter",
        _compared,
        st.tuples(st.sampled_from(Operator), spliced(*NUMBERS) | TIMES | repeated(*NUMBERS)),
        (RuleBroken,),
    ),
    Decoder(
        "user agent",
        parse_user_agent,
        texts(
            *(
                "Mozilla/5.0 (",
                "Android 10; K)",
                "iPhone OS 18_",
                "FBAN/",
                " Line/",
                "bot",
                "WhatsApp/",
            ),
            *("Chrome/", "; wv)", "9" * 30, "(", ")", ";", " "),
        ),
    ),
    Decoder("network", client_network, texts("1.2.3.4", "::", "ffff:", "%", ".", "/64", "2001:")),
    Decoder("proxy", _PROXIES.__contains__, texts("10.0.0.1", "::", "ffff:", "%", ".", "/")),
    Decoder("page path", lambda url: path_of_url(split_url(url)), URLS),
    Decoder("link target", lambda url: web_url(url, _RULES), URLS, (RuleBroken,)),
    Decoder("destination", destination_path, URLS, (RuleBroken,)),
    Decoder("opened URL", lambda url: parse_opened_url(url, "https://links.example.com"), URLS),
    Decoder("install referrer", referrer_token, texts("ct=", "%26", "&", "=", "%", "utm_source")),
    Decoder("languages", accepted_languages, texts("de-AT", ";q=", "0.5", ",", "*", " ")),
    Decoder(
        "Prefer",
        lambda value: prefers_async([value]),
        texts("respond-async", ";", " ", '"', "\\", "=", ",", "wait"),
    ),
    Decoder("request ID", request_id_of, st.binary() | st.none()),
    *(
        Decoder(
            f"event of {provider}",
            lambda event, parse=rules.parse: parse(event, _WEBHOOK_HEADERS),
            _EVENTS,
            (NotAnEvent,),
        )
        for provider, rules in PROVIDERS.items()
    ),
    Decoder(
        "Segment call",
        lambda call_and_trust: _called(*call_and_trust),
        st.tuples(
            JSON_VALUES
            | st.builds(lambda call, kind: {**call, "type": kind}, _CALL, st.sampled_from(TYPES)),
            st.booleans(),
        ),
        (Invalid,),
    ),
    Decoder(
        "links as CSV",
        lambda text: read_csv(text.encode("utf-8", "surrogatepass")),
        _LINKS_CSV,
        (Invalid,),
    ),
    Decoder(
        "client reference",
        client_reference,
        JSON_VALUES | texts("penstock_", "AAAA", "dgph", "Cg", "=", "_-"),
    ),
    Decoder(
        "code of a second factor",
        lambda code: (matching_step(new_totp_secret(), code, NOW_MS), bare_code(code)),
        texts("123456", "٣", "-", " ", "0"),
    ),
    Decoder(
        "signing secret",
        is_base64,
        texts("whsec_", "AAAA", "=", "+/"),
    ),
]


@pytest.mark.parametrize("decoder", DECODERS, ids=str)
def test_a_decoder_returns_or_raises_what_is_documented_within_bounded_time(decoder):
    @fuzz_settings(40, times=20)
    @given(decoder.inputs)
    def decode(value: Any) -> None:
        started_s = thread_time()
        with suppress(*decoder.errors):
            decoder.decode(value)
        assert thread_time() - started_s < CPU_S

    decode()


@fuzz_settings(40, times=20)
@given(
    st.sampled_from([*PROVIDERS]),
    st.lists(
        st.sampled_from(
            ["stripe-signature", "webhook-id", "webhook-timestamp", "webhook-signature"]
        ).flatmap(
            lambda name: st.tuples(
                st.just(name), texts("t=", "v1=", ",", "v1,", "1800000000", "=", " ")
            )
        )
    ).map(dict),
    st.binary(),
)
def test_no_random_signature_is_valid(provider, headers, body):
    secrets = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "plain"][: 1 + (provider != "standard")]
    if provider is Provider.STANDARD:
        secrets = secrets[:1]
    assert not is_signed(PROVIDERS[provider], Delivery(headers, body), secrets, NOW_MS)


@fuzz_settings(40, times=20)
@given(texts("=", "'", "@", "\t", "＝", "a", " ", "\u200b"))
def test_a_cell_of_a_file_is_no_formula_and_the_same_text_when_it_comes_back(text):
    cell = encode_cell(text)
    assert decode_cell(cell) == text
    assert not is_formula(cell)


@fuzz_settings(40, times=20)
@given(st.text(), st.text(st.characters(categories=("L", "N")), min_size=1), st.booleans())
def test_what_a_provider_signs_is_valid_until_a_character_changes(body, other, is_stripe):
    body = body.encode("utf-8", "replace").decode()
    if is_stripe:
        provider, secret = Provider.STRIPE, "whsec_plain"
        headers = stripe_headers(body, NOW_MS // 1000, secret)
    else:
        provider, secret = Provider.STANDARD, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
        headers = standard_headers(body, NOW_MS // 1000, secret, "msg_1")
    headers, rules = {name.lower(): value for name, value in headers.items()}, PROVIDERS[provider]
    assert is_signed(rules, Delivery(headers, body.encode()), [secret], NOW_MS)
    changed = (body + other).encode()
    assert not is_signed(rules, Delivery(headers, changed), [secret], NOW_MS)
    late_ms = NOW_MS + 301_000
    assert not is_signed(rules, Delivery(headers, body.encode()), [secret], late_ms)


@fuzz_settings(40, times=20)
@given(st.binary())
def test_a_cursor_says_what_was_put_into_it(content):
    assert decode_cursor(encode_cursor(content)) == content


@fuzz_settings(40, times=20)
@given(st.integers(0, LATEST_MS), st.sets(st.integers(0, 2**32 - 1), max_size=400))
def test_a_live_cursor_is_the_same_when_it_comes_back(after_ms, marks):
    cursor = Cursor(after_ms, frozenset(marks))
    assert Cursor.parse(str(cursor)) == cursor


@fuzz_settings(40, times=20)
@given(st.text() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_a_scalar_is_the_same_when_the_warehouse_returns_it(value):
    read = untagged(tagged(value))
    assert read == value
    assert isinstance(read, bool) == isinstance(value, bool)
    assert plain_text(read) == plain_text(value)
    if not any("\ud800" <= character <= "\udfff" for character in tagged(value)):
        assert value_hash(tagged(read)) == value_hash(tagged(value))


@fuzz_settings(40, times=20)
@given(st.text(min_size=1), st.text(), st.text())
def test_a_signed_identity_is_of_one_user_and_one_secret(secret, user_id, other):
    secret, user_id, other = (
        text.encode("utf-8", "replace").decode() for text in (secret, user_id, other)
    )
    signature = user_hash(secret, user_id)
    assert len(signature) == 64
    assert (user_hash(secret, other) == signature) == (other == user_id)


@fuzz_settings(20, times=2)
@given(content=GZIP_BODIES | JSON_BODIES | st.lists(JSON_BODIES).map(b"\n".join).map(gzip.compress))
def test_a_file_of_an_import_is_read_to_its_end_or_to_what_is_wrong(content, tmp_path_factory):
    path = Path(tmp_path_factory.getbasetemp()) / "import.ndjson"

    def read(stored: bytes) -> list[Row]:
        path.write_bytes(stored)
        return list(NDJSON.rows(path, ReaderLimits(1_000, 100_000)))

    try:
        steps = read(content)
    except UnreadableFile:
        return
    number = 0
    for step in steps:
        number += step.empty_lines or bool(step.content or step.faults)
        assert step.line == number
    is_packed = content.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04"))
    if (
        is_packed
        or content.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
        or any(step.faults for step in steps)
    ):
        return
    content = content.removeprefix(BOM_UTF8)
    with_text = [line for line in content.split(b"\n") if line.strip()]
    assert [step.content.removesuffix(b"\n") for step in steps] == with_text
    in_members = b"".join(map(gzip.compress, content.splitlines(keepends=True)))
    assert [step.content for step in read(in_members) if step.content] == [
        step.content for step in steps
    ]


def _names(*names: str) -> st.SearchStrategy[str]:
    return st.sampled_from(names) | st.text(max_size=3)


_EXPORTS = {
    MIXPANEL: _names(
        *("event", "properties", "time", "distinct_id", "$device_id", "$user_id", "$insert_id"),
        *("$identify", "$merge", "$distinct_ids", "$current_url", "$mp_web_page_view", "$device:"),
    ),
    POSTHOG: _names(
        *("event", "properties", "timestamp", "distinct_id", "uuid", "$identify", "$create_alias"),
        *("alias", "$pageview", "$screen", "person_properties", "$set", "$is_identified"),
    ),
    AMPLITUDE: _names(
        *("event_type", "event_time", "device_id", "user_id", "$identify", "event_properties"),
        *("user_properties", "country", "session_id", "uuid", "[Amplitude] Page Viewed"),
    ),
    GA4: _names(
        *("event_name", "event_timestamp", "event_params", "user_pseudo_id", "user_id", "key"),
        *("value", "string_value", "int_value", "user_properties", "device", "geo", "page_view"),
    ),
    SEGMENT: _names(
        *("type", "track", "page", "screen", "identify", "alias", "group", "event", "properties"),
        *("anonymousId", "userId", "timestamp", "context", "traits", "revenue", "userAgent"),
    ),
}
_TIMES = st.sampled_from([1714557600, "2024-05-01T10:00:00Z", "2024-05-01 10:00:00.5", 1e300])


@pytest.mark.parametrize("reader", _EXPORTS, ids=lambda reader: reader.name)
@fuzz_settings(40, times=5)
@given(data=st.data())
def test_a_line_of_an_export_is_an_import_or_its_faults(reader, data, tmp_path_factory):
    names = _EXPORTS[reader]
    values = st.recursive(
        names | _TIMES | st.integers() | st.floats() | st.booleans() | st.none(),
        lambda inner: st.dictionaries(names, inner, max_size=6) | st.lists(inner, max_size=3),
        max_leaves=12,
    )
    line = json.dumps(data.draw(st.dictionaries(names, values, max_size=8)))
    path = Path(tmp_path_factory.getbasetemp()) / f"import.{reader.name}"
    path.write_bytes(line.encode("utf-8", "replace") + b"\n")
    for row in reader.rows(path, ReaderLimits(64_000, 1_000_000)):
        assert row.content or row.ignored_lines
        if row.content and not row.faults:
            with suppress(Invalid):
                assert read_line(row.content, SITE, Occurrences(), EventValidationContext(NOW_MS))


_CSV_LINES = spliced(
    *('"', ",", ";", "\n", "\r\n", "\r", "\0", "\ufeff", "timestamp", "properties.a", "2026")
)


@fuzz_settings(20, times=2)
@given(header=st.sampled_from(["timestamp,userId", "userId;timestamp;properties"]), body=_CSV_LINES)
def test_every_line_of_a_csv_file_is_in_a_row_or_empty_however_it_is_quoted(
    header, body, tmp_path_factory
):
    path = Path(tmp_path_factory.getbasetemp()) / "import.csv"
    content = f"{header}\n{body}".encode("utf-8", "replace")
    path.write_bytes(content)
    last_line = 0
    for row in CSV.rows(path, ReaderLimits(1_000, 100_000)):
        assert row.line == last_line + 1
        assert row.content or row.faults or row.empty_lines or row.line == 1
        last_line = row.lines_read
    assert last_line == content.count(b"\n") + (not content.endswith(b"\n"))


def _refusal(check: Callable[[str], None], pattern: str) -> RuleBroken | None:
    try:
        check(pattern)
    except RuleBroken as broken:
        return broken
    return None


@fuzz_settings(20)
@given(
    spliced("(", ")", "[", "]", "a", "*", "+", "?", "{9}", "{1,1000}", "|", "\\p{L}", "(?i)", "^")
)
def test_a_regex_is_accepted_when_the_engine_can_run_it_unless_it_is_costly(warehouse, pattern):
    pattern = pattern.replace("\0", "").encode("utf-8", "replace").decode()
    options = re2.Options()
    options.log_errors = False
    check = PatternChecker(warehouse).begin()
    try:
        re2.compile(pattern, options)
    except re2.error:
        with pytest.raises(RuleBroken):
            check(pattern)
        return
    broken = _refusal(check, pattern)
    assert broken is None or broken.code == "too_costly"
