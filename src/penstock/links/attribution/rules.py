"""Matching rules: which clicks an install can claim, for how long, and with what confidence."""

from collections.abc import Sequence
from itertools import takewhile

from penstock.base.patterns import is_digits
from penstock.base.user_agent import FROZEN_IOS_MAJOR, Platform
from penstock.links.attribution.model import ClaimableClick, Reason
from penstock.links.model import Link
from penstock.settings import DAY_S

TOKEN_WINDOW_MS = DAY_S * 1000

CERTAIN = 1.0
SAME_OS = 0.7
"""Confidence if the network, the platform and the major OS version agree."""
UNKNOWN_OS = 0.5
"""Confidence if the network and the platform agree and an OS version is unknown.

Chrome on Android never sends its OS version.
"""

_MAX_MAJOR_DIGITS = 3


def link_refusal(link: Link, now_ms: int) -> Reason | None:
    """Return why a link does not match the app that its URL opened; None if it matches."""
    if not link.is_active:
        return Reason.DISABLED
    return Reason.LINK_EXPIRED if link.is_expired(now_ms) else None


def refusal_reason(
    click: ClaimableClick, link: Link, install_id: str, now_ms: int, window_ms: int | None
) -> Reason | None:
    """Return why the install cannot claim the click; None if it can, or if it already has.

    window_ms: time after the click during which it can be claimed, in milliseconds; None for no
    limit. The link's expiry does not matter, because the click happened before it.
    """
    if click.claimed_by == install_id:
        return None
    if not link.is_active:
        return Reason.DISABLED
    if click.claimed_by is not None:
        return Reason.CLAIMED
    if window_ms is not None and now_ms - click.clicked_at_ms >= window_ms:
        return Reason.EXPIRED
    return None


def choose_click(candidates: Sequence[ClaimableClick], install_id: str) -> ClaimableClick | Reason:
    """Return the click that the install has already claimed, or else the only unclaimed click."""
    if own := [click for click in candidates if click.claimed_by == install_id]:
        return own[0]
    unclaimed = [click for click in candidates if click.claimed_by is None]
    if len(unclaimed) == 1:
        return unclaimed[0]
    if unclaimed:
        return Reason.AMBIGUOUS
    return Reason.CLAIMED if candidates else Reason.NO_CLICK


def os_major(version: str | None) -> int:
    """Parse the major version from an OS version that an app sent; 0 if it cannot be parsed."""
    digits = "".join(takewhile(is_digits, (version or "").lstrip()))
    return int(digits) if 1 <= len(digits) <= _MAX_MAJOR_DIGITS else 0


def network_confidence(platform: Platform, click_os: int, app_os: int) -> float | None:
    """Return the confidence in a click from the same network and platform; None if the OS versions
    differ.

    click_os, app_os: major versions; 0 if unknown.
    """
    if 0 in (click_os, app_os):
        return UNKNOWN_OS
    if click_os == app_os:
        return SAME_OS
    # Safari on later iOS versions still reports this version.
    if platform is Platform.IOS and click_os == FROZEN_IOS_MAJOR < app_os:
        return UNKNOWN_OS
    return None
