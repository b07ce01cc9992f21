"""An app open, with everything that a decision needs."""

from hashlib import blake2b
from typing import NamedTuple

from penstock.accounts.model import Website
from penstock.base.ids import VisitorId
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
    """Return the visitor that the app sent, or else the only visitor of its install, whose ID
    follows from the install.
    """
    install = f"{website.id}\0{app_open.install_id}".encode()
    return VisitorId(app_open.visitor_id or f"vis_{blake2b(install, digest_size=16).hexdigest()}")
