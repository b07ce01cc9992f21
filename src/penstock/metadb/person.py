"""People in every room: their names in lists, and their IDs for exports of personal data."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from penstock.base.ids import ScopeId, VisitorId, WebsiteId, WorkspaceId

StoredVisitor = tuple[ScopeId, str]
"""A visitor's identity scope and any of its IDs."""


class PersonName(NamedTuple):
    """The user of a visitor. name: what the workspace shows for the user: a trait, or the ID."""

    user_id: str
    name: str


ReadPeople = Callable[
    [WorkspaceId, Collection[StoredVisitor]], Mapping[StoredVisitor, PersonName | None]
]
"""Returns the people behind the visitors that exist; None for a visitor without a user."""


class Person(NamedTuple):
    """The person to export. sent_ids: all IDs that events may contain for the person."""

    scope_id: ScopeId
    visitor_ids: Sequence[VisitorId]
    sent_ids: Sequence[str]
    website_ids: Sequence[WebsiteId]


StoredRecord = tuple[str, Mapping[str, Any]]
"""A line's type and its values."""

ReadPerson = Callable[[Connection, Person], Iterable[StoredRecord]]
"""A function that reads what a room stores about a person."""
