"""The fields that tracker items and import lines share: pages, screens, events, transactions."""

from collections.abc import Iterator, Mapping
from typing import Literal
from urllib.parse import SplitResult, parse_qsl, urlsplit

from pydantic import ValidationInfo, field_validator

from penstock.base.errors import Fault
from penstock.base.paths import page_path
from penstock.events.fields import EventName, EventValidationContext, PagePath, Properties, Text
from penstock.events.validation import RawItem
from penstock.http.schema import Input, RuleBroken

_UTM = ("utm_source", "utm_medium", "utm_campaign", "utm_content", "utm_term")
_NAME_FIELDS: Mapping[str, str] = {
    "pageview": "path",
    "screenview": "screen",
    "event": "name",
    "transaction": "name",
}
"""The field with the name of each type of item."""


class TrackedItem(Input):
    """A page view has `path` (or `url`), a screen view `screen`, the others `name`."""

    type: Literal["pageview", "screenview", "event", "transaction"]
    path: PagePath | None = None
    screen: EventName | None = None
    name: EventName | None = None
    properties: Properties | None = None
    url: Text | None = None
    referrer: Text | None = None
    title: Text | None = None
    utm_source: Text | None = None
    utm_medium: Text | None = None
    utm_campaign: Text | None = None
    utm_content: Text | None = None
    utm_term: Text | None = None

    @field_validator("url")
    @classmethod
    def _has_a_path(
        cls, url: str | None, info: ValidationInfo[EventValidationContext]
    ) -> str | None:
        """An item without `path` gets it from its URL, which a page view then needs."""
        is_path_invalid = "path" not in info.data
        if url is None or is_path_invalid or info.data["path"] is not None:
            return url
        path = _path_of_url(_split(url))
        limit = info.context.limits.max_path_chars
        if path is None and info.data.get("type") == "pageview":
            raise RuleBroken("not_a_url", "Must be an absolute URL, or send path instead.")
        if path is not None and len(path) > limit:
            raise RuleBroken("too_long", f"The path may have at most {limit:,} characters.")
        return url


def has_name_for_type(raw: RawItem) -> Iterator[Fault]:
    item_type = raw.get("type")
    field = _NAME_FIELDS.get(item_type) if isinstance(item_type, str) else None
    if field is None:
        return
    if raw.get(field) is None and not (field == "path" and raw.get("url") is not None):
        yield Fault(field, "required", f"An item of type {item_type} needs {field}.")
    for other in ("screen", "name"):
        if other != field and raw.get(other) is not None:
            message = f"An item of type {item_type} has no {other}; send its name as {field}."
            yield Fault(other, "not_for_type", message)


def name_and_columns(item: TrackedItem) -> tuple[str, dict[str, str]]:
    """The event's name, and the warehouse columns for its place and its traffic source."""
    url = None if item.url is None else _split(item.url)
    path = item.path or _path_of_url(url) or ""
    return item.screen or item.name or path, _columns(item, path, url)


def _split(url: str) -> SplitResult | None:
    try:
        return urlsplit(url)
    except ValueError:
        return None


def _path_of_url(url: SplitResult | None) -> str | None:
    """The page path of a URL; None when it has none."""
    return page_path(url.path) if url is not None and url.path[:1] in ("", "/") else None


def _columns(item: TrackedItem, path: str, url: SplitResult | None) -> dict[str, str]:
    referrer = _split(item.referrer or "")
    campaign = dict(parse_qsl(url.query, errors="replace")) if url is not None else {}
    columns = {
        "path": path,
        "url": item.url,
        "title": item.title,
        "referrer": item.referrer,
        "referrer_host": referrer.hostname if referrer is not None else None,
        **{name: getattr(item, name) or campaign.get(name) for name in _UTM},
    }
    return {name: value for name, value in columns.items() if value}
