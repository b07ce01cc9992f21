"""The rules of identity resolution, as pure functions over plain values. No I/O.

A visitor without a user can be linked or absorbed, but never absorbs another. A visitor with a user
absorbs others, but is never absorbed. A merge therefore always points to a canonical visitor, and
merges never form chains.

At equal trust the first claim wins. A claim of higher trust releases the visitor from its previous
user. A claim with any proof also releases the user from a visitor that was linked without proof,
because anyone could have made that link. A released visitor is on its own again, without a user.

A visitor may have absorbed too many others to release in one transaction. Such a release stays
open: the absorbed visitors count as released at once, a worker changes their rows in batches, and
the visitor absorbs no others until then.
"""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.base.ids import ScopeId, VisitorId
from penstock.identity.model import (
    CONFLICT,
    MAX_VISITORS_BY_PUBLIC_CLAIMS,
    PLACEHOLDER,
    TOO_MANY_VISITORS,
    Claim,
    Resolution,
    StatedTraits,
    Trust,
    is_placeholder,
)

VisitorKey = tuple[ScopeId, str]
UserKey = tuple[ScopeId, str]


class Visitor(NamedTuple):
    """The current state of a visitor.

    canonical_id: its own ID, or the ID of the visitor that absorbed it.
    user_id: the user linked to the canonical visitor.
    trust: the trust of the claim that linked the visitor to this user.
    """

    canonical_id: VisitorId
    user_id: str | None = None
    trust: Trust = Trust.NONE


class UserLink(NamedTuple):
    """The canonical visitor of a user. trust: the trust of the claim that linked them."""

    visitor_id: VisitorId
    trust: Trust


class Move(NamedTuple):
    """A change of a visitor's canonical ID: a merge into another visitor, or a release.

    before_id: the previous canonical ID. user_id: the user whose claim caused the move.
    """

    scope_id: ScopeId
    visitor_id: VisitorId
    before_id: VisitorId
    canonical_id: VisitorId
    user_id: str


def _drop_placeholder(sent_id: str | None) -> str | None:
    return None if sent_id is None or is_placeholder(sent_id) else sent_id


@dataclass(slots=True)
class IdentityResolver:
    """The visitors and user links that a batch of claims refers to, and the changes it makes.

    Each `resolve` updates the current state, which is in these fields:
    visitors: the visitors, keyed by scope and visitor ID.
    links: the user links, keyed by scope and user ID.
    absorbed: IDs of the absorbed visitors, for each visitor that a claim may release.
    sizes: number of absorbed visitors, for each visitor that may absorb others or be released.
    large: visitors that have absorbed more visitors than `absorbed` lists.
    open_releases: visitors whose release is open.
    revision: number of moves and releases so far.

    The other fields record the changes for the store to write.
    """

    visitors: dict[VisitorKey, Visitor]
    links: dict[UserKey, UserLink]
    absorbed: dict[VisitorKey, set[VisitorId]] = field(default_factory=dict)
    sizes: dict[VisitorKey, int] = field(default_factory=dict)
    large: Collection[VisitorKey] = ()
    open_releases: set[VisitorKey] = field(default_factory=set)
    revision: int = 0
    opened: dict[VisitorKey, str] = field(default_factory=dict)
    created: set[VisitorKey] = field(default_factory=set)
    changed: set[VisitorKey] = field(default_factory=set)
    changed_links: set[UserKey] = field(default_factory=set)
    moves: list[Move] = field(default_factory=list)
    stored_links: Mapping[UserKey, UserLink] = field(default_factory=dict)
    traits: dict[UserKey, list[tuple[Trust, StatedTraits]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stored_links = dict(self.links)

    def resolve_all(
        self,
        claims: Sequence[Claim],
        keys: Sequence[Hashable],
        new_visitor_id: Callable[[], VisitorId],
    ) -> list[Resolution]:
        """Resolve claims in order. A repeat has the same result until a visitor is moved or
        released.

        keys: one per claim; claims with equal keys are equal.
        """
        resolutions, known, revision = list[Resolution](), dict[Hashable, Resolution](), 0
        for claim, key in zip(claims, keys, strict=True):
            resolution = known.get(key)
            if resolution is None:
                resolution = self.resolve(claim, new_visitor_id)
                if self.revision > revision:
                    known, revision = {}, self.revision
                else:
                    known[key] = resolution
            resolutions.append(resolution)
        return resolutions

    def resolve(self, claim: Claim, new_visitor_id: Callable[[], VisitorId]) -> Resolution:
        """Link or merge the two IDs of a claim and return its canonical visitor."""
        scope = claim.scope_id
        visitor_id = _drop_placeholder(claim.visitor_id)
        user_id = _drop_placeholder(claim.user_id)
        has_placeholder = (visitor_id, user_id) != (claim.visitor_id, claim.user_id)
        notices = (PLACEHOLDER,) if has_placeholder else ()
        if user_id is None and visitor_id is None:
            return Resolution(VisitorId(claim.visitor_id or claim.user_id or ""), notices=notices)
        if user_id is None:
            assert visitor_id is not None
            return Resolution(self._visitor(scope, visitor_id).canonical_id, notices=notices)
        if claim.traits is not None:
            self.traits.setdefault((scope, user_id), []).append((claim.trust, claim.traits))
        if visitor_id is None:
            home = self._home(scope, user_id, claim.trust, new_visitor_id)
            return Resolution(home, notices=notices)
        resolution = self._bind(scope, visitor_id, user_id, claim.trust, new_visitor_id)
        if not notices:
            return resolution
        return resolution._replace(notices=(*notices, *resolution.notices))

    def _bind(
        self,
        scope: ScopeId,
        visitor_id: str,
        user_id: str,
        trust: Trust,
        new_visitor_id: Callable[[], VisitorId],
    ) -> Resolution:
        """Resolve a claim that contains both a visitor ID and a user ID."""
        visitor = self._visitor(scope, visitor_id)
        if visitor.user_id == user_id and trust <= visitor.trust:
            return Resolution(visitor.canonical_id)
        link = self.links.get((scope, user_id))
        is_unproven = link is not None and link.trust <= Trust.PUBLIC < trust
        if visitor.user_id == user_id and (visitor.canonical_id == visitor_id or not is_unproven):
            self._confirm(scope, visitor_id, visitor._replace(trust=trust))
            return Resolution(visitor.canonical_id)
        if visitor.user_id not in (None, user_id) and trust <= visitor.trust:
            home = self._home(scope, user_id, trust, new_visitor_id)
            return Resolution(home, notices=(CONFLICT,))
        if visitor.user_id is not None:
            self._release(scope, VisitorId(visitor_id), user_id)
        if link is not None and is_unproven:
            self._release(scope, link.visitor_id, user_id)
            link = None
        if link is None and (scope, visitor_id) in self.open_releases:
            home = self._link(scope, new_visitor_id(), user_id, trust)
            self._move(scope, visitor_id, Visitor(home, user_id, trust), user_id)
            return Resolution(home, merged=True)
        if link is None:
            return Resolution(self._link(scope, VisitorId(visitor_id), user_id, trust))
        is_full = self.sizes.get((scope, link.visitor_id), 0) >= MAX_VISITORS_BY_PUBLIC_CLAIMS
        if is_full and trust <= Trust.PUBLIC:
            return Resolution(VisitorId(visitor_id), notices=(TOO_MANY_VISITORS,))
        self._confirm(scope, visitor_id, Visitor(link.visitor_id, user_id, trust))
        return Resolution(link.visitor_id, merged=True)

    def _confirm(self, scope: ScopeId, visitor_id: str, visitor: Visitor) -> None:
        """Assign a visitor to a user who has a link, and raise that link to the claim's trust."""
        assert visitor.user_id is not None
        link = self.links[scope, visitor.user_id]
        if visitor.trust > link.trust:
            self._link(scope, link.visitor_id, visitor.user_id, visitor.trust)
        if link.visitor_id != visitor_id:
            self._move(scope, visitor_id, visitor, visitor.user_id)

    def _home(
        self,
        scope: ScopeId,
        user_id: str,
        trust: Trust,
        new_visitor_id: Callable[[], VisitorId],
    ) -> VisitorId:
        """Return the visitor linked to a user. If there is none, create and link a new visitor."""
        link = self.links.get((scope, user_id))
        return link.visitor_id if link else self._link(scope, new_visitor_id(), user_id, trust)

    def _visitor(self, scope: ScopeId, visitor_id: str) -> Visitor:
        """Return the visitor with this ID, creating it if the ID is new."""
        known = self.visitors.get((scope, visitor_id))
        return known or self._put(scope, visitor_id, Visitor(VisitorId(visitor_id)))

    def _link(self, scope: ScopeId, visitor_id: VisitorId, user_id: str, trust: Trust) -> VisitorId:
        """Link a user to a visitor that has no other user."""
        self._put(scope, visitor_id, Visitor(visitor_id, user_id, trust))
        self.links[scope, user_id] = UserLink(visitor_id, trust)
        self.changed_links.add((scope, user_id))
        return visitor_id

    def _release(self, scope: ScopeId, visitor_id: VisitorId, user_id: str) -> None:
        """Release a visitor from its user. A canonical visitor also releases those it absorbed.

        user_id: the user whose claim causes the release.
        """
        self.revision += 1
        visitor = self.visitors[scope, visitor_id]
        released = {visitor_id}
        if visitor.canonical_id == visitor_id:
            released |= self.absorbed.pop((scope, visitor_id), set())
            owner = (scope, visitor.user_id or "")
            if self.links.pop(owner, None):
                self.changed_links.add(owner)
            if (scope, visitor_id) in self.large:
                self.opened[scope, visitor_id] = user_id
                self.open_releases.add((scope, visitor_id))
        for own_id in sorted(released):
            self._move(scope, own_id, Visitor(own_id), user_id)

    def _move(self, scope: ScopeId, visitor_id: str, after: Visitor, user_id: str) -> None:
        """Make a visitor count as another visitor, or again as itself."""
        self.revision += 1
        before_id = self.visitors[scope, visitor_id].canonical_id
        if before_id != after.canonical_id:
            own_id = VisitorId(visitor_id)
            before, home = (scope, before_id), (scope, after.canonical_id)
            self.absorbed.get(before, set()).discard(own_id)
            self.sizes[before] = self.sizes.get(before, 0) - 1
            if after.canonical_id != own_id:
                self.absorbed.setdefault(home, set()).add(own_id)
                self.sizes[home] = self.sizes.get(home, 0) + 1
            self.moves.append(Move(scope, own_id, before_id, after.canonical_id, user_id))
        self._put(scope, visitor_id, after)

    def _put(self, scope: ScopeId, visitor_id: str, visitor: Visitor) -> Visitor:
        key = (scope, visitor_id)
        is_stored = key in self.visitors and key not in self.created
        (self.changed if is_stored else self.created).add(key)
        self.visitors[key] = visitor
        return visitor
