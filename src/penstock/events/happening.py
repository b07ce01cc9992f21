"""What happened, as every way in tells it that knows pages and screens: the tracker and imports."""

from collections.abc import Iterator, Mapping
from typing import Literal
from urllib.parse import SplitResult, parse_qsl, urlsplit

from pydantic import ValidationInfo, field_validator

from penstock.base.errors import Fault
from penstock.base.paths import page_path
from penstock.events.checking import Sent
from penstock.events.fields import Bounds, EventName, PagePath, Properties, Text
from penstock.http.schema import Input, RuleBroken

_UTM = ("utm_source", "utm_medium", "utm_campaign", "utm_content", "utm_term")
_NAME_FIELDS: Mapping[str, str] = {"pageview": "path", "screenview": "screen", "event": "name", "transaction": "name"}
"""The field that carries the name of each type of item."""


class Happening(Input):
    """A pageview has `path` (or `url`), a screen view `screen`, the others `name`."""

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
    def _has_the_path(cls, url: str | None, info: ValidationInfo[Bounds]) -> str | None:
        """An item without a path takes it from here; a pageview has to."""
        if url is None or "path" not in info.data or info.data["path"] is not None:  # not there: the path is at fault itself
            return url
        path = _path_of_url(_split(url))
        most = info.context.limits.max_path_chars
        if path is None and info.data.get("type") == "pageview":
            raise RuleBroken("not_a_url", "Must be an absolute URL, or send path.")
        if path is not None and len(path) > most:
            raise RuleBroken("too_long", f"The path of a page may have {most:,} characters.")
        return url


def has_its_name(sent: Sent) -> Iterator[Fault]:
    kind = sent.get("type")
    field = _NAME_FIELDS.get(kind) if isinstance(kind, str) else None
    if field is None:
        return
    if sent.get(field) is None and not (field == "path" and sent.get("url") is not None):
        yield Fault(field, "required", f"An item of type {kind} needs {field}.")
    for other in ("screen", "name"):
        if other != field and sent.get(other) is not None:
            yield Fault(other, "not_for_type", f"An item of type {kind} has no {other}; its name goes into {field}.")


def name_and_columns(sent: Happening) -> tuple[str, dict[str, str]]:
    """The event's name, and the warehouse's columns of where it happened and where its visitor came from."""
    address = None if sent.url is None else _split(sent.url)
    path = sent.path or _path_of_url(address) or ""
    return sent.screen or sent.name or path, _columns(sent, path, address)


def _split(address: str) -> SplitResult | None:
    try:
        return urlsplit(address)
    except ValueError:
        return None


def _path_of_url(address: SplitResult | None) -> str | None:
    """The page path of an address; None when it has none."""
    return page_path(address.path) if address is not None and address.path[:1] in ("", "/") else None


def _columns(sent: Happening, path: str, address: SplitResult | None) -> dict[str, str]:
    referrer = _split(sent.referrer or "")
    campaign = dict(parse_qsl(address.query, errors="replace")) if address is not None else {}
    columns = {
        "path": path,
        "url": sent.url,
        "title": sent.title,
        "referrer": sent.referrer,
        "referrer_host": referrer.hostname if referrer is not None else None,
        **{name: getattr(sent, name) or campaign.get(name) for name in _UTM},
    }
    return {name: value for name, value in columns.items() if value}
