"""Translates lines of other products' exports to lines of an import.

A property whose name starts with `$` fills the field of an import with the same meaning, if there
is one. Otherwise it loses the `$` and, if the event already has a property with that name, gets the
name of the product as a prefix, such as `mixpanel_plan` for `$plan`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from msgspec import DecodeError, Raw, ValidationError, json

from penstock.base.errors import Fault, Invalid
from penstock.base.event_limits import (
    MAX_NAME_CHARS,
)
from penstock.base.paths import path_of_url, split_url
from penstock.base.wording import listed
from penstock.events.imports.formats.fitting import fitted
from penstock.events.imports.formats.reader import Guide, Reader, ReaderLimits, Row, within_values
from penstock.events.imports.formats.text_lines import text_lines
from penstock.events.imports.formats.times import FileTimes

MAX_EXPORT_LINE_BYTES = 1024 * 1024
"""Maximum number of bytes in a line of an export. Much of it may not be part of the event.
"""
T = TypeVar("T")
_OBJECT = json.Decoder(dict[str, Raw])
Values = Mapping[str, Raw]
"""The fields of a JSON object, each with the JSON text of its value."""
Translate = Callable[[Values, FileTimes], Mapping[str, Any] | None]
"""Returns the line of an import for an object, or None if there is nothing to store. Reads times
without an offset with the given object. Raises `Invalid`.
"""

UTM = {
    "utm_source": "utmSource",
    "utm_medium": "utmMedium",
    "utm_campaign": "utmCampaign",
    "utm_content": "utmContent",
    "utm_term": "utmTerm",
}
"""Fields of an import by their usual names."""
_TEXT_FIELDS = ("url", "referrer", "title", *UTM.values())


def reader_of_lines(
    name: str,
    description: str,
    fields: tuple[str, ...],
    what: str,
    translate: Translate,
    guide: Guide,
) -> Reader:
    """Return the reader of a format with one JSON object per line.

    fields: each object has at least one of them. what: name of the file, for people.
    """

    def rows(path: Path, limits: ReaderLimits) -> Iterator[Row]:
        limits = limits._replace(max_row_bytes=MAX_EXPORT_LINE_BYTES)
        return translated(text_lines(path, limits), translate, limits)

    return Reader(
        name=name,
        description=description,
        media_types=("application/x-ndjson", "application/ndjson", "application/jsonl"),
        endings=(".json", ".jsonl", ".ndjson"),
        guide=guide,
        has_local_times=True,
        head_problem=lambda head: json_problem(head, fields, what),
        read_rows=rows,
    )


def translated(rows: Iterator[Row], translate: Translate, limits: ReaderLimits) -> Iterator[Row]:
    """Translate the content of each row, with times in the time zone of the limits.

    See `_translated`.
    """
    times = FileTimes(ZoneInfo(limits.timezone))
    return times.noted(_translated(rows, translate, times))


def _translated(rows: Iterator[Row], translate: Translate, times: FileTimes) -> Iterator[Row]:
    """Translate the content of each row, and fit it into the limits of an event. Content that is
    not a JSON object stays unchanged, so that it is rejected when it is validated.
    """
    for row in within_values(rows):
        if not row.content or row.faults:
            yield row
            continue
        try:
            values = _OBJECT.decode(row.content)
            line = translate(values, times)
            content = b"" if line is None else json.encode(_without_missing(line))
        except Invalid as error:
            yield row._replace(faults=error.faults)
        except (DecodeError, RecursionError, UnicodeError):
            yield row
        else:
            row = row._replace(content=content, ignored_lines=int(line is None))
            yield row if line is None else fitted(row, line)


def _without_missing(line: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in line.items() if value is not None}


def object_of(values: Values, name: str) -> Values:
    """Return the object in a field, or in a field's JSON text; empty for null or a missing field.

    Raises `Invalid` for anything else.
    """
    if name not in values:
        return {}
    raw = bytes(values[name])
    if raw[:1] == b'"':
        raw = json.decode(raw).encode() or b"null"
    if raw in (b"null", b"[]"):
        return {}
    try:
        return _OBJECT.decode(raw)
    except DecodeError:
        fault = Fault(name, "wrong_type", "Must be a JSON object, such as {...}.")
        raise Invalid([fault]) from None


def scalar(values: Values, name: str) -> Any:
    """Return a text, number or boolean; None for a missing field, null, an array or an object."""
    if name not in values:
        return None
    raw = bytes(values[name])
    return None if raw[:1] in b"[{" else json.decode(raw)


def text(values: Values, name: str) -> str | None:
    """Return a text; None if it is missing, empty or something else."""
    value = scalar(values, name)
    return value if isinstance(value, str) and value else None


def sent_id(values: Values, name: str) -> str | None:
    """Return an ID; None if it is missing, null or empty. A whole number becomes its decimal text.

    Raises `Invalid` for anything else.
    """
    if name not in values:
        return None
    value = json.decode(values[name])
    return require_id(str(value) if type(value) is int else value, name) or None


def require_id(value: Any, field: str) -> str | None:
    """Return a text or None. Raises `Invalid` for anything else."""
    if value is None or isinstance(value, str):
        return value
    raise Invalid([Fault(field, "wrong_type", "An ID must be a text or a whole number.")])


def required(value: Any, field: str) -> Any:
    """Return a value that is not None. Raises `Invalid` for None."""
    if value is None:
        raise Invalid([Fault(field, "required", "This field is required.")])
    return value


def take(properties: dict[str, Raw], fields: Mapping[str, str]) -> dict[str, str]:
    """Remove the properties for which an import has a field. Returns the fields.

    A value that its field does not accept stays a property.
    """
    taken = {}
    for name, field in fields.items():
        if name not in properties:
            continue
        value = text(properties, name)
        if value is not None and field not in taken and _fits(value, field):
            taken[field] = value
            del properties[name]
    return taken


def _fits(value: str, field: str) -> bool:
    if "\0" in value:
        return False
    if field == "path":
        return value.startswith("/")
    if field not in _TEXT_FIELDS and len(value.encode("utf-8", "replace")) > MAX_NAME_CHARS:
        return False
    if field in ("url", "referrer") and "://" not in value:
        return False
    return field != "url" or is_page(value)


def is_page(url: str) -> bool:
    """Whether an import accepts this URL as the address of a page."""
    return "%00" not in url and path_of_url(split_url(url)) is not None


def without_signs(properties: Mapping[str, T], product: str) -> dict[str, T]:
    """Remove the `$` at the beginning of names, by the rule at the top of this module. The
    properties with such names come last.
    """
    renamed = {name: raw for name, raw in properties.items() if not name.startswith("$")}
    last_names = dict[str, str]()
    for name, raw in properties.items():
        if name.startswith("$"):
            plain = name.lstrip("$") or product
            # Begin with the last name that was used: trying all of them again would take long.
            last_names[plain] = unique_name(last_names.get(plain, plain), renamed, product)
            renamed[last_names[plain]] = raw
    return renamed


def unique_name(name: str, properties: Mapping[str, Any], product: str) -> str:
    """Return the name, prefixed with the product's if the properties already have it."""
    while name in properties:
        name = f"{product}_{name}"
    return name


def identify_line(
    user_id: str,
    visitor_ids: list[str | None],
    traits: Any = None,
    once: Any = None,
    time: Any = None,
) -> Any:
    """Return a line that links these visitors to the user.

    once: traits for a user without them. time: when the traits were stated.
    """
    line: dict[str, Any] = {"type": "identify", "userId": user_id}
    if known := list(dict.fromkeys(filter(None, visitor_ids))):
        line["visitorIds"] = known
    if traits or once:
        line |= {"timestamp": time, "traits": traits or None, "traitsOnce": once or None}
    return line


def event_type(line: Mapping[str, Any], event: str, page_view: str) -> dict[str, str]:
    """Return the type of a line, and its name if it is neither a page view nor a screen view.

    event: the product's name of the event. page_view: the product's name of a page view, which
    becomes an ordinary event if its page is not known.
    """
    if event == page_view and ("path" in line or "url" in line):
        return {"type": "pageview"}
    return {"type": "screenview"} if "screen" in line else {"type": "event", "name": event}


def sent_ids(values: Values, name: str) -> list[str]:
    """Return the IDs in an array; empty if it is missing or something else."""
    try:
        ids = json.decode(bytes(values.get(name, b"null")), type=list[str | int] | None)
    except ValidationError:
        return []
    return [str(each) for each in ids or () if each != ""]


def json_problem(head: bytes, names: Iterable[str], what: str) -> str | None:
    """Return why a file that begins with these bytes is not NDJSON with objects of these fields.

    names: fields of which each object has at least one. what: name of the file.
    """
    lines = head.lstrip().splitlines()
    if not lines:
        return None
    expected = f"Send {what}: one JSON object per line."
    if not lines[0].startswith(b"{"):
        return f"The file does not begin with a JSON object. {expected}"
    try:
        values = _OBJECT.decode(lines[0])
    except (DecodeError, RecursionError, UnicodeError):
        return None  # The line is cut off, or rejected when it is read.
    if values.keys().isdisjoint(names):
        return f"The first line has none of the fields {listed(list(names), 'or')}. {expected}"
    return None
