"""Finds the link that led to an open, and claims the click. Tries each kind of evidence in turn.

All functions run in the caller's transaction.
"""

from collections.abc import Callable

from sqlalchemy import Connection

from penstock.base.user_agent import Platform
from penstock.links.attribution import store
from penstock.links.attribution.evidence import is_organic, parse_opened_url, referrer_token
from penstock.links.attribution.model import ClaimableClick, Decision, Match, Method, Reason
from penstock.links.attribution.open_context import OpenContext
from penstock.links.attribution.rules import (
    CERTAIN,
    TOKEN_WINDOW_MS,
    choose_click,
    link_refusal,
    network_confidence,
    os_major,
    refusal_reason,
)
from penstock.links.clicks.match_keys import NETWORK_WINDOW_MS, recent_match_keys
from penstock.links.management.service import link_of_id, link_of_revision, link_of_slug
from penstock.links.model import Link
from penstock.settings import DAY_S


def decide(db: Connection, context: OpenContext) -> Decision:
    """Decide which link an open came from, using the most certain evidence available.

    db: a write transaction, which the caller commits.
    """
    for find in _EVIDENCE:
        if (decision := find(db, context)) is not None:
            return decision
    return Decision(context.now_ms, reason=Reason.NO_CLICK)


def _decide_by_url(db: Connection, context: OpenContext) -> Decision | None:
    """Decide by the opened URL. It identifies the link and may contain a click token."""
    evidence = parse_opened_url(context.app_open.url or "", context.settings.link_urls)
    if not evidence.names_link:
        return None
    link = link_of_id(db, evidence.link_id) if evidence.link_id else link_of_slug(db, evidence.slug)
    if link is None or link.website_id != context.website.id:
        return None
    click = _click_of_token(db, context, evidence.token)
    if click is not None and click.link_id == link.id:
        clicked_link = _link_of_click(db, click) or link
        return _claim(db, context, clicked_link, click, Method.URL, None, CERTAIN)
    reason = link_refusal(link, context.now_ms)
    confidence = None if reason else CERTAIN
    return Decision(context.now_ms, Method.URL, reason, [link], confidence=confidence)


def _decide_by_earlier_open(db: Connection, context: OpenContext) -> Decision | None:
    """Return the earlier decision if the install is retrying its first open."""
    if not context.app_open.first_open:
        return None
    match = store.find_first_match(db, context.website.id, context.app_open.install_id)
    link = (
        link_of_revision(db, match.link_id, match.link_revision)
        if match and match.link_id
        else None
    )
    if match is None or link is None:
        return None
    click = _click_of_match(match, link)
    return Decision(match.at_ms, match.method, None, [link], click, match.confidence)


def _click_of_match(match: Match, link: Link) -> ClaimableClick | None:
    """Rebuild a match's click from the match, because the click's row may have been deleted.

    link: the link as it was at the time of the match.
    """
    if match.click_id is None or match.clicked_at_ms is None:
        return None
    return ClaimableClick(
        id=match.click_id,
        website_id=match.website_id,
        link_id=link.id,
        link_revision=link.revision,
        clicked_at_ms=match.clicked_at_ms,
        os_major=0,
        utm=link.utm,
        claimed_at_ms=match.at_ms,
        claimed_by=match.install_id,
    )


def _decide_by_referrer(db: Connection, context: OpenContext) -> Decision | None:
    app_open = context.app_open
    token = referrer_token(app_open.install_referrer or "") if app_open.first_open else ""
    window_ms = context.settings.install_referrer_days * DAY_S * 1000
    return _decide_by_token(db, context, token, Method.INSTALL_REFERRER, window_ms)


def _decide_by_click_token(db: Connection, context: OpenContext) -> Decision | None:
    token = context.app_open.click_token or ""
    return _decide_by_token(db, context, token, Method.CLICK_TOKEN, TOKEN_WINDOW_MS)


def _decide_by_token(
    db: Connection, context: OpenContext, token: str, method: Method, window_ms: int
) -> Decision | None:
    click = _click_of_token(db, context, token)
    link = _link_of_click(db, click) if click else None
    if click is None or link is None:
        return None
    return _claim(db, context, link, click, method, window_ms, CERTAIN)


def _link_of_click(db: Connection, click: ClaimableClick) -> Link | None:
    """Return the link as it was at the time of the click."""
    return link_of_revision(db, click.link_id, click.link_revision)


def _click_of_token(db: Connection, context: OpenContext, token: str) -> ClaimableClick | None:
    return store.find_click_by_token(db, context.website.id, token) if token else None


def _decide_by_network(db: Connection, context: OpenContext) -> Decision | None:
    app_open, app = context.app_open, context.website.app
    if not app_open.first_open or is_organic(app_open.install_referrer or ""):
        return None
    allowed = (
        app.ios_probabilistic_matching
        if app_open.platform is Platform.IOS
        else app.android_probabilistic_matching
    )
    if not allowed:
        if app_open.has_evidence:
            return None
        return Decision(context.now_ms, reason=Reason.NOT_ALLOWED)
    candidates = _clicks_of_network(db, context)
    choice = choose_click(candidates, app_open.install_id)
    if choice is Reason.NO_CLICK:
        return None
    if isinstance(choice, Reason):
        link_ids = dict.fromkeys(click.link_id for click in candidates)
        links = [link for link_id in link_ids if (link := link_of_id(db, link_id))]
        return Decision(context.now_ms, Method.NETWORK, choice, links)
    link = _link_of_click(db, choice)
    assert link is not None  # links are never deleted
    confidence = network_confidence(
        app_open.platform, choice.os_major, os_major(app_open.os_version)
    )
    return _claim(db, context, link, choice, Method.NETWORK, None, confidence)


def _clicks_of_network(db: Connection, context: OpenContext) -> list[ClaimableClick]:
    """Return clicks in the last hour from the same network and platform, with a compatible OS
    version.
    """
    app_open, website_id = context.app_open, context.website.id
    keys = recent_match_keys(db, website_id, context.address, context.now_ms)
    if not keys:
        return []
    after_ms = context.now_ms - NETWORK_WINDOW_MS
    clicks = store.clicks_by_match_key(db, website_id, keys, app_open.platform, after_ms)
    app_os = os_major(app_open.os_version)
    return [
        click
        for click in clicks
        if network_confidence(app_open.platform, click.os_major, app_os) is not None
    ]


def _claim(
    db: Connection,
    context: OpenContext,
    link: Link,
    click: ClaimableClick,
    method: Method,
    window_ms: int | None,
    confidence: float | None,
) -> Decision:
    """Claim the click for the install. The decision has a reason if it cannot be claimed."""
    install_id, now_ms = context.app_open.install_id, context.now_ms
    reason = refusal_reason(click, link, install_id, now_ms, window_ms)
    if (
        reason is None
        and click.claimed_by is None
        and not store.claim_click(db, click.id, install_id, method, now_ms)
    ):
        # another node has claimed it in the meantime
        click = store.find_click(db, click.id) or click
        reason = None if click.claimed_by == install_id else Reason.CLAIMED
    at_ms = now_ms if click.claimed_at_ms is None else click.claimed_at_ms
    return Decision(at_ms, method, reason, [link], click, None if reason else confidence)


_EVIDENCE: tuple[Callable[[Connection, OpenContext], Decision | None], ...] = (
    _decide_by_url,
    _decide_by_earlier_open,
    _decide_by_referrer,
    _decide_by_click_token,
    _decide_by_network,
)
"""Functions that decide by one kind of evidence each, most certain evidence first."""
