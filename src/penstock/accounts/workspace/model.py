"""Plain types for a workspace's settings. No I/O."""

from typing import NamedTuple


class WorkspaceSettings(NamedTuple):
    """Name of a workspace, and limits on a single query. None if the operator's limit applies."""

    name: str
    query_timeout_seconds: float | None
    query_memory_bytes: int | None
