"""Fields of calls by Segment and RudderStack clients, whether sent to the API or read from a file.

`docs/segment.md` documents the mapping.
"""

from collections.abc import Mapping
from typing import Any

from penstock.base.errors import Fault, Invalid
from penstock.events.fields import number_or_none
from penstock.events.server_events import transaction_properties
from penstock.events.validation import RawItem

EVENT_TYPES = ("track", "page", "screen")
TYPES = (*EVENT_TYPES, "identify", "alias", "group")

ORDER_NAMES = frozenset(("ordercompleted", "completedorder", "orderrefunded"))
"""Event names that count as transactions, in lower case and without spaces, underscores or
hyphens.
"""

_WITHOUT_SEPARATORS = str.maketrans("", "", " _-")
PAGE_FIELDS = ("path", "url", "referrer", "title")
UTM = {
    "utmSource": "source",
    "utmMedium": "medium",
    "utmCampaign": "name",
    "utmContent": "content",
    "utmTerm": "term",
}
NO_IDENTITY = (
    "Send anonymousId or userId, or both. With a public write key, a website that requires signed "
    "user IDs needs anonymousId."
)


def require_type(raw: RawItem) -> str:
    """Return the type of a call. Raises `Invalid` if it is unknown."""
    call_type = raw.get("type")
    if call_type not in TYPES:
        raise Invalid([Fault("type", "not_one_of", f"Must be one of {', '.join(TYPES)}.")])
    return str(call_type)


def event_fields(raw: RawItem) -> dict[str, Any]:
    """Return the fields of the event in a track, page or screen call; None for missing ones."""
    campaign = part(part(raw, "context"), "campaign")
    return {
        **_kind_and_name(raw),
        **_page_fields(raw),
        **{field: text(campaign.get(name)) for field, name in UTM.items()},
        **_ids(raw, "messageId", "anonymousId", "userId"),
        "properties": _properties(raw),
        "timestamp": raw.get("timestamp") or raw.get("originalTimestamp"),
    }


def user_fields(raw: RawItem) -> dict[str, Any] | None:
    """Return the fields of an identify or alias call; None for an identify call without a user.

    Raises `Invalid` if the call identifies nobody.
    """
    ids = _ids(raw, "anonymousId", "userId", "previousId")
    visitor_id = ids["previousId" if raw["type"] == "alias" else "anonymousId"]
    if raw["type"] == "alias" and visitor_id is None:
        raise Invalid([Fault("visitorId", "required", "An alias call needs previousId.")])
    if raw["type"] == "identify" and ids["userId"] is None:
        if visitor_id is None:
            raise Invalid([Fault("anonymousId", "identity_required", NO_IDENTITY)])
        return None
    fields = {
        "visitorId": visitor_id,
        "userId": ids["userId"],
        "userHash": part(raw, "context").get("userHash"),
    }
    if raw["type"] == "identify":
        fields["traits"] = raw.get("traits") or part(raw, "context").get("traits") or None
    return {name: value for name, value in fields.items() if value is not None}


def _kind_and_name(raw: RawItem) -> dict[str, Any]:
    match raw["type"]:
        case "page":
            return {"type": "pageview"}
        case "screen":
            name = raw.get("name") or part(raw, "properties").get("name")
            return {"type": "screenview", "screen": name}
    return {"type": "transaction" if _is_order(raw) else "event", "name": raw.get("event")}


def _page_fields(raw: RawItem) -> dict[str, str | None]:
    """Return path, URL, referrer and title, including usable values that clients add
    automatically.
    """
    page = part(part(raw, "context"), "page")
    fields = {name: text(page.get(name)) for name in PAGE_FIELDS}
    if not (fields["path"] or "").startswith("/"):
        fields["path"] = None  # the value is not a URL path, for example a file name
    if raw["type"] == "page":
        own = part(raw, "properties")
        fields |= {name: value for name in PAGE_FIELDS if (value := text(own.get(name)))}
    return fields


def _properties(raw: RawItem) -> Any:
    """Return the call's properties, with transaction properties added and page fields removed."""
    properties = raw.get("properties")
    if not isinstance(properties, dict):
        return properties
    if raw["type"] == "page":
        names = {name: raw[name] for name in ("name", "category") if text(raw.get(name))}
        return names | {
            name: value
            for name, value in properties.items()
            if name not in PAGE_FIELDS or not isinstance(value, str)
        }
    return _order_properties(properties) if _is_order(raw) else properties


def _is_order(raw: RawItem) -> bool:
    """Whether the call is a track call for a transaction, judging by its event name."""
    event = raw.get("event")
    if raw["type"] != "track" or not isinstance(event, str):
        return False
    return event.translate(_WITHOUT_SEPARATORS).casefold() in ORDER_NAMES


def _order_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Add transaction properties, without overwriting properties from the sender."""
    amounts = (number_or_none(properties.get(name)) for name in ("revenue", "total"))
    amount = next((value for value in amounts if value is not None), None)
    order_id = _ids(properties, "order_id")["order_id"]
    return {**transaction_properties({}, amount, None, order_id), **properties}


def part(raw: RawItem, name: str) -> RawItem:
    """Return the object in a field, or an empty object if the field contains anything else."""
    part = raw.get(name)
    return part if isinstance(part, dict) else {}


def text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _ids(raw: RawItem, *names: str) -> dict[str, Any]:
    """Return the IDs in these fields as strings.

    Clients may send numbers, or an empty string if they have no ID.
    """
    ids = {name: raw.get(name) for name in names}
    return {
        name: str(value) if type(value) is int else None if value == "" else value
        for name, value in ids.items()
    }
