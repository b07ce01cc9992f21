"""The ways in which an open finds its link, each as part of one transaction; what is found is claimed in it."""

from collections.abc import Callable
from typing import NamedTuple

from sqlalchemy import Connection

from penstock.accounts.model import Website
from penstock.links import claims_store, matches_store, store
from penstock.links.agents import Platform
from penstock.links.evidence import named_by_url, token_of_referrer
from penstock.links.matches import Match
from penstock.links.model import Link
from penstock.links.networks import match_keys
from penstock.links.resolve_schema import AppOpen
from penstock.links.resolving import (
    CERTAIN,
    NETWORK_WINDOW_MS,
    TOKEN_WINDOW_MS,
    Decision,
    Method,
    Reason,
    StoredClick,
    chosen,
    confidence,
    os_major,
    refusal_of,
)


class Asked(NamedTuple):
    """An open of a website's app, and what it is held against. address: from where it came, to be forgotten."""

    sent: AppOpen
    website: Website
    address: str
    base_url: str
    referrer_window_ms: int
    now_ms: int


def decide(db: Connection, asked: Asked) -> Decision:
    """What the surest evidence that names anything says. db: in a write transaction, which the caller commits."""
    for find in _WAYS:
        if (decision := find(db, asked)) is not None:
            return decision
    return Decision(asked.now_ms, reason=Reason.NO_CLICK)


def _by_url(db: Connection, asked: Asked) -> Decision | None:
    """The address says which link; all else is stored. With a click's token it is that click, which belongs to one install."""
    named = named_by_url(asked.sent.url or "", asked.base_url)
    if not named:
        return None
    link = store.link_of_id(db, named.link_id) if named.link_id else store.link_of_slug(db, named.slug)
    if link is None or link.website_id != asked.website.id:
        return None
    click = claims_store.click_of_token(db, asked.website.id, named.token) if named.token else None
    if click is not None and click.link_id == link.id:
        return _claimed(db, asked, link, click, Method.URL, None, CERTAIN)
    reason = None if link.is_active else Reason.DISABLED
    return Decision(asked.now_ms, Method.URL, reason, [link], confidence=None if reason else CERTAIN)


def _by_earlier_open(db: Connection, asked: Asked) -> Decision | None:
    """An install opens for the first time once: who says so again is answered as before."""
    earlier = matches_store.earlier(db, asked.website.id, asked.sent.install_id) if asked.sent.first_open else None
    link = store.link_of_id(db, earlier.link_id) if earlier and earlier.link_id else None
    if earlier is None or link is None:
        return None
    return Decision(earlier.at_ms, earlier.method, None, [link], _remembered(earlier, link), earlier.confidence)


def _remembered(match: Match, link: Link) -> StoredClick | None:
    """The click of a match, which may be removed by now. A link never changes its UTM, so that it counts as what it counted as then."""
    if match.click_id is None or match.clicked_at_ms is None:
        return None
    return StoredClick(match.click_id, match.website_id, link.id, match.clicked_at_ms, 0, link.utm, match.at_ms, match.install_id)


def _by_referrer(db: Connection, asked: Asked) -> Decision | None:
    token = token_of_referrer(asked.sent.install_referrer or "") if asked.sent.first_open else ""
    return _by_token(db, asked, token, Method.INSTALL_REFERRER, asked.referrer_window_ms)


def _by_click_token(db: Connection, asked: Asked) -> Decision | None:
    return _by_token(db, asked, asked.sent.click_token or "", Method.CLICK_TOKEN, TOKEN_WINDOW_MS)


def _by_token(db: Connection, asked: Asked, token: str, method: Method, window_ms: int) -> Decision | None:
    click = claims_store.click_of_token(db, asked.website.id, token) if token else None
    link = store.link_of_id(db, click.link_id) if click else None
    return _claimed(db, asked, link, click, method, window_ms, CERTAIN) if click and link else None


def _by_network(db: Connection, asked: Asked) -> Decision | None:
    sent, app = asked.sent, asked.website.app
    if not sent.first_open:
        return None
    allowed = app.ios_probabilistic_matching if sent.platform is Platform.IOS else app.android_probabilistic_matching
    if not allowed:
        return None if sent.hands_over else Decision(asked.now_ms, reason=Reason.NOT_ALLOWED)
    keys = match_keys(db, asked.website.id, asked.address, asked.now_ms)
    after_ms = asked.now_ms - NETWORK_WINDOW_MS
    clicks = claims_store.clicks_of_network(db, asked.website.id, keys, sent.platform, after_ms) if keys else ()
    major = os_major(sent.os_version)
    fitting = [click for click in clicks if confidence(sent.platform, click.os_major, major) is not None]
    choice = chosen(fitting, sent.install_id)
    if choice is Reason.NO_CLICK:
        return None
    if isinstance(choice, Reason):
        ids = dict.fromkeys(click.link_id for click in fitting)
        links = [link for link_id in ids if (link := store.link_of_id(db, link_id))]
        return Decision(asked.now_ms, Method.NETWORK, choice, links)
    link = store.link_of_id(db, choice.link_id)
    assert link is not None  # links are never deleted
    return _claimed(db, asked, link, choice, Method.NETWORK, None, confidence(sent.platform, choice.os_major, major))


def _claimed(
    db: Connection, asked: Asked, link: Link, click: StoredClick, method: Method, window_ms: int | None, sureness: float | None
) -> Decision:
    """A click that was found, once it is the install's; or why it cannot be."""
    install_id = asked.sent.install_id
    reason = refusal_of(click, link, install_id, asked.now_ms, window_ms)
    if reason is None and click.claimed_by is None and not claims_store.claim(db, click.id, install_id, method, asked.now_ms):
        # Another node was faster.
        click = claims_store.click(db, click.id) or click
        reason = None if click.claimed_by == install_id else Reason.CLAIMED
    at_ms = asked.now_ms if click.claimed_at_ms is None else click.claimed_at_ms
    return Decision(at_ms, method, reason, [link], click, None if reason else sureness)


_WAYS: tuple[Callable[[Connection, Asked], Decision | None], ...] = (
    _by_url,
    _by_earlier_open,
    _by_referrer,
    _by_click_token,
    _by_network,
)
"""Surest first."""
