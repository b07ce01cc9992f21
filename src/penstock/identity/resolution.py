"""Identity resolution as plain code over plain values. No I/O. Source: intake, identity table.

A visitor without a user may be linked or absorbed; a visitor with a user absorbs others and is
never absorbed. So a merge always ends at a canonical visitor, an absorbed visitor has absorbed
nobody, and merges cannot form chains.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.base.ids import ScopeId, VisitorId
from penstock.identity.model import Claim, Notice, Resolution, is_placeholder

VisitorKey = tuple[ScopeId, str]
UserKey = tuple[ScopeId, str]

PLACEHOLDER = Notice(
    "placeholder_id",
    "An ID is a placeholder such as null or anonymous. It was stored as sent, but not linked.",
)
CONFLICT = Notice(
    "identity_conflict",
    "This visitor belongs to another user. Nothing was merged; the user's own visitor was used.",
)


class Visitor(NamedTuple):
    """canonical_id: its own ID, or that of the visitor which absorbed it.

    user_id: the user linked to the canonical visitor.
    """

    canonical_id: VisitorId
    user_id: str | None


def _without_placeholder(sent_id: str | None) -> str | None:
    return None if sent_id is None or is_placeholder(sent_id) else sent_id


class Merge(NamedTuple):
    scope_id: ScopeId
    absorbed_id: VisitorId
    kept_id: VisitorId
    user_id: str


@dataclass(slots=True)
class IdentityResolver:
    """The visitors and user links that a list of claims refers to, and the changes it makes.

    visitors, links: the current state, updated by each `resolve`. The other fields record what
    the store has to write.
    """

    visitors: dict[VisitorKey, Visitor]
    links: dict[UserKey, VisitorId]
    created: set[VisitorKey] = field(default_factory=set)
    changed: set[VisitorKey] = field(default_factory=set)
    linked: list[UserKey] = field(default_factory=list)
    merges: list[Merge] = field(default_factory=list)
    traits: dict[UserKey, Mapping[str, Any]] = field(default_factory=dict)

    def resolve(self, claim: Claim, new_visitor_id: Callable[[], VisitorId]) -> Resolution:
        """The canonical visitor of a claim, after linking or merging its two IDs."""
        scope = claim.scope_id
        visitor_id = _without_placeholder(claim.visitor_id)
        user_id = _without_placeholder(claim.user_id)
        has_placeholder = (visitor_id, user_id) != (claim.visitor_id, claim.user_id)
        notices = (PLACEHOLDER,) if has_placeholder else ()
        if user_id is None and visitor_id is None:
            return Resolution(VisitorId(claim.visitor_id or claim.user_id or ""), notices=notices)
        if user_id is None:
            assert visitor_id is not None
            return Resolution(self._visitor(scope, visitor_id).canonical_id, notices=notices)
        if claim.traits is not None:
            self.traits[scope, user_id] = claim.traits
        users_visitor = self.links.get((scope, user_id))
        if visitor_id is None:
            users_visitor = users_visitor or self._link(scope, new_visitor_id(), user_id)
            return Resolution(users_visitor, notices=notices)
        return self._bind(scope, visitor_id, user_id, users_visitor, new_visitor_id, notices)

    def _bind(
        self,
        scope: ScopeId,
        visitor_id: str,
        user_id: str,
        users_visitor: VisitorId | None,
        new_visitor_id: Callable[[], VisitorId],
        notices: tuple[Notice, ...],
    ) -> Resolution:
        """Resolve a claim with both IDs. users_visitor: the visitor that the user is linked to."""
        visitor = self._visitor(scope, visitor_id)
        if visitor.user_id == user_id:
            return Resolution(visitor.canonical_id, notices=notices)
        if visitor.user_id is not None:
            users_visitor = users_visitor or self._link(scope, new_visitor_id(), user_id)
            return Resolution(users_visitor, notices=(*notices, CONFLICT))
        if users_visitor is None:
            return Resolution(self._link(scope, visitor.canonical_id, user_id), notices=notices)
        self._put(scope, visitor.canonical_id, Visitor(users_visitor, user_id))
        self.merges.append(Merge(scope, visitor.canonical_id, users_visitor, user_id))
        return Resolution(users_visitor, merged=True, notices=notices)

    def _visitor(self, scope: ScopeId, visitor_id: str) -> Visitor:
        """The visitor of an ID; created when the ID is new."""
        known = self.visitors.get((scope, visitor_id))
        return known or self._put(
            scope, VisitorId(visitor_id), Visitor(VisitorId(visitor_id), None)
        )

    def _link(self, scope: ScopeId, visitor_id: VisitorId, user_id: str) -> VisitorId:
        """Link the user to a visitor that has no user."""
        self._put(scope, visitor_id, Visitor(visitor_id, user_id))
        self.links[scope, user_id] = visitor_id
        self.linked.append((scope, user_id))
        return visitor_id

    def _put(self, scope: ScopeId, visitor_id: VisitorId, visitor: Visitor) -> Visitor:
        key = (scope, visitor_id)
        is_stored = key in self.visitors and key not in self.created
        (self.changed if is_stored else self.created).add(key)
        self.visitors[key] = visitor
        return visitor
