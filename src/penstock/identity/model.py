"""Plain types of identity. No I/O."""

from typing import NamedTuple

from penstock.base.ids import ScopeId, VisitorId


class Notice(NamedTuple):
    """Something that was not refused but that the caller should know. code: stable, for programs."""

    code: str
    message: str


class Claim(NamedTuple):
    """Who an event or an identify call says it is about, as the client sent it. At least one of the two IDs is set."""

    scope_id: ScopeId
    visitor_id: str | None
    user_id: str | None


class Resolution(NamedTuple):
    """Whom a claim turned out to be about. visitor_id: canonical. merged: whether this claim merged two visitors."""

    visitor_id: VisitorId
    merged: bool = False
    warnings: tuple[Notice, ...] = ()


class Alias(NamedTuple):
    """An absorbed visitor and whom it counts as, as the warehouse keeps it. version: number of the merge."""

    scope_id: ScopeId
    visitor_id: VisitorId
    canonical_id: VisitorId
    version: int
