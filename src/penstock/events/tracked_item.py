"""Fields shared by tracked items and imported lines."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from penstock.base.cut_texts import cut_path, cut_text
from penstock.base.errors import Fault
from penstock.base.paths import path_of_url, split_url
from penstock.events.field_warnings import TEXT_CUT
from penstock.events.schema import TrackedItem
from penstock.events.validation import RawItem
from penstock.identity.model import Notice

_UTM = ("utm_source", "utm_medium", "utm_campaign", "utm_content", "utm_term")
_COLUMNS = ("url", "title", "referrer", *_UTM)
"""Fields that are stored, cut if necessary, in columns with the same names."""
_MAX_CACHED_CHARS = 2_000
"""Maximum length of a query or an address whose parts are remembered."""
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


def has_only_name_for_type(item: TrackedItem) -> bool:
    """Whether an item whose fields are valid obeys `has_name_for_type`."""
    if item.type == "screenview":
        return item.screen is not None and item.name is None
    if item.screen is not None:
        return False
    if item.type == "pageview":
        return item.name is None and (item.path is not None or item.url is not None)
    return item.name is not None


class ItemColumns(NamedTuple):
    """Where an item belongs.

    name: the name of its event. columns: the warehouse columns for page, location and traffic
    source. warnings: whether one of them was cut.
    """

    name: str
    columns: dict[str, str]
    warnings: tuple[Notice, ...]


def name_and_columns(item: TrackedItem) -> ItemColumns:
    """Return the event's name and columns. Campaign parameters come from the whole URL."""
    url = None if item.url is None else split_url(item.url)
    whole_path = item.path or path_of_url(url) or ""
    path = cut_path(whole_path)
    sent = {
        name: value for name, value in zip(_COLUMNS, _values_of_columns(item), strict=True) if value
    }
    if url is not None and url.query:
        read = _campaign if len(url.query) <= _MAX_CACHED_CHARS else _campaign.__wrapped__
        sent = {name: value for name, value in read(url.query).items() if value} | sent
    columns = {name: cut_text(value) for name, value in sent.items()}
    warnings = () if path == whole_path and columns == sent else (TEXT_CUT,)
    if path:
        columns["path"] = path
    if item.referrer and (host := _host(columns["referrer"])):
        columns["referrer_host"] = host
    return ItemColumns(item.screen or item.name or path, columns, warnings)


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
