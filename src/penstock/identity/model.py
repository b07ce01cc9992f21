"""Plain types of identity. No I/O."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from penstock.base.ids import ScopeId, VisitorId


class Notice(NamedTuple):
    """A warning beside a successful answer. code: stable, for programs."""

    code: str
    message: str


class Claim(NamedTuple):
    """The IDs that an event or an identify call carries, as sent. At least one of the two is set.

    traits: what an identify call says about the user; they replace earlier ones. None: not sent.
    """

    scope_id: ScopeId
    visitor_id: str | None
    user_id: str | None
    traits: Mapping[str, Any] | None = None


class Resolution(NamedTuple):
    """The canonical visitor of a claim. merged: whether this claim merged two visitors."""

    visitor_id: VisitorId
    merged: bool = False
    notices: tuple[Notice, ...] = ()


class Alias(NamedTuple):
    """The warehouse row of an absorbed visitor. version: number of the merge."""

    scope_id: ScopeId
    visitor_id: VisitorId
    canonical_id: VisitorId
    version: int


class VisitorRemoval(NamedTuple):
    """The rows that were removed with a visitor.

    ids: the canonical ID and all absorbed ones; empty for a user without a visitor.
    visitors, user_links: number of removed rows. last_merge: number of the newest removed merge;
    0 without one. user_id: the user of the visitor.
    """

    ids: tuple[VisitorId, ...] = ()
    visitors: int = 0
    user_links: int = 0
    last_merge: int = 0
    user_id: str | None = None


_PLACEHOLDERS = frozenset(
    (
        "", "-", "-1", "0", "[object object]", "anonymous", "distinct_id", "distinctid", "email",
        "false", "guest", "id", "n/a", "na", "nan", "nil", "none", "not_authenticated", "null",
        "true", "undefined", "unknown", "user_id", "userid", "visitor_id", "visitorid",
        "00000000-0000-0000-0000-000000000000",
    )
)  # fmt: skip


def is_placeholder(sent_id: str) -> bool:
    """Whether an ID identifies nobody: clients send these when a variable is empty.

    Linked or merged, a placeholder would join strangers. Letter case, surrounding blanks and quotes
    are ignored.
    """
    return sent_id.strip(" \t\r\n\"'").casefold() in _PLACEHOLDERS
