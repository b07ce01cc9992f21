"""Plain types of identity. No I/O."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple

from penstock.base.ids import ScopeId, VisitorId, WebsiteId


class Notice(NamedTuple):
    """A warning beside a successful answer. code: stable, for programs."""

    code: str
    message: str


class Trust(IntEnum):
    """Who vouches for the IDs of a claim. Stored: values never change.

    A claim never overrides one of higher trust. Links from before trust was stored count as
    `BACKEND`.
    """

    NONE = 0
    PUBLIC = 1
    """Anyone: a browser or an app, without a proof."""
    SIGNED = 2
    """A browser or an app, with a signature of the user ID by the customer's backend."""
    BACKEND = 3
    """The customer's backend, with an API key."""
    PROVIDER = 4
    """The signed metadata of a payment provider."""


class Claim(NamedTuple):
    """The IDs that an event or an identify call carries, as sent. At least one of the two is set.

    traits: what an identify call says about the user; they replace earlier ones. None: not sent.
    website_id: of an identify call.
    """

    scope_id: ScopeId
    visitor_id: str | None
    user_id: str | None
    traits: Mapping[str, Any] | None = None
    trust: Trust = Trust.BACKEND
    website_id: WebsiteId | None = None


class Resolution(NamedTuple):
    """The canonical visitor of a claim. merged: whether this claim merged two visitors."""

    visitor_id: VisitorId
    merged: bool = False
    notices: tuple[Notice, ...] = ()


PLACEHOLDER = Notice(
    "placeholder_id",
    "An ID is a placeholder such as null or anonymous. It was stored as sent, but not linked.",
)
CONFLICT = Notice(
    "identity_conflict",
    "This visitor belongs to another user. Nothing was merged; the user's own visitor was used.",
)
TOO_MANY_VISITORS = Notice(
    "too_many_visitors",
    "So many visitors belong to this user that a claim without a proof links no more of them. It "
    "was stored, but not linked.",
)

MAX_VISITORS_BY_PUBLIC_CLAIMS = 1_000
"""Once a user has absorbed as many visitors, only claims with a proof add another."""


def as_sent(resolution: Resolution, visitor_id: str) -> Resolution:
    """The resolution as a sender without a key may see it: only what it has sent."""
    notices = tuple(
        notice for notice in resolution.notices if notice in (PLACEHOLDER, TOO_MANY_VISITORS)
    )
    return Resolution(VisitorId(visitor_id), notices=notices)


class Alias(NamedTuple):
    """The warehouse row of an absorbed or released visitor. version: number of the merge."""

    scope_id: ScopeId
    visitor_id: VisitorId
    canonical_id: VisitorId
    version: int


class AllIds(NamedTuple):
    """All IDs of a visitor at one moment, the canonical one first, and its user.

    merges: how many merges were read for it. last_merge: number of the newest one; 0 without one.
    """

    ids: Sequence[VisitorId]
    user_id: str | None
    merges: int
    last_merge: int


class VisitorRemoval(NamedTuple):
    """The rows that were removed with a visitor.

    ids: the canonical ID and all absorbed ones; empty for a user without a visitor.
    visitors, user_links: number of removed rows. last_merge: number of the newest removed merge;
    0 without one. user_id: the user of the visitor. is_open: the rows of absorbed visitors are
    still there; their caller removes them some at a time.
    """

    ids: tuple[VisitorId, ...] = ()
    visitors: int = 0
    user_links: int = 0
    last_merge: int = 0
    user_id: str | None = None
    is_open: bool = False


_PLACEHOLDERS = frozenset(
    (
        "", "(null)", "-", "-1", "0", "[object object]", "anonymous", "distinct_id", "distinctid",
        "email", "false", "guest", "id", "n/a", "na", "nil", "none", "not_authenticated", "null",
        "true", "undefined", "unknown", "user_id", "userid", "visitor_id", "visitorid",
        "00000000-0000-0000-0000-000000000000",
    )
)  # fmt: skip

_TEMPLATE_MARKS = (("{{", "}}"), ("${", "}"), ("%", "%"))
"""Around the name of a variable that a template engine has not replaced, such as `{{user.id}}`."""


@lru_cache(maxsize=20_000)
def is_placeholder(sent_id: str) -> bool:
    """Whether an ID identifies nobody: clients send these when a variable is empty.

    Linked or merged, a placeholder would join strangers. Letter case, surrounding blanks and quotes
    are ignored.
    """
    text = sent_id.strip(" \t\r\n\"'")
    return (
        text.casefold() in _PLACEHOLDERS
        or text == "NaN"  # in other letter case it may be a name
        or any(
            text.startswith(begin) and text.endswith(end) and len(text) > len(begin + end)
            for begin, end in _TEMPLATE_MARKS
        )
    )
