"""Wire types for jobs."""

from penstock.http.schema import Iso, Record
from penstock.jobs.model import Job, JobState


class JobRecord(Record):
    """A response that is computed in the background."""

    id: str
    state: JobState
    request: str
    """Method and path of the request that the job answers."""
    created_at: Iso
    started_at: Iso | None
    """null while the job is queued."""
    finished_at: Iso | None
    elapsed_seconds: float
    """Seconds since the job started."""
    rows_read: int
    """Rows of the event store read so far."""
    rows_to_read: int
    """Estimated number of rows to read in total, which may rise."""
    result_url: str | None
    """URL of the result or the problem document; null until the job is finished."""

    @classmethod
    def from_job(cls, job: Job, now_ms: int) -> "JobRecord":
        has_result = job.state in (JobState.DONE, JobState.FAILED)
        return cls.from_object(
            job,
            elapsed_seconds=job.elapsed_ms(now_ms) / 1000,
            result_url=f"/api/jobs/{job.id}/result" if has_result else None,
        )
