"""Segment and RudderStack: files of calls, such as the raw data in object storage.

https://segment.com/docs/connections/storage/catalog/aws-s3/ and
https://segment.com/docs/connections/spec/common/ document the calls, and
https://www.rudderstack.com/docs/event-spec/standard-events/common-fields/ those of RudderStack.
`docs/segment.md` documents the mapping, which is the same for calls that clients send.
"""

from typing import Any

from msgspec import json

from penstock.base.user_agent import MAX_CHARS, parse_user_agent
from penstock.events.fields import number_or_none
from penstock.events.imports.formats.exports import (
    Values,
    identify_line,
    reader_of_lines,
    require_id,
    required,
    without_signs,
)
from penstock.events.imports.formats.reader import Guide
from penstock.events.imports.formats.times import FileTimes
from penstock.events.model import Source
from penstock.events.segment_fields import (
    EVENT_TYPES,
    event_fields,
    part,
    require_type,
    text,
    user_fields,
)
from penstock.events.server_events import TRANSACTION_FIELDS
from penstock.events.user_agent_columns import user_agent_columns
from penstock.events.validation import RawItem

_TIMES = ("timestamp", "originalTimestamp", "receivedAt", "sentAt")


def _line(values: Values, times: FileTimes) -> Any:
    call = {name: json.decode(raw) for name, raw in values.items()}
    call_type = require_type(call)
    if call_type in EVENT_TYPES:
        return _event_line(call, times)
    fields = None if call_type == "group" else user_fields(call)
    if fields is None:
        return None
    user_id = required(require_id(fields.get("userId"), "userId"), "userId")
    visitor_field = "previousId" if call_type == "alias" else "anonymousId"
    visitor_id = require_id(fields.get("visitorId"), visitor_field)
    traits = fields.get("traits")
    if isinstance(traits, dict):
        traits = without_signs(traits, SEGMENT.name)
    return identify_line(user_id, [visitor_id], traits, time=_time(call, times))


def _event_line(call: RawItem, times: FileTimes) -> dict[str, Any]:
    fields = event_fields(call)
    line = {name: value for name, value in fields.items() if value not in (None, "")}
    line["dedupeKey"] = line.pop("messageId", None)
    line["visitorId"] = line.pop("anonymousId", None)
    line["timestamp"] = required(_time(call, times), "timestamp")
    context = part(call, "context")
    if user_agent := text(context.get("userAgent")):
        is_app = call["type"] == "screen" or "device" in context
        source = Source.APP if is_app else Source.BROWSER
        line |= user_agent_columns(parse_user_agent(user_agent[:MAX_CHARS]), source)
    if isinstance(properties := line.get("properties"), dict):
        line["properties"] = properties = dict(without_signs(properties, SEGMENT.name))
        if line["type"] == "transaction":
            line |= _transaction_fields(properties)
    return line


def _time(call: RawItem, times: FileTimes) -> Any:
    return times.sent_ms(next(filter(None, (call.get(name) for name in _TIMES)), None))


def _transaction_fields(properties: dict[str, Any]) -> dict[str, Any]:
    """Remove the fields of a transaction from its properties, and return those that are valid.

    Invalid ones become properties with another name.
    """
    fields = {}
    for name in TRANSACTION_FIELDS:
        if (value := properties.pop(name, None)) is None:
            continue
        if _is_valid(name, value):
            fields[name] = value
        else:
            properties[f"{SEGMENT.name}_{name}"] = value
    return fields


def _is_valid(name: str, value: Any) -> bool:
    if name == "amount":
        return number_or_none(value) is not None
    if name == "currency":
        return isinstance(value, str) and len(value) == 3 and value.isascii() and value.isalpha()
    return isinstance(value, str) and value != ""


SEGMENT = reader_of_lines(
    "segment",
    "Segment and RudderStack: calls, such as the raw data in object storage",
    ("type",),
    "calls of Segment or RudderStack",
    _line,
    Guide(
        "Files of a storage destination with one call per line.",
        "How to export from Segment",
        "https://segment.com/docs/connections/storage/catalog/aws-s3/",
    ),
)
