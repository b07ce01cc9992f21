"""An app open, with everything that a decision needs."""

from hashlib import blake2b
from typing import NamedTuple

from penstock.accounts.model import Website
from penstock.base.ids import VisitorId, WebsiteId
from penstock.base.user_agent import UserAgent
from penstock.links.attribution.schema import AppOpen
from penstock.settings import Settings


class OpenContext(NamedTuple):
    """An open of a website's app.

    visitor_id: the visitor that the app sent, or else the install's visitor.
    address: the client's network address, never stored.
    """

    app_open: AppOpen
    website: Website
    visitor_id: VisitorId
    address: str
    user_agent: UserAgent
    settings: Settings
    now_ms: int


def visitor_of(app_open: AppOpen, website: Website) -> VisitorId:
    """Return the visitor that the app sent, or else the visitor of its install."""
    return VisitorId(app_open.visitor_id or _visitor_of_install(website.id, app_open.install_id))


def _visitor_of_install(website_id: WebsiteId, install_id: str) -> str:
    """Derive a visitor ID from the install, so that each install has one visitor."""
    digest = blake2b(f"{website_id}\0{install_id}".encode(), digest_size=16).hexdigest()
    return f"vis_{digest}"
