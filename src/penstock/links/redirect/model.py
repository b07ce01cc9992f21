"""Plain types of the public side: a request for a link, and the response."""

from typing import NamedTuple

from penstock.links.clicks.model import Click


class Visit(NamedTuple):
    """A request for a link. Texts are empty when the request lacks them.

    address: the client's network address.
    is_prefetch: a browser loads the page before the person asks for it.
    is_scan: the address came from a QR code.
    query: percent-encoded, without the question mark.
    """

    slug: str
    user_agent: str
    address: str
    accept_language: str
    referrer: str
    is_head: bool
    is_prefetch: bool
    is_scan: bool
    query: str


class LinkResponse(NamedTuple):
    """What a visit gets: 200 with a page, 302 with a location, or 404 with a page.

    has_script: whether the page contains a script.
    click: to be recorded once the response is certain; None for a link that is not found or has
    expired.
    """

    status: int
    page: str = ""
    has_script: bool = False
    location: str = ""
    click: Click | None = None
