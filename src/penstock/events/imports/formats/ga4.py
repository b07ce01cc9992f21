"""Google Analytics 4: the events of its BigQuery export, as JSON lines or Parquet.

https://support.google.com/analytics/answer/7029846 documents the columns. BigQuery writes whole
numbers as text in JSON. `docs/moving-in.md` documents the mapping.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Raw, Struct, ValidationError, json

from penstock.base.errors import Fault, Invalid
from penstock.base.patterns import is_integer
from penstock.events.imports.formats.exports import (
    MAX_EXPORT_LINE_BYTES,
    Values,
    event_type,
    json_problem,
    object_of,
    required,
    scalar,
    sent_id,
    take,
    text,
    translated,
    unique_name,
    without_signs,
)
from penstock.events.imports.formats.mapping import ReadCells
from penstock.events.imports.formats.parquet import MAGIC, MEDIA_TYPE, is_parquet, parquet_rows
from penstock.events.imports.formats.reader import Guide, Reader, ReaderLimits, Row, UnreadableFile
from penstock.events.imports.formats.text_lines import text_lines
from penstock.events.imports.formats.times import FileTimes

COLUMNS = ("event_name", "event_timestamp", "event_params", "user_pseudo_id")
_NAME = "ga4"
_PAGE_VIEW, _SCREEN_VIEW = "page_view", "screen_view"
_SESSION = "ga_session_id"
_FIELDS = {"page_location": "url", "page_referrer": "referrer", "page_title": "title"}
_SCREENS = {"firebase_screen": "screen", "firebase_screen_class": "screen"}
_CAMPAIGN = {
    "manual_source": "utmSource",
    "manual_medium": "utmMedium",
    "manual_campaign_name": "utmCampaign",
    "manual_content": "utmContent",
    "manual_term": "utmTerm",
}
_COLUMNS_OF_PARTS = {
    "device": {"category": "device", "operating_system": "os", "browser": "browser"},
    "geo": {"country": "country", "region": "region"},
    "collected_traffic_source": _CAMPAIGN,
}
"""Fields of an import by the columns that contain them."""
_CONTEXT = (
    ("geo", "city"),
    ("device", "language"),
    ("app_info", "version"),
    ("traffic_source", "source"),
    ("traffic_source", "medium"),
    ("traffic_source", "name"),
)
"""Parts of columns that become properties, such as `traffic_source.medium`."""
_OBJECTS = ("ecommerce", "items")
"""Columns that become properties, without what is empty."""
_EMPTY: tuple[Any, ...] = (None, "", "(not set)", [], {})


class _Value(Struct):
    """A value, in the field of its type. BigQuery writes `int_value` as text in JSON."""

    string_value: str | None = None
    int_value: int | str | None = None
    float_value: float | None = None
    double_value: float | None = None

    def plain(self) -> Any:
        if isinstance(self.int_value, str):
            return int(self.int_value) if is_integer(self.int_value) else self.int_value
        values = (self.string_value, self.int_value, self.float_value, self.double_value)
        return next((value for value in values if value is not None), None)


class _Parameter(Struct):
    key: str
    value: _Value | None = None


def _parameters(values: Values, name: str) -> dict[str, Any]:
    """Return the parameters in a column by their keys. Raises `Invalid`."""
    try:
        parameters = json.decode(bytes(values.get(name, b"null")), type=list[_Parameter] | None)
    except ValidationError:
        message = 'Must be a list of parameters, such as [{"key": "a", "value": {"int_value": 1}}].'
        raise Invalid([Fault(name, "wrong_type", message)]) from None
    plain = {each.key: each.value.plain() for each in parameters or () if each.value}
    return {key: value for key, value in plain.items() if value is not None}


def _line(values: Values, times: FileTimes) -> Any:
    event = required(text(values, "event_name"), "event_name")
    device_id, user_id = sent_id(values, "user_pseudo_id"), sent_id(values, "user_id")
    if user_id is None:
        required(device_id, "user_pseudo_id")
    time = required(scalar(values, "event_timestamp"), "event_timestamp")
    line: dict[str, Any] = {"visitorId": device_id, "userId": user_id, "timestamp": _ms(time)}
    parameters = _parameters(values, "event_params")
    if (session := parameters.pop(_SESSION, None)) is not None and device_id is not None:
        line["externalSessionId"] = f"{device_id}.{session}"
    own = {name: Raw(json.encode(value)) for name, value in parameters.items()}
    line |= take(own, _FIELDS)
    if event == _SCREEN_VIEW:
        line |= take(own, _SCREENS)
    line |= _fields_of_columns(values)
    line |= event_type(line, event, _PAGE_VIEW)
    return line | {"properties": _properties(own, values)}


def _ms(microseconds: Any) -> Any:
    """Convert a time to milliseconds. Leave anything that is not a time unchanged."""
    sent = str(microseconds)
    return int(sent) // 1000 if is_integer(sent) and len(sent) < len(str(2**63)) else microseconds


def _fields_of_columns(values: Values) -> dict[str, Any]:
    fields = dict[str, Any]()
    for column, names in _COLUMNS_OF_PARTS.items():
        part = dict(object_of(values, column))
        if column == "device":
            part = dict(object_of(part, "web_info")) | part
        known = {name: raw for name, raw in part.items() if scalar(part, name) not in _EMPTY}
        fields |= take(known, names)
    if "device" in fields:
        fields["device"] = fields["device"].lower()
    return fields


def _properties(own: Values, values: Values) -> dict[str, Raw]:
    """Return the event's own parameters, parts of its columns, and the user's properties."""
    properties = without_signs(own, _NAME)
    added = [("platform", scalar(values, "platform"))]
    for column, name in _CONTEXT:
        key = name if column in ("geo", "device") else f"{column}.{name}"
        added.append((key, scalar(object_of(values, column), name)))
    for column in _OBJECTS:
        added.append((column, _without_empty(json.decode(bytes(values.get(column, b"null"))))))
    users = _parameters(values, "user_properties")
    added += [(f"user.{name.lstrip('$')}", value) for name, value in users.items()]
    for name, value in added:
        if value not in _EMPTY:
            properties[unique_name(name, properties, _NAME)] = Raw(json.encode(value))
    return properties


def _without_empty(value: Any) -> Any:
    """Remove what is empty from objects and lists: BigQuery writes all fields of a column."""
    if isinstance(value, list):
        return [part for each in value if (part := _without_empty(each)) not in _EMPTY]
    if not isinstance(value, Mapping):
        return value
    parts = {name: _without_empty(part) for name, part in value.items()}
    return {name: part for name, part in parts.items() if part not in _EMPTY}


# Files


def _read_columns(names: list[str]) -> ReadCells:
    """Return how to read the rows of a Parquet file."""
    if missing := [name for name in COLUMNS if name not in names]:
        raise UnreadableFile(f"The file does not have the column {missing[0]}.")
    return lambda cells: (dict(zip(names, cells, strict=True)), [])


def _head_problem(head: bytes) -> str | None:
    if head.startswith(MAGIC):
        return None
    return json_problem(head, ("event_name",), "the BigQuery export of Google Analytics 4")


def _rows(path: Path, limits: ReaderLimits) -> Iterator[Row]:
    limits = limits._replace(max_row_bytes=MAX_EXPORT_LINE_BYTES)
    if is_parquet(path):
        return translated(parquet_rows(path, limits, _read_columns), _line, limits)
    return translated(text_lines(path, limits), _line, limits)


GA4 = Reader(
    name=_NAME,
    description="Google Analytics 4: the events of its BigQuery export, as JSON lines or Parquet",
    media_types=("application/x-ndjson", "application/ndjson", "application/jsonl", MEDIA_TYPE),
    endings=(".json", ".jsonl", ".ndjson", ".parquet"),
    guide=Guide(
        "The daily tables of the BigQuery export, as JSON (newline delimited) or Parquet.",
        "How to set up the BigQuery export",
        "https://support.google.com/analytics/answer/9358801",
    ),
    head_problem=_head_problem,
    read_rows=_rows,
)
