"""Plain types for a workspace's settings. No I/O."""

from typing import NamedTuple


class WorkspaceSettings(NamedTuple):
    """Name of a workspace, limits on a single query, and the trait that names people.

    A limit is None if the operator's applies, the trait if the user ID names people.
    """

    name: str
    query_timeout_seconds: float | None
    query_memory_bytes: int | None
    person_trait: str | None
