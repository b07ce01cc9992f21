"""How an app's open is matched to a click: which evidence counts, and for how long. Plain code over plain values, no I/O."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from penstock.base.ids import ClickId, LinkId, WebsiteId
from penstock.links.agents import FROZEN_IOS, Platform
from penstock.links.model import Link
from penstock.settings import DAY_S

TOKEN_WINDOW_MS = DAY_S * 1000
NETWORK_WINDOW_MS = 60 * 60 * 1000

CERTAIN = 1.0
SAME_SYSTEM = 0.7
"""Network, platform and major version of the system are the same."""
UNKNOWN_SYSTEM = 0.5
"""Network and platform are the same; one side does not tell the version. Chrome on Android never does."""

_MAJOR = re.compile(r"\s*(\d{1,3})(?!\d)", re.ASCII)


class Method(StrEnum):
    """What a link is found by, surest first."""

    URL = "url"
    INSTALL_REFERRER = "install_referrer"
    CLICK_TOKEN = "click_token"  # noqa: S105 - a name, no secret
    NETWORK = "network"


class Reason(StrEnum):
    """Why there is no match."""

    NO_CLICK = "no_click"
    EXPIRED = "expired"
    AMBIGUOUS = "ambiguous"
    CLAIMED = "claimed"
    DISABLED = "disabled"
    NOT_ALLOWED = "not_allowed"


class StoredClick(NamedTuple):
    """A click that an open may claim. utm: of the link as it was then. claimed_by: None when nobody did; empty when that is forgotten."""

    id: ClickId
    website_id: WebsiteId
    link_id: LinkId
    clicked_at_ms: int
    os_major: int
    utm: Mapping[str, str]
    claimed_at_ms: int | None
    claimed_by: str | None


class Decision(NamedTuple):
    """What was found. reason: None for a match. links: those it concerns; one for a match. at_ms: when it was decided first."""

    at_ms: int
    method: Method | None = None
    reason: Reason | None = None
    links: Sequence[Link] = ()
    click: StoredClick | None = None
    confidence: float | None = None

    @property
    def matched(self) -> bool:
        return self.reason is None

    @property
    def link(self) -> Link | None:
        """The link of a match."""
        return self.links[0] if self.matched else None

    @property
    def utm(self) -> Mapping[str, str]:
        """What a match counts as: the link's UTM as of the click, or its own where no click is known."""
        if self.link is None:
            return {}
        return self.link.utm if self.click is None else self.click.utm


def refusal_of(click: StoredClick, link: Link, install_id: str, now_ms: int, window_ms: int | None) -> Reason | None:
    """Why a click that was found cannot be this install's; None when it can, or is already. window_ms: None is for ever."""
    if click.claimed_by == install_id:
        return None
    if not link.is_active:
        return Reason.DISABLED
    if click.claimed_by is not None:
        return Reason.CLAIMED
    if window_ms is not None and now_ms - click.clicked_at_ms >= window_ms:
        return Reason.EXPIRED
    return None


def chosen(fitting: Sequence[StoredClick], install_id: str) -> StoredClick | Reason:
    """The one click of a network that an install can have: its own, else the only one that is left."""
    if own := [click for click in fitting if click.claimed_by == install_id]:
        return own[0]
    unclaimed = [click for click in fitting if click.claimed_by is None]
    if len(unclaimed) == 1:
        return unclaimed[0]
    if unclaimed:
        return Reason.AMBIGUOUS
    return Reason.CLAIMED if fitting else Reason.NO_CLICK


def os_major(version: str | None) -> int:
    """The major version that an app tells of its system; 0 when it cannot be read."""
    told = _MAJOR.match(version or "")
    return int(told[1]) if told else 0


def confidence(platform: Platform, of_click: int, of_app: int) -> float | None:
    """How sure a click of the same network and platform is; None when the systems differ. of_*: major versions, 0 unknown."""
    if 0 in (of_click, of_app):
        return UNKNOWN_SYSTEM
    if of_click == of_app:
        return SAME_SYSTEM
    # Browsers on later systems go on saying this one.
    return UNKNOWN_SYSTEM if platform is Platform.IOS and of_click == FROZEN_IOS < of_app else None
