"""Converts lines of imports from JSON to `NewEvent`."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

from msgspec import Raw, json

from penstock.accounts.model import Website
from penstock.base.clock import LATEST_MS, TimeOutOfRange, parse_time
from penstock.base.errors import Fault, Invalid, Malformed
from penstock.events.field_warnings import country_warnings, field_warnings
from penstock.events.fields import EventValidationContext
from penstock.events.imports.formats.reader import Row
from penstock.events.imports.formats.schema import IDENTIFY, STORED, IdentifyLine, ImportLine
from penstock.events.imports.rejections import Rejections
from penstock.events.imports.stored_events import read_stored_event
from penstock.events.model import Family, Kind, NewEvent, Source, body_hash, dedupe_key
from penstock.events.plain_items import plain_text
from penstock.events.redaction import redact, redact_text
from penstock.events.server_events import (
    TRANSACTION_FIELDS,
    has_identity,
    has_no_session_id,
    has_transaction_fields_once,
    transaction_properties,
)
from penstock.events.tracked_item import (
    has_name_for_type,
    has_only_name_for_type,
    name_and_columns,
)
from penstock.events.validation import RawItem, Rule, canonical_json, validate
from penstock.http.bodies import parse_json
from penstock.identity.model import Claim, Notice, StatedTraits

_OWN_COLUMNS = ("external_session_id", "country", "region", "device", "os", "browser")
_values_of_columns = attrgetter(*_OWN_COLUMNS)
_KINDS = {kind.value: kind for kind in Kind}
_TRANSACTION_FIELDS = frozenset(TRANSACTION_FIELDS)
_NEEDS_MANAGE = Fault(
    "type",
    "needs_manage",
    "Lines of type stored need a key with the permission manage, because they state who sent an "
    "event. Import the file again with such a key.",
)


class Occurrences:
    """Counts equal lines of a file, in a private database that may spill to a temporary file."""

    def __init__(self) -> None:
        # Several worker threads use this connection, one after another.
        self._seen = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._seen.execute(
            "CREATE TABLE seen (content BLOB PRIMARY KEY, times INTEGER NOT NULL) WITHOUT ROWID"
        )

    def number(self, content: bytes) -> int:
        """Count a line. Returns how often its content has occurred so far, including this time.

        Raises `OSError` if the folder for temporary files is full.
        """
        try:
            [(times,)] = self._seen.execute(
                "INSERT INTO seen VALUES (?, 1) ON CONFLICT DO UPDATE SET times = times + 1"
                " RETURNING times",
                (content,),
            ).fetchall()
        except sqlite3.OperationalError as error:
            raise OSError(str(error)) from error
        return int(times)


def read_line(
    text: bytes,
    website: Website,
    occurrences: Occurrences,
    context: EventValidationContext,
    *,
    accepts_stored_events: bool = False,
) -> list[NewEvent | Claim]:
    """Read a line: the links between its IDs, and then its event, if it has one.

    Raises `Invalid` with every fault.
    """
    if (plain := plain_text(text, ImportLine, context)) and _is_complete(plain[0]):
        item, canonical = plain
        warnings = country_warnings(item.country)
        event = _new_event(item, canonical, website, occurrences, context, warnings)
        if not item.visitor_ids:
            return [event]
        return [*(_claim(website, each, event.user_id) for each in item.visitor_ids), event]
    raw = _with_name(_parse(text))
    if isinstance(raw, dict) and raw.get("type") == IDENTIFY:
        canonical_json(raw)  # The limit of an event applies to these lines too.
        item = validate(raw, IdentifyLine, (), context)
        visitor_ids: Sequence[str | None] = item.visitor_ids or (None,)
        claims = [_claim(website, each, item.user_id) for each in visitor_ids]
        return [claims[0]._replace(traits=_traits(item)), *claims[1:]]
    if isinstance(raw, dict) and raw.get("type") == STORED:
        if not accepts_stored_events:
            raise Invalid([_NEEDS_MANAGE])
        return [read_stored_event(raw, website, context)]
    event, more_visitors = _read_event(raw, website, occurrences, context)
    return [*(_claim(website, each, event.user_id) for each in more_visitors), event]


class RowReader:
    """Reads the rows of one file, in their order. rejections: the lines that it rejected."""

    def __init__(self, website: Website, *, accepts_stored_events: bool) -> None:
        self._website, self._accepts_stored_events = website, accepts_stored_events
        self._occurrences = Occurrences()
        self.rejections = Rejections()

    def read(self, row: Row, context: EventValidationContext) -> list[NewEvent | Claim]:
        """Return the links and the events in a row; nothing for a row without content.

        Raises `Invalid` with every fault.
        """
        self.rejections.lines += bool(row.content or row.faults or row.ignored_lines)
        if row.faults:
            self.rejections.add(row.faults)
            raise Invalid(row.faults)
        if not row.content:
            return []
        try:
            return [
                item
                for text in _events_of(row)
                for item in read_line(
                    text,
                    self._website,
                    self._occurrences,
                    context,
                    accepts_stored_events=self._accepts_stored_events,
                )
            ]
        except Invalid as error:
            self.rejections.add(error.faults)
            raise


def _events_of(row: Row) -> list[bytes]:
    """Return the texts of the events in a row."""
    if not row.is_list:
        return [row.content]
    return [bytes(text) for text in json.decode(row.content, type=list[Raw])]


def warning_codes(row: Row, items: Iterable[NewEvent | Claim]) -> set[str]:
    """Return the codes of the warnings about a row and the events in it."""
    of_events = (
        warning.code for item in items if isinstance(item, NewEvent) for warning in item.warnings
    )
    return {*row.warnings, *of_events}


def _traits(item: IdentifyLine) -> StatedTraits | None:
    values, once = item.traits or {}, item.traits_once or {}
    if not values and not once:
        return None
    return StatedTraits(values, once, item.timestamp, is_import=True)


def _claim(website: Website, visitor_id: str | None, user_id: str | None) -> Claim:
    return Claim(website.scope_id, visitor_id, user_id, website_id=website.id)


def _read_event(
    raw: Any, website: Website, occurrences: Occurrences, context: EventValidationContext
) -> tuple[NewEvent, Sequence[str]]:
    """Return the event in a line, and the other visitors of its user."""
    canonical = canonical_json(raw)
    item = validate(raw, ImportLine, _RULES, context, canonical)
    event = _new_event(item, canonical, website, occurrences, context, field_warnings(raw))
    return event, item.visitor_ids or ()


def _new_event(
    item: ImportLine,
    canonical: bytes,
    website: Website,
    occurrences: Occurrences,
    context: EventValidationContext,
    warnings: tuple[Notice, ...],
) -> NewEvent:
    """Return the event of a valid line.

    A line without `dedupeKey` and `transactionId` is identified by its content and the number of
    equal lines before it. So importing a file again stores nothing twice, and two equal lines in
    one file are two events.

    canonical: the line's JSON with sorted keys.
    """
    content = body_hash(canonical)
    name, columns, text_warnings = name_and_columns(item)
    for column, value in zip(_OWN_COLUMNS, _values_of_columns(item), strict=True):
        if value is not None:
            columns[column] = value
    client_id = item.dedupe_key or item.transaction_id
    line_id = client_id or f"\0{content.hex()}\0{occurrences.number(content)}"
    properties = item.properties or {}
    if item.type == "transaction":
        properties = transaction_properties(
            properties, item.amount, item.currency, item.transaction_id
        )
    return NewEvent(
        website.id,
        website.scope_id,
        _KINDS[item.type],
        name,
        Source.IMPORT,
        item.timestamp,
        item.timestamp,
        context.now_ms,
        item.visitor_id,
        item.user_id,
        content,
        dedupe_key(website.id, Family.IMPORTS, line_id),
        None,
        client_id,
        columns,
        properties,
        warnings=warnings + text_warnings,
        is_public=False,
    )


def _is_complete(item: ImportLine) -> bool:
    """Whether a line whose fields are valid obeys `_RULES`."""
    return (
        has_only_name_for_type(item)
        and (item.user_id is not None or (item.visitor_id is not None and not item.visitor_ids))
        and (
            _TRANSACTION_FIELDS.isdisjoint(item.properties or ())
            if item.type == "transaction"
            else item.amount is None and item.currency is None and item.transaction_id is None
        )
    )


def stated_ms(text: bytes) -> int | None:
    """Return the time of a rejected line, capped at `LATEST_MS`; None if it is missing or
    invalid.
    """
    try:
        at_ms = parse_time(_parse(text)["timestamp"])
    except TimeOutOfRange as error:
        return None if error.is_early else LATEST_MS
    except (Invalid, LookupError, TypeError, ValueError):
        return None
    return min(at_ms, LATEST_MS) if at_ms >= 0 else None


def line_excerpt(text: bytes) -> str:
    """Return a shortened excerpt of a rejected line, without secrets or network addresses."""
    try:
        return redact(_parse(text))
    except Invalid:
        return redact_text(text.decode("utf-8", "replace").strip())


def _parse(text: bytes) -> Any:
    try:
        return parse_json(text.strip())
    except Malformed as error:
        raise Invalid(
            [Fault("", error.code, error.detail.replace("The body", "The line"))]
        ) from None


def _with_name(raw: Any) -> Any:
    """Rename the field `event`, which backend events use instead of `name`."""
    if isinstance(raw, dict) and "event" in raw and raw.get("name") in (None, raw["event"]):
        raw = {name: value for name, value in raw.items() if name != "event"} | {
            "name": raw["event"]
        }
    return raw


def _has_fields_for_type(raw: RawItem) -> Iterator[Fault]:
    if raw.get("type") == Kind.TRANSACTION:
        yield from has_transaction_fields_once(raw)
        return
    for field in TRANSACTION_FIELDS:
        if raw.get(field) is not None:
            yield Fault(field, "not_for_type", "Only items of type transaction have this field.")


def _has_user_for_visitors(raw: RawItem) -> Iterator[Fault]:
    if raw.get("visitorIds") and raw.get("userId") is None:
        yield Fault("visitorIds", "not_for_type", "Only lines with userId have this field.")


_RULES: tuple[Rule, ...] = (
    has_name_for_type,
    has_no_session_id,
    has_identity,
    _has_fields_for_type,
    _has_user_for_visitors,
)
