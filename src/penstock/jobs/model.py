"""Jobs as stored in the metadata DB."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from penstock.base.ids import WorkspaceId

LEASE_MS = 30_000
"""A job counts as failed if its node has not reported for this many milliseconds."""


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


UNFINISHED = (JobState.QUEUED, JobState.RUNNING)


@dataclass(frozen=True, slots=True)
class Job:
    """A response computed in the background.

    alive_at_ms: the last time that its node reported it as running or queued. status, media_type,
    headers, bytes: describe the response, which may be a problem document; None or 0 if there is no
    response.
    """

    id: str
    workspace_id: WorkspaceId
    request: str
    created_at_ms: int
    alive_at_ms: int
    state: JobState = JobState.QUEUED
    started_at_ms: int | None = None
    finished_at_ms: int | None = None
    rows_read: int = 0
    rows_to_read: int = 0
    status: int | None = None
    media_type: str | None = None
    headers: Mapping[str, str] | None = None
    bytes: int = 0

    @property
    def is_finished(self) -> bool:
        return self.state not in UNFINISHED

    def resolve_state(self, now_ms: int) -> "Job":
        """Return the job as of the given time: failed if its node has stopped reporting."""
        if self.is_finished or now_ms - self.alive_at_ms <= LEASE_MS:
            return self
        return replace(self, state=JobState.FAILED, finished_at_ms=self.alive_at_ms)

    def elapsed_ms(self, now_ms: int) -> int:
        """Milliseconds from the start until the end, or until the given time if the job is
        unfinished; 0 if it has not started.
        """
        if self.started_at_ms is None:
            return 0
        return (self.finished_at_ms or now_ms) - self.started_at_ms
