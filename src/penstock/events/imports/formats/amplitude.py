"""Amplitude: the archive of the Export API, whose gzip files have one event per line.

https://amplitude.com/docs/apis/analytics/export documents the file, and
https://amplitude.com/docs/data/sources/instrument-track-unique-users the IDs. `docs/moving-in.md`
documents the mapping.
"""

from typing import Any

from msgspec import Raw

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
    take,
    text,
    unique_name,
    without_signs,
)
from penstock.events.imports.formats.reader import Guide
from penstock.events.imports.formats.times import FileTimes

_PAGE_VIEW, _SCREEN_VIEW = "[Amplitude] Page Viewed", "[Amplitude] Screen Viewed"
_COLUMNS = {"country": "country", "region": "region", "os_name": "os"}
_FIELDS = {"[Amplitude] Page URL": "url", "referrer": "referrer", **UTM}
_FIELDS_OF_EVENTS = {
    _PAGE_VIEW: {"[Amplitude] Page Path": "path", "[Amplitude] Page Title": "title"},
    _SCREEN_VIEW: {"[Amplitude] Screen Name": "screen"},
}
_CONTEXT = (
    *("city", "dma", "language", "platform", "version_name", "start_version", "os_version"),
    *("device_type", "device_family", "device_brand", "device_manufacturer", "device_model"),
    *("device_carrier", "library", "paying"),
)
"""Columns that become properties."""
_NO_SESSION = "-1"


def _line(values: Values, times: FileTimes) -> Any:
    event = required(text(values, "event_type"), "event_type")
    device_id, user_id = sent_id(values, "device_id"), sent_id(values, "user_id")
    user_properties = without_signs(object_of(values, "user_properties"), AMPLITUDE.name)
    if event == "$identify":
        if user_id is None:
            return None
        time = times.sent_ms(scalar(values, "event_time"))
        return identify_line(user_id, [device_id], user_properties, time=time)
    if user_id is None:
        required(device_id, "device_id")
    line: dict[str, Any] = {"visitorId": device_id, "userId": user_id}
    line["timestamp"] = times.sent_ms(required(scalar(values, "event_time"), "event_time"))
    line["dedupeKey"] = sent_id(values, "uuid") or sent_id(values, "$insert_id")
    session_id = sent_id(values, "session_id")
    if session_id != _NO_SESSION:
        line["externalSessionId"] = session_id
    properties = dict(object_of(values, "event_properties"))
    line |= take(dict(values), _COLUMNS) | take(properties, _FIELDS)
    line |= take(properties, _FIELDS_OF_EVENTS.get(event, {}))
    line |= event_type(line, event, _PAGE_VIEW)
    return line | {"properties": _properties(properties, values, user_properties)}


def _properties(own: Values, values: Values, user_properties: Values) -> dict[str, Raw]:
    """Return the event's own properties, the columns of the device, and the user's properties."""
    properties = without_signs(own, AMPLITUDE.name)
    added = [(name, values[name]) for name in _CONTEXT if scalar(values, name) not in (None, "")]
    added += [(f"user.{name}", raw) for name, raw in user_properties.items()]
    for name, raw in added:
        properties[unique_name(name, properties, AMPLITUDE.name)] = raw
    return properties


AMPLITUDE = reader_of_lines(
    "amplitude",
    "Amplitude: the archive of the Export API",
    ("event_type",),
    "the archive of Amplitude's Export API",
    _line,
    Guide(
        "The ZIP archive of the Export API, as it is.",
        "How to export from Amplitude",
        "https://amplitude.com/docs/apis/analytics/export",
    ),
)
