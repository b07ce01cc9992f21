"""Profiles of visitors. Resolving claims does not use them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from penstock.base.ids import ScopeId, VisitorId


class LinkedUser(NamedTuple):
    """The user of a visitor. traits: from the last identify call that sent some."""

    id: str
    traits: Mapping[str, Any] | None
    since_ms: int


class AbsorbedVisitor(NamedTuple):
    """A visitor that was merged into another. user_id: the user who made it so."""

    visitor_id: VisitorId
    user_id: str
    merged_at_ms: int


class Profile(NamedTuple):
    """A canonical visitor.

    absorbed: oldest merge first. created_at_ms: when its own ID was first received.
    """

    scope_id: ScopeId
    visitor_id: VisitorId
    created_at_ms: int
    user: LinkedUser | None
    absorbed: tuple[AbsorbedVisitor, ...]

    @property
    def ids(self) -> list[VisitorId]:
        """All visitor IDs that this visitor's events may carry in the warehouse."""
        return [self.visitor_id, *(visitor.visitor_id for visitor in self.absorbed)]
