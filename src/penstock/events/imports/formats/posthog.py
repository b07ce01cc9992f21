"""PostHog: files of events from batch exports and file downloads, and CSV with the same columns.

https://posthog.com/docs/data-pipelines/batch-exports/s3 documents the columns,
https://posthog.com/docs/product-analytics/identify the IDs. `docs/moving-in.md` documents the
mapping.

PostHog has one set of IDs for devices and people. So the visitor is always `distinct_id`, and a
user is also the visitor that has the user's ID.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Raw

from penstock.events.imports.formats.csv_rows import cells_of_fields, csv_problem, csv_rows
from penstock.events.imports.formats.exports import (
    MAX_EXPORT_LINE_BYTES,
    UTM,
    Values,
    event_type,
    identify_line,
    json_problem,
    object_of,
    required,
    scalar,
    sent_id,
    sent_ids,
    take,
    text,
    translated,
    without_signs,
)
from penstock.events.imports.formats.mapping import ReadCells
from penstock.events.imports.formats.parquet import (
    MAGIC,
    MEDIA_TYPE,
    is_parquet,
    parquet_rows,
)
from penstock.events.imports.formats.reader import Guide, Reader, ReaderLimits, Row, UnreadableFile
from penstock.events.imports.formats.text_lines import text_lines
from penstock.events.imports.formats.times import FileTimes
from penstock.events.imports.formats.unpacking import unpacked

_COLUMNS = ("event", "distinct_id", "timestamp")
_EXPECTED = (
    "Send a batch export of events as JSON Lines or Parquet, or CSV whose first row names the "
    "columns event, distinct_id and timestamp."
)
_FIELDS = {
    "$geoip_country_code": "country",
    "$geoip_subdivision_1_name": "region",
    "$device_type": "device",
    "$os": "os",
    "$browser": "browser",
    "$current_url": "url",
    "$referrer": "referrer",
    "$session_id": "externalSessionId",
    **UTM,
}
_FIELDS_OF_EVENTS = {
    "$pageview": {"$pathname": "path", "title": "title"},
    "$screen": {"$screen_name": "screen"},
}
_NOT_PROPERTIES = (
    *("distinct_id", "token", "$set", "$set_once", "$unset", "$user_id", "$is_identified"),
    "$anon_distinct_id",
)
_WITHOUT_EVENT = ("$groupidentify", "$set")


def _line(values: Values, times: FileTimes) -> Any:
    event, distinct_id = text(values, "event"), sent_id(values, "distinct_id")
    properties = dict(object_of(values, "properties"))
    event, distinct_id = required(event, "event"), required(distinct_id, "distinct_id")
    is_user = _is_user(properties, distinct_id)
    match event:
        case "$identify":
            anonymous = sent_id(properties, "$anon_distinct_id")
            traits = _traits(values, properties, times)
            return identify_line(distinct_id, [anonymous, distinct_id], *traits)
        case "$create_alias":
            alias = required(sent_id(properties, "alias"), "properties.alias")
            return identify_line(alias, [distinct_id, alias])
        case "$merge_dangerously":
            alias = required(sent_id(properties, "alias"), "properties.alias")
            return identify_line(distinct_id, [alias, distinct_id])
        case "$set" if is_user:
            return identify_line(distinct_id, [distinct_id], *_traits(values, properties, times))
    if event in _WITHOUT_EVENT:
        return None
    user = {"userId": distinct_id} if is_user else {}
    return user | _event_line(event, distinct_id, values, properties, times)


def _is_user(properties: Values, distinct_id: str) -> bool:
    """Whether a client marked the ID as a user's. Backends do not mark any."""
    is_identified = scalar(properties, "$is_identified")
    if isinstance(is_identified, bool):
        return is_identified
    return sent_id(properties, "$user_id") == distinct_id


def _traits(
    values: Values, properties: Values, times: FileTimes
) -> tuple[Mapping[str, Raw], Mapping[str, Raw], Any]:
    """Return the properties of the person, those of a person without them, and their time.

    If the export has no properties of people, they are those that this event sets.
    """
    once, person = dict[str, Raw](), object_of(values, "person_properties")
    if not person:
        once = {**object_of(values, "set_once"), **object_of(properties, "$set_once")}
        removed = dict.fromkeys(sent_ids(properties, "$unset"), Raw(b"null"))
        person = {**object_of(values, "set"), **object_of(properties, "$set"), **removed}
    return (
        without_signs(person, POSTHOG.name),
        without_signs(once, POSTHOG.name),
        times.sent_ms(scalar(values, "timestamp")),
    )


def _event_line(
    event: str, distinct_id: str, values: Values, properties: dict[str, Raw], times: FileTimes
) -> dict[str, Any]:
    line: dict[str, Any] = {
        "visitorId": distinct_id,
        "timestamp": times.sent_ms(required(scalar(values, "timestamp"), "timestamp")),
    }
    if (uuid := sent_id(values, "uuid")) is not None:
        line["dedupeKey"] = uuid
    for name in _NOT_PROPERTIES:
        properties.pop(name, None)
    line |= take(properties, _FIELDS)
    if "device" in line:
        line["device"] = line["device"].lower()
    line |= take(properties, _FIELDS_OF_EVENTS.get(event, {}))
    line |= event_type(line, event, "$pageview")
    return line | {"properties": without_signs(properties, POSTHOG.name)}


# Files


def _read_names(names: list[str]) -> ReadCells:
    missing = [name for name in _COLUMNS if name not in names]
    if missing:
        raise UnreadableFile(f"The first row does not name the column {missing[0]}. {_EXPECTED}")
    return cells_of_fields(tuple(map(_column, names)), {})


def _read_columns(names: list[str]) -> ReadCells:
    """Return how to read the rows of a Parquet file, whose columns may contain objects."""
    missing = [name for name in _COLUMNS if name not in names]
    if missing:
        raise UnreadableFile(f"The file does not have the column {missing[0]}. {_EXPECTED}")
    return lambda cells: (dict(zip(names, cells, strict=True)), [])


def _column(name: str) -> tuple[str, str | None]:
    field, _, key = name.partition(".")
    return (field, key) if field == "properties" and key else (name, None)


def _head_problem(head: bytes) -> str | None:
    if head.startswith(MAGIC):
        return None
    if head.lstrip().startswith(b"{"):
        return json_problem(head, _COLUMNS, "a batch export of events from PostHog")
    return csv_problem(head, _read_names, _EXPECTED)


def _rows(path: Path, limits: ReaderLimits) -> Iterator[Row]:
    limits = limits._replace(max_row_bytes=MAX_EXPORT_LINE_BYTES)
    if is_parquet(path):
        rows = parquet_rows(path, limits, _read_columns)
    elif _first_byte(path, limits) == b"{":
        rows = text_lines(path, limits)
    else:
        rows = csv_rows(path, limits, _read_names)
    return translated(rows, _line, limits)


def _first_byte(path: Path, limits: ReaderLimits) -> bytes:
    """Return the first byte of the content that is not whitespace; empty if there is none near the
    beginning.
    """
    for piece, _ in unpacked(path, limits.max_inflated_bytes):
        if start := piece.lstrip():
            return start[:1]
        if piece:
            break
    return b""


POSTHOG = Reader(
    name="posthog",
    description="PostHog: a batch export of events as JSON Lines or Parquet, or CSV with the "
    "same columns",
    media_types=("application/x-ndjson", "application/jsonl", "text/csv", MEDIA_TYPE),
    endings=(".jsonl", ".json", ".csv", ".parquet"),
    guide=Guide(
        "A batch export or file download of events, as JSON Lines, Parquet or CSV.",
        "How to export from PostHog",
        "https://posthog.com/docs/data-pipelines/batch-exports",
    ),
    has_local_times=True,
    head_problem=_head_problem,
    read_rows=_rows,
)
