"""Plain types for a workspace's settings. No I/O."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """Limits on a single query. None means that the operator's limit applies."""

    timeout_s: float | None
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class WorkspaceSettings:
    """Name and query limits of a workspace."""

    name: str
    limits: QueryLimits
