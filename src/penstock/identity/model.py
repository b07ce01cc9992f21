"""Plain types of identity. No I/O."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from penstock.base.ids import ScopeId, VisitorId


class Notice(NamedTuple):
    """Something that was not refused but that the caller should know. code: stable, for programs."""

    code: str
    message: str


class Claim(NamedTuple):
    """Who an event or an identify call says it is about, as the client sent it. At least one of the two IDs is set.

    traits: what an identify call says of the user; kept as last told. None: nothing was said.
    """

    scope_id: ScopeId
    visitor_id: str | None
    user_id: str | None
    traits: Mapping[str, Any] | None = None


class Resolution(NamedTuple):
    """Whom a claim turned out to be about. visitor_id: canonical. merged: whether this claim merged two visitors."""

    visitor_id: VisitorId
    merged: bool = False
    notices: tuple[Notice, ...] = ()


class Alias(NamedTuple):
    """An absorbed visitor and whom it counts as, as the warehouse keeps it. version: number of the merge."""

    scope_id: ScopeId
    visitor_id: VisitorId
    canonical_id: VisitorId
    version: int


class Forgotten(NamedTuple):
    """What was removed of a visitor. ids: the canonical one and all it absorbed; empty for a user without a visitor.

    visitors, user_links: rows that were removed. last_merge: number of the newest merge among them, 0 without one.
    """

    ids: tuple[VisitorId, ...] = ()
    visitors: int = 0
    user_links: int = 0
    last_merge: int = 0


_PLACEHOLDERS = frozenset(
    (
        "", "-", "-1", "0", "[object object]", "anonymous", "distinct_id", "distinctid", "email", "false",
        "guest", "id", "n/a", "na", "nan", "nil", "none", "not_authenticated", "null", "true", "undefined",
        "unknown", "user_id", "userid", "visitor_id", "visitorid", "00000000-0000-0000-0000-000000000000",
    )
)  # fmt: skip


def is_placeholder(sent_id: str) -> bool:
    """Whether an ID stands for nobody: what a client sends whose variable was empty or whose visitor is not logged in.

    Bound or merged, it would tie strangers together. Letter case, surrounding blanks and quotes do not matter.
    """
    return sent_id.strip(" \t\r\n\"'").casefold() in _PLACEHOLDERS
