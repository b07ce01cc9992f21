"""A model of Penstock's state in dictionaries and lists. It uses no stores, no HTTP and none of
Penstock's code.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import count

_numbers = count(1)


@dataclass(frozen=True)
class SentEvent:
    """An acknowledged event. person: the visitor for whom it was stored."""

    event_id: str
    name: str
    person: str
    at_ms: int


@dataclass
class SiteModel:
    """One website: its events, its identities, and its dedupe keys.

    merged: visitor -> the visitor it was merged into. visitor_of: user -> visitor. user_of: visitor
    -> user. first: dedupe key -> its first event.
    """

    id: str
    events: list[SentEvent] = field(default_factory=list)
    merged: dict[str, str] = field(default_factory=dict)
    visitor_of: dict[str, str] = field(default_factory=dict)
    user_of: dict[str, str] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)

    def canonical(self, visitor: str) -> str:
        while visitor in self.merged:
            visitor = self.merged[visitor]
        return visitor

    def resolve(self, visitor: str | None, user: str | None) -> tuple[str, bool]:
        """Return the visitor that an event or a call belongs to, and whether there is a conflict.

        Source: docs/events.md, Identity.
        """
        known = None if visitor is None else self.canonical(visitor)
        if user is None:
            assert known is not None
            return known, False
        linked = self.visitor_of.get(user)
        if known is None or known in self.user_of:
            is_conflict = known is not None and self.user_of[known] != user
            if linked is None:
                linked = f"new visitor {next(_numbers)}"
                self._link(linked, user)
            return linked, is_conflict
        if linked is None:
            self._link(known, user)
            return known, False
        self.merged[known] = linked
        return linked, False

    def _link(self, visitor: str, user: str) -> None:
        self.visitor_of[user], self.user_of[visitor] = visitor, user

    def forget(self, visitor: str) -> None:
        """Delete a visitor and all visitors merged with them."""
        person = self.canonical(visitor)
        self.events = [event for event in self.events if self.canonical(event.person) != person]
        self.merged = {
            absorbed: into
            for absorbed, into in self.merged.items()
            if self.canonical(absorbed) != person
        }
        user = self.user_of.pop(person, None)
        if user is not None:
            del self.visitor_of[user]

    def reached(self, steps: Sequence[str]) -> list[int]:
        """Return the number of visitors that reached each step, each step at any time after the
        previous one.
        """
        times: dict[str, list[tuple[int, str]]] = {}
        for event in self.events:
            times.setdefault(self.canonical(event.person), []).append((event.at_ms, event.name))
        furthest = [_furthest(sorted(happened), steps) for happened in times.values()]
        return [sum(reached > step for reached in furthest) for step in range(len(steps))]


def _furthest(happened: Sequence[tuple[int, str]], steps: Sequence[str]) -> int:
    reached = 0
    for _, name in happened:
        if reached < len(steps) and name == steps[reached]:
            reached += 1
    return reached


@dataclass
class KeyModel:
    """An API key. website_id: the only website that it can access; None if the key is not
    limited.
    """

    id: str
    secret: str
    scopes: Collection[str]
    website_id: str | None
    revoked: bool = False


@dataclass
class LinkModel:
    """A managed link whose target is a web page."""

    id: str
    slug: str
    target: str
    active: bool = True


@dataclass
class WorkspaceModel:
    """The state of one workspace. funnels: ID -> steps."""

    sites: dict[str, SiteModel] = field(default_factory=dict)
    keys: list[KeyModel] = field(default_factory=list)
    funnels: dict[str, list[str]] = field(default_factory=dict)
    links: dict[str, LinkModel] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    """URLs of deleted records."""
