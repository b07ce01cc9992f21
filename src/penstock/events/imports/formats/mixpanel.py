"""Mixpanel: the raw event export, which has one event per line, as JSON.

https://docs.mixpanel.com/reference/raw-event-export documents the file,
https://docs.mixpanel.com/docs/tracking-methods/id-management the IDs. `docs/moving-in.md` documents
the mapping.

Mixpanel has one set of IDs for devices and people. So each user is also linked to the visitor that
has the user's ID, because backends may have sent this ID alone, as `distinct_id`.
"""

from hashlib import blake2b
from typing import Any

from msgspec import Raw

from penstock.base.clock import looks_like_seconds
from penstock.events.imports.formats.exports import (
    UTM,
    Values,
    event_type,
    identify_line,
    object_of,
    reader_of_lines,
    required,
    scalar,
    sent_id,
    sent_ids,
    take,
    text,
    without_signs,
)
from penstock.events.imports.formats.reader import Guide
from penstock.events.imports.formats.times import FileTimes

_DEVICE_PREFIX = "$device:"
_PAGE_VIEW = "$mp_web_page_view"
_FIELDS = {
    "mp_country_code": "country",
    "$region": "region",
    "$os": "os",
    "$browser": "browser",
    "$current_url": "url",
    "$referrer": "referrer",
    **UTM,
}
_PAGE_FIELDS = {"current_url_path": "path", "current_page_title": "title"}
_NOT_PROPERTIES = ("time", "distinct_id", "$device_id", "$user_id", "$insert_id")
_MAX_KEY_CHARS = 40
"""Maximum length of an insert ID that is shown unchanged. Mixpanel's insert IDs have up to 36."""


def _line(values: Values, times: FileTimes) -> Any:
    event, properties = text(values, "event"), dict(object_of(values, "properties"))
    match required(event, "event"):
        case "$identify":
            identified = _id(properties, "$identified_id") or _id(properties, "$user_id")
            user_id = required(identified, "properties.$identified_id")
            anonymous = _id(properties, "$anon_id")
            return _link(user_id, anonymous, _id(properties, "distinct_id"))
        case "$create_alias":
            user_id = required(_id(properties, "alias"), "properties.alias")
            return _link(user_id, _id(properties, "distinct_id"))
        case "$merge":
            first, *others = required(
                sent_ids(properties, "$distinct_ids") or None, "properties.$distinct_ids"
            )
            return _link(_plain(first), *map(_plain, others))
    return _event_line(str(event), properties, times)


def _link(user_id: str, *visitor_ids: str | None) -> Any:
    return identify_line(user_id, [*visitor_ids, user_id])


def _event_line(event: str, properties: dict[str, Raw], times: FileTimes) -> Any:
    time = required(scalar(properties, "time"), "properties.time")
    distinct_id, device_id = _id(properties, "distinct_id"), _id(properties, "$device_id")
    user_id, insert_id = _id(properties, "$user_id"), sent_id(properties, "$insert_id")
    visitor_id = (device_id if user_id else None) or distinct_id or device_id
    line: dict[str, Any] = {"timestamp": _time_ms(time, times)}
    if insert_id is not None:
        line["dedupeKey"] = _dedupe_key(insert_id, event, distinct_id, time)
    if user_id is None:
        line["visitorId"] = required(visitor_id, "properties.distinct_id")
    else:
        line |= {"userId": user_id, "visitorId": visitor_id or user_id}
        others = dict.fromkeys((user_id, distinct_id or user_id))
        line["visitorIds"] = [each for each in others if each != line["visitorId"]]
    for name in _NOT_PROPERTIES:
        properties.pop(name, None)
    line |= take(properties, _FIELDS)
    if event == _PAGE_VIEW:
        line |= take(properties, _PAGE_FIELDS)
    line |= event_type(line, event, _PAGE_VIEW)
    return line | {"properties": without_signs(properties, MIXPANEL.name)}


def _id(properties: Values, name: str) -> str | None:
    value = sent_id(properties, name)
    return None if value is None else _plain(value) or None


def _plain(sent: str) -> str:
    """Return an ID without the prefix `$device:`, which `$device_id` does not have."""
    return sent.removeprefix(_DEVICE_PREFIX)


def _time_ms(time: Any, times: FileTimes) -> Any:
    """Read a time in seconds, as in exports, or in milliseconds. Leave anything else unchanged.

    In projects that were created before 2023, it is what clocks showed in the project's time zone.
    """
    if looks_like_seconds(time):
        return times.local_ms(round(float(time) * 1000))
    return times.local_ms(time) if type(time) is int else time


def _dedupe_key(insert_id: str, event: str, distinct_id: str | None, time: Any) -> str:
    """Return a key by which Mixpanel recognises repeats: insert ID, event, distinct ID and time."""
    content = f"{insert_id}\0{event}\0{distinct_id}\0{time}".encode("utf-8", "replace")
    return f"{insert_id[:_MAX_KEY_CHARS]}:{blake2b(content, digest_size=8).hexdigest()}"


MIXPANEL = reader_of_lines(
    "mixpanel",
    "Mixpanel: the raw event export",
    ("event", "properties"),
    "the raw event export of Mixpanel",
    _line,
    Guide(
        "The raw event export, a few weeks per file.",
        "How to export from Mixpanel",
        "https://docs.mixpanel.com/reference/raw-event-export",
    ),
)
