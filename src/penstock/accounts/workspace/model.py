"""Plain types for a workspace's settings. No I/O."""

from enum import StrEnum
from typing import NamedTuple


class Contents(StrEnum):
    """A level of detail of shared reports, messages, webhooks and assistants."""

    FIGURES = "figures"
    """Rates, counts and times, and the names of funnels and steps."""
    UNITS = "units"
    """Also lists of units, and user IDs."""


class SharedContents(NamedTuple):
    """The data of a workspace that may leave its dashboard.

    properties: those whose values may be shown; the values of others are replaced by numbers.
    """

    level: Contents
    properties: tuple[str, ...]


class WorkspaceSettings(NamedTuple):
    """Name of a workspace, limits on a single query, the trait that names people, and what may
    leave the dashboard.

    A limit is None if the operator's applies, the trait if the user ID names people.
    """

    name: str
    query_timeout_seconds: float | None
    query_memory_bytes: int | None
    person_trait: str | None
    shared_contents: Contents = Contents.FIGURES
    shared_properties: tuple[str, ...] = ()
