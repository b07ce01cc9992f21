"""The record of a click on a link. It contains neither the network address nor the User-Agent."""

from enum import StrEnum
from hashlib import sha256
from secrets import token_urlsafe
from typing import NamedTuple
from urllib.parse import urlsplit

from msgspec import json

from penstock.base.clock import iso
from penstock.base.ids import ClickId
from penstock.base.user_agent import UserAgent
from penstock.links.model import Link

_MAX_HOST_CHARS = 253


class ResponseKind(StrEnum):
    """The kind of response to a visit. The values are those in the warehouse."""

    PAGE = "page"
    REDIRECT = "redirect"
    PREVIEW = "preview"


class Click(NamedTuple):
    """A click on a link. Texts are empty if unknown.

    robot: why the visitor is not a person; empty for a person. token: the click token on the page;
    empty if there is none. qr: whether the URL came from a QR code. match_key: identifies the
    network for an hour and never reaches the warehouse; empty if unknown.
    """

    id: ClickId
    link: Link
    at_ms: int
    answer: ResponseKind
    user_agent: UserAgent
    robot: str
    referrer_host: str
    language: str
    token: str
    qr: bool
    country: str
    match_key: bytes = b""


def new_click_token() -> str:
    """Return a token of 128 random bits. Only its hash is stored."""
    return token_urlsafe(16)


def click_row(click: Click, *, first_of_day: bool) -> bytes:
    """Return a click as a JSON row for the warehouse table `clicks`, plus `match_key` for
    attribution.

    first_of_day: whether it is the browser's first click on the link that day (UTC).
    """
    return json.encode(
        {
            "website_id": click.link.website_id,
            "link_id": click.link.id,
            "link_revision": click.link.revision,
            "clicked_at": iso(click.at_ms),
            "click_id": click.id,
            "answer": click.answer,
            "bot": bool(click.robot),
            "bot_reason": click.robot,
            "first_of_day": first_of_day,
            "platform": click.user_agent.platform,
            "os_major": click.user_agent.os_major,
            "in_app": click.user_agent.in_app,
            "referrer_host": click.referrer_host,
            "language": click.language,
            "country": click.country,
            "qr": click.qr,
            **click.link.utm,
            "token_hash": sha256(click.token.encode()).hexdigest() if click.token else "",
            **({"match_key": click.match_key.hex()} if click.match_key else {}),
        }
    )


def referrer_host(referrer: str) -> str:
    """Return the host in a `Referer` header; empty if it is missing or cannot be parsed."""
    try:
        host = urlsplit(referrer).hostname or ""
    except ValueError:
        return ""
    return host if host.isascii() and host.isprintable() and len(host) <= _MAX_HOST_CHARS else ""
