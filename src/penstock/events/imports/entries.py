"""One line of an import, from JSON to `NewEvent`."""

import sqlite3
from collections.abc import Iterator
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field

from penstock.accounts.model import Website
from penstock.base.errors import Fault, Invalid, Malformed
from penstock.events.checking import Rule, Sent, checked, sized
from penstock.events.fields import Bounds, Currency, EventName, Number, PagePath, PastMoment, Properties, SentId, Text
from penstock.events.model import Family, Kind, NewEvent, Source, dedupe_key
from penstock.events.server import TRANSACTION_FIELDS, keeps_transaction_fields_apart, says_who
from penstock.events.track import has_its_name
from penstock.http.bodies import parse_json
from penstock.http.schema import Input


class ImportLine(Input):
    """A past event. A pageview needs `path`, a screenview `screen`, an event or transaction `name`; all need `visitorId` or `userId`."""

    type: Literal["pageview", "screenview", "event", "transaction"]
    name: EventName | None = None
    path: PagePath | None = None
    screen: EventName | None = None
    timestamp: Annotated[PastMoment, Field(description="When it happened, however long ago.")]
    visitor_id: SentId | None = None
    user_id: SentId | None = None
    external_session_id: SentId | None = None
    dedupe_key: Annotated[SentId | None, Field(description="Recognises a repeat; without one, the line's content does.")] = None
    properties: Properties | None = None
    country: EventName | None = None
    region: EventName | None = None
    device: EventName | None = None
    os: EventName | None = None
    browser: EventName | None = None
    url: Text | None = None
    referrer: Text | None = None
    title: Text | None = None
    utm_source: Text | None = None
    utm_medium: Text | None = None
    utm_campaign: Text | None = None
    utm_content: Text | None = None
    utm_term: Text | None = None
    transaction_id: SentId | None = None
    amount: Number | None = None
    currency: Currency | None = None


_COLUMNS = (
    "external_session_id", "country", "region", "device", "os", "browser", "path", "url", "referrer", "title",
    "utm_source", "utm_medium", "utm_campaign", "utm_content", "utm_term",
)  # fmt: skip


class Occurrences:
    """Counts equal lines of a file. In a private database that the system spills to disk when it grows and removes by itself."""

    def __init__(self) -> None:
        # Worker threads take turns with it.
        self._seen = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._seen.execute("CREATE TABLE seen (content BLOB PRIMARY KEY, times INTEGER NOT NULL) WITHOUT ROWID")

    def number(self, content: bytes) -> int:
        """1 for the first line of this content, 2 for the second, ..."""
        counted = "INSERT INTO seen VALUES (?, 1) ON CONFLICT DO UPDATE SET times = times + 1 RETURNING times"
        [(times,)] = self._seen.execute(counted, (content,)).fetchall()
        return int(times)


def read_entry(text: bytes, website: Website, occurrences: Occurrences, bounds: Bounds) -> NewEvent:
    """`Invalid` with every fault of the line, each with its field.

    A line without a dedupeKey is recognised by its content and by how many equal lines the file had before it: the same file again
    makes no doubles, and two equal lines of one file are two events.
    """
    raw = _json(text)
    sent = checked(raw, ImportLine, _RULES, bounds)
    content = sized(raw, bounds)
    kind = Kind(sent.type)
    columns = {name: value for name in _COLUMNS if (value := getattr(sent, name))}
    if sent.referrer and (host := _host(sent.referrer)):
        columns["referrer_host"] = host
    told = {"amount": sent.amount, "currency": sent.currency, "transactionId": sent.transaction_id}
    return NewEvent(
        website_id=website.id,
        scope_id=website.scope_id,
        kind=kind,
        name=(sent.path if kind is Kind.PAGEVIEW else sent.screen or sent.name) or "",
        source=Source.IMPORT,
        occurred_at_ms=sent.timestamp,
        stated_at_ms=sent.timestamp,
        received_at_ms=bounds.now_ms,
        visitor_id=sent.visitor_id,
        user_id=sent.user_id,
        body_hash=content,
        dedupe_key=dedupe_key(website.id, Family.IMPORTS, sent.dedupe_key or f"\0{content.hex()}\0{occurrences.number(content)}"),
        columns=columns,
        properties={**(sent.properties or {}), **{name: value for name, value in told.items() if value is not None}},
    )


def too_long(bounds: Bounds) -> Fault:
    return Fault("", "too_large", f"A line may have {bounds.limits.max_event_bytes:,} bytes.")


def _json(text: bytes) -> Any:
    try:
        return parse_json(text)
    except Malformed as error:
        raise Invalid([Fault("", error.code, error.detail.replace("The body", "The line"))]) from None


def _is_a_transaction(sent: Sent) -> Iterator[Fault]:
    if sent.get("type") != Kind.TRANSACTION:
        for field in TRANSACTION_FIELDS:
            if field in sent:
                yield Fault(field, "not_for_type", "Only an item of type transaction has it.")
    else:
        yield from keeps_transaction_fields_apart(sent)


_RULES: tuple[Rule, ...] = (has_its_name, says_who, _is_a_transaction)


def _host(referrer: str) -> str:
    try:
        return (urlsplit(referrer).hostname or "").lower()
    except ValueError:
        return ""
