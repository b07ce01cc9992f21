"""Who is who: the table of the intake's design as plain code over plain values. No I/O.

A visitor without a user may be linked or absorbed; a visitor with a user absorbs and is never absorbed. So a merge always ends at a
visitor that stays canonical, an absorbed visitor never had anyone absorbed before, and no chain of merges can form.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.base.ids import ScopeId, VisitorId
from penstock.identity.model import Claim, Notice, Resolution, is_placeholder

VisitorKey = tuple[ScopeId, str]
UserKey = tuple[ScopeId, str]

PLACEHOLDER = Notice("placeholder_id", "A placeholder instead of an ID was stored as sent; it is never linked or merged.")
CONFLICT = Notice("identity_conflict", "The visitor belongs to another user; nothing was merged, and this user's own visitor is used.")


class Visitor(NamedTuple):
    """canonical_id: itself, or the visitor that it was merged into. user_id: the user that the canonical visitor is linked to."""

    canonical_id: VisitorId
    user_id: str | None


def _real(sent_id: str | None) -> str | None:
    return None if sent_id is None or is_placeholder(sent_id) else sent_id


class Merge(NamedTuple):
    scope_id: ScopeId
    absorbed_id: VisitorId
    kept_id: VisitorId
    user_id: str


@dataclass(slots=True)
class Ledger:
    """The visitors and user links that some claims touch, and what resolving the claims changed in them."""

    visitors: dict[VisitorKey, Visitor]
    links: dict[UserKey, VisitorId]
    created: set[VisitorKey] = field(default_factory=set)
    changed: set[VisitorKey] = field(default_factory=set)
    linked: list[UserKey] = field(default_factory=list)
    merges: list[Merge] = field(default_factory=list)
    traits: dict[UserKey, Mapping[str, Any]] = field(default_factory=dict)

    def resolve(self, claim: Claim, new_visitor: Callable[[], VisitorId]) -> Resolution:
        """Whom the claim is about, after linking or merging what it binds. new_visitor: makes an ID that no visitor has yet."""
        scope, visitor_id, user_id = claim.scope_id, _real(claim.visitor_id), _real(claim.user_id)
        notices = () if (visitor_id, user_id) == (claim.visitor_id, claim.user_id) else (PLACEHOLDER,)
        if user_id is None:
            if visitor_id is None:
                return Resolution(VisitorId(claim.visitor_id or claim.user_id or ""), notices=notices)
            return Resolution(self._visitor(scope, visitor_id).canonical_id, notices=notices)
        if claim.traits is not None:
            self.traits[scope, user_id] = claim.traits
        home = self.links.get((scope, user_id))
        if visitor_id is None:
            return Resolution(home or self._settle(scope, new_visitor(), user_id), notices=notices)
        return self._bind(scope, visitor_id, user_id, home, new_visitor, notices)

    def _bind(
        self,
        scope: ScopeId,
        visitor_id: str,
        user_id: str,
        home: VisitorId | None,
        new_visitor: Callable[[], VisitorId],
        notices: tuple[Notice, ...],
    ) -> Resolution:
        """Both IDs are given. home: the canonical visitor that the user is linked to already."""
        visitor = self._visitor(scope, visitor_id)
        if visitor.user_id == user_id:
            return Resolution(visitor.canonical_id, notices=notices)
        if visitor.user_id is not None:
            return Resolution(home or self._settle(scope, new_visitor(), user_id), notices=(*notices, CONFLICT))
        if home is None:
            return Resolution(self._settle(scope, visitor.canonical_id, user_id), notices=notices)
        self._note(scope, visitor.canonical_id, Visitor(home, user_id))
        self.merges.append(Merge(scope, visitor.canonical_id, home, user_id))
        return Resolution(home, merged=True, notices=notices)

    def _visitor(self, scope: ScopeId, visitor_id: str) -> Visitor:
        """The visitor of an ID; created when the ID was never seen."""
        known = self.visitors.get((scope, visitor_id))
        return known or self._note(scope, VisitorId(visitor_id), Visitor(VisitorId(visitor_id), None))

    def _settle(self, scope: ScopeId, visitor_id: VisitorId, user_id: str) -> VisitorId:
        """Link the user to a visitor that has none."""
        self._note(scope, visitor_id, Visitor(visitor_id, user_id))
        self.links[scope, user_id] = visitor_id
        self.linked.append((scope, user_id))
        return visitor_id

    def _note(self, scope: ScopeId, visitor_id: VisitorId, visitor: Visitor) -> Visitor:
        key = (scope, visitor_id)
        (self.changed if key in self.visitors and key not in self.created else self.created).add(key)
        self.visitors[key] = visitor
        return visitor
