"""What is kept of the opening of a link: no network address and no User-Agent, only what was told from them."""

from collections.abc import Callable
from enum import StrEnum
from hashlib import blake2b, sha256
from secrets import token_bytes, token_urlsafe
from typing import NamedTuple
from urllib.parse import urlsplit

from msgspec import json

from penstock.base.clock import iso
from penstock.base.ids import ClickId, LinkId
from penstock.links.agents import Agent
from penstock.links.model import Link
from penstock.settings import DAY_S

KeepRow = Callable[[bytes], None]

_MOST_BROWSERS = 200_000
_MAX_HOST_CHARS = 253


class Answer(StrEnum):
    """How an opened link was answered; the value is the warehouse's spelling."""

    PAGE = "page"
    REDIRECT = "redirect"
    PREVIEW = "preview"


class Click(NamedTuple):
    """robot: why it is no click of a person; empty when it is one. token: what the page carried; empty when it carried none.

    qr: whether the address was read from a QR code. country: empty when it is not known.
    """

    id: ClickId
    link: Link
    at_ms: int
    answer: Answer
    agent: Agent
    robot: str
    first_of_day: bool
    referrer_host: str
    language: str
    token: str
    qr: bool
    country: str


def new_token() -> str:
    """128 random bits that stand for a click. Only their hash is stored."""
    return token_urlsafe(16)


def click_row(click: Click) -> bytes:
    """The row of a click, as the warehouse takes it."""
    return json.encode(
        {
            "website_id": click.link.website_id,
            "link_id": click.link.id,
            "clicked_at": iso(click.at_ms),
            "click_id": click.id,
            "answer": click.answer,
            "bot": bool(click.robot),
            "bot_reason": click.robot,
            "first_of_day": click.first_of_day,
            "platform": click.agent.platform,
            "os_major": click.agent.os_major,
            "in_app": click.agent.in_app,
            "referrer_host": click.referrer_host,
            "language": click.language,
            "country": click.country,
            "qr": click.qr,
            **click.link.utm,
            "token_hash": sha256(click.token.encode()).hexdigest() if click.token else "",
        }
    )


def referrer_host(referrer: str) -> str:
    """The host of a `Referer`; empty when there is none that can be read."""
    try:
        host = urlsplit(referrer).hostname or ""
    except ValueError:
        return ""
    return host if host.isascii() and host.isprintable() and len(host) <= _MAX_HOST_CHARS else ""


class Browsers:
    """Which browsers opened which link today (UTC). In this process's memory alone, as hashes under a key that lasts a day.

    A restart and every further node begin anew, and of more than 200,000 a day the oldest are forgotten: then a browser counts twice.
    """

    def __init__(self) -> None:
        self._day, self._key = -1, b""
        self._seen: dict[bytes, None] = {}

    def is_first(self, link_id: LinkId, address: str, user_agent: str, now_ms: int) -> bool:
        """Whether this browser opens the link for the first time today; remembers that it did. Call it on the event loop."""
        day = now_ms // (DAY_S * 1000)
        if day != self._day:
            self._day, self._key = day, token_bytes(32)
            self._seen.clear()
        browser = blake2b(f"{link_id}\0{address}\0{user_agent}".encode(errors="replace"), key=self._key, digest_size=16).digest()
        if browser in self._seen:
            return False
        if len(self._seen) >= _MOST_BROWSERS:
            del self._seen[next(iter(self._seen))]
        self._seen[browser] = None
        return True
