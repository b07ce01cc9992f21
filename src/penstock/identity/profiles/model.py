"""Visitor profiles. Identity resolution does not use them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from penstock.base.ids import ScopeId, VisitorId
from penstock.identity.traits import Statement


class LinkedUser(NamedTuple):
    """The user linked to a visitor.

    traits: the current traits; None if none were ever sent. other_values: see
    `traits.other_values`.
    """

    user_id: str
    traits: Mapping[str, Any] | None
    since_ms: int
    other_values: Sequence[tuple[str, Statement]]


class AbsorbedVisitor(NamedTuple):
    """A visitor that was merged into another. user_id: the user whose claim merged them."""

    visitor_id: VisitorId
    user_id: str
    merged_at_ms: int


class Identity(NamedTuple):
    """A visitor that belongs to a user or was merged.

    user_id: the user of its canonical visitor. merged_at: when it was last merged, in milliseconds;
    None for a canonical visitor. traits: the user's traits; None for a merged visitor. trait_times:
    when each trait was stated as ISO 8601; a trait without a value was removed then.
    """

    visitor_id: str
    canonical_id: str
    user_id: str | None
    merged_at: int | None
    traits: Mapping[str, Any] | None
    trait_times: Mapping[str, str] | None


class Profile(NamedTuple):
    """A canonical visitor and everything linked to it.

    created_at_ms: when its own ID was first received.
    absorbed: the visitors merged into it, oldest merge first.
    """

    scope_id: ScopeId
    visitor_id: VisitorId
    created_at_ms: int
    user: LinkedUser | None
    absorbed: tuple[AbsorbedVisitor, ...]

    @property
    def ids(self) -> list[VisitorId]:
        """All visitor IDs under which the warehouse may hold this visitor's events."""
        return [self.visitor_id, *(visitor.visitor_id for visitor in self.absorbed)]
