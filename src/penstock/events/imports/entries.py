"""One line of an import, from JSON to `NewEvent`."""

import sqlite3
from codecs import BOM_UTF8
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from penstock.accounts.model import Website
from penstock.base.clock import LATEST_MS
from penstock.base.errors import Fault, Invalid, Malformed
from penstock.events.checking import Rule, Sent, checked, sized
from penstock.events.fields import Bounds, Currency, EventName, Number, PastMoment, SentId, moment_ms
from penstock.events.happening import Happening, has_its_name, name_and_columns
from penstock.events.model import Family, Kind, NewEvent, Source, dedupe_key
from penstock.events.server import TRANSACTION_FIELDS, keeps_transaction_fields_apart, says_who, takes_no_session_id
from penstock.http.bodies import parse_json
from penstock.http.schema import RuleBroken


class ImportLine(Happening):
    """A past event of a visitor (`visitorId`) or user (`userId`)."""

    timestamp: Annotated[PastMoment, Field(description="When it happened, however long ago.")]
    visitor_id: SentId | None = None
    user_id: SentId | None = None
    external_session_id: SentId | None = None
    dedupe_key: Annotated[
        SentId | None, Field(description="Recognises a repeat; without one transactionId does, and without that the line's content.")
    ] = None
    country: EventName | None = None
    region: EventName | None = None
    device: EventName | None = None
    os: EventName | None = None
    browser: EventName | None = None
    transaction_id: SentId | None = None
    amount: Number | None = None
    currency: Currency | None = None


_OWN_COLUMNS = ("external_session_id", "country", "region", "device", "os", "browser")


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

    A line without a dedupeKey or transactionId is recognised by its content and by how many equal lines the file had before it: the same
    file again makes no doubles, and two equal lines of one file are two events.
    """
    raw = _json(text)
    sent = checked(raw, ImportLine, _RULES, bounds)
    content = sized(raw, bounds)
    name, columns = name_and_columns(sent)
    columns |= {column: value for column in _OWN_COLUMNS if (value := getattr(sent, column)) is not None}
    recognised_by = sent.dedupe_key or sent.transaction_id or f"\0{content.hex()}\0{occurrences.number(content)}"
    told = {"amount": sent.amount, "currency": sent.currency, "transactionId": sent.transaction_id}
    return NewEvent(
        website_id=website.id,
        scope_id=website.scope_id,
        kind=Kind(sent.type),
        name=name,
        source=Source.IMPORT,
        occurred_at_ms=sent.timestamp,
        stated_at_ms=sent.timestamp,
        received_at_ms=bounds.now_ms,
        visitor_id=sent.visitor_id,
        user_id=sent.user_id,
        body_hash=content,
        dedupe_key=dedupe_key(website.id, Family.IMPORTS, recognised_by),
        columns=columns,
        properties={**(sent.properties or {}), **{name: value for name, value in told.items() if value is not None}},
    )


def stated_ms(text: bytes) -> int | None:
    """When a line says that it happened, whatever else is wrong with it; None where it does not say."""
    try:
        return min(moment_ms(_json(text)["timestamp"]), LATEST_MS)
    except (Invalid, LookupError, TypeError, RuleBroken):
        return None


def too_long(bounds: Bounds) -> Fault:
    return Fault("", "too_large", f"A line may have {bounds.limits.max_event_bytes:,} bytes.")


def _json(text: bytes) -> Any:
    try:
        return parse_json(text.removeprefix(BOM_UTF8).strip())
    except Malformed as error:
        raise Invalid([Fault("", error.code, error.detail.replace("The body", "The line"))]) from None


def _is_a_transaction(sent: Sent) -> Iterator[Fault]:
    if sent.get("type") != Kind.TRANSACTION:
        for field in TRANSACTION_FIELDS:
            if field in sent:
                yield Fault(field, "not_for_type", "Only an item of type transaction has it.")
    else:
        yield from keeps_transaction_fields_apart(sent)


_RULES: tuple[Rule, ...] = (has_its_name, takes_no_session_id, says_who, _is_a_transaction)
