"""Fields shared by tracked items and imported lines."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from operator import attrgetter
from urllib.parse import parse_qsl, unquote

from penstock.base.errors import Fault
from penstock.base.paths import path_of_url, split_url
from penstock.events.schema import TrackedItem
from penstock.events.validation import RawItem

_UTM = ("utm_source", "utm_medium", "utm_campaign", "utm_content", "utm_term")
_COLUMNS = ("url", "title", "referrer", *_UTM)
"""Fields that are stored as they are, in columns with the same names."""
_values_of_columns = attrgetter(*_COLUMNS)
_NAME_FIELDS: Mapping[str, str] = {
    "pageview": "path",
    "screenview": "screen",
    "event": "name",
    "transaction": "name",
}
"""The field that contains the name, by type of item."""


def has_name_for_type(raw: RawItem) -> Iterator[Fault]:
    item_type = raw.get("type")
    field = _NAME_FIELDS.get(item_type) if isinstance(item_type, str) else None
    if field is None:
        return
    if raw.get(field) is None and not (field == "path" and raw.get("url") is not None):
        names = "path or url" if field == "path" else field
        yield Fault(field, "required", f"An item of type {item_type} needs {names}.")
    for other in ("screen", "name"):
        if other != field and raw.get(other) is not None:
            message = f"An item of type {item_type} has no {other}; send its name as {field}."
            yield Fault(other, "not_for_type", message)


def name_and_columns(item: TrackedItem) -> tuple[str, dict[str, str]]:
    """Return the event's name, and the warehouse columns for page, location and traffic source."""
    url = None if item.url is None else split_url(item.url)
    path = item.path or path_of_url(url) or ""
    columns = {
        name: value for name, value in zip(_COLUMNS, _values_of_columns(item), strict=True) if value
    }
    if path:
        columns["path"] = path
    if item.referrer and (host := _host(item.referrer)):
        columns["referrer_host"] = host
    if url is not None and url.query:
        columns = {name: value for name, value in _campaign(url.query).items() if value} | columns
    return item.screen or item.name or path, columns


@lru_cache(maxsize=1000)
def _campaign(query: str) -> Mapping[str, str]:
    """Return the UTM parameters of a URL's query, ignoring letter case.

    Links copied from HTML contain `&amp;`. Tools that encode a URL twice write `%2520` for a space.
    """
    fields = parse_qsl(query.replace("&amp;", "&"), errors="replace")
    return {
        name.lower(): unquote(value) if "%" in value and "%00" not in value else value
        for name, value in fields
        if name.lower() in _UTM
    }


@lru_cache(maxsize=1000)
def _host(url: str) -> str | None:
    parts = split_url(url)
    return None if parts is None else parts.hostname
