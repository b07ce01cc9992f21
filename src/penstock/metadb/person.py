"""The IDs of a person in every room, for exports of personal data."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from penstock.base.ids import ScopeId, VisitorId, WebsiteId


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
