"""Plain types for redirects: a request for a link, and the response."""

from typing import NamedTuple

from penstock.links.clicks.model import Click


class Visit(NamedTuple):
    """A request for a link. Texts are empty if the request does not contain them.

    address: the client's network address. is_prefetch: whether the browser loads the page before
    the user opens it. is_scan: whether the URL came from a QR code. query: the percent-encoded
    query, without the question mark.
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
    """The response to a visit: 200 with a page, 302 with a location, or 404 with a page.

    has_script: whether the page contains a script. click: the click to record once the response has
    been built; None for an unknown or expired link.
    """

    status: int
    page: str = ""
    has_script: bool = False
    location: str = ""
    click: Click | None = None
