"""Wire types for jobs."""

from typing import Annotated

from pydantic import Field

from penstock.base.clock import iso, iso_or_none
from penstock.http.schema import Record
from penstock.jobs.model import Job, JobState


class JobRecord(Record):
    """A response that is computed in the background."""

    id: str
    state: JobState
    request: Annotated[
        str, Field(description="Method and path of the request that the job answers.")
    ]
    created_at: str
    started_at: Annotated[str | None, Field(description="null while the job is queued.")]
    finished_at: str | None
    elapsed_seconds: Annotated[float, Field(description="Seconds since the job started.")]
    rows_read: Annotated[int, Field(description="Rows of the event store read so far.")]
    rows_to_read: Annotated[
        int, Field(description="Estimated number of rows to read in total, which may rise.")
    ]
    result_url: Annotated[
        str | None,
        Field(
            description="URL of the result or the problem document; null until the job is finished."
        ),
    ]

    @classmethod
    def from_job(cls, job: Job, now_ms: int) -> "JobRecord":
        has_result = job.state in (JobState.DONE, JobState.FAILED)
        return cls(
            id=job.id,
            state=job.state,
            request=job.request,
            created_at=iso(job.created_at_ms),
            started_at=iso_or_none(job.started_at_ms),
            finished_at=iso_or_none(job.finished_at_ms),
            elapsed_seconds=job.elapsed_ms(now_ms) / 1000,
            rows_read=job.rows_read,
            rows_to_read=job.rows_to_read,
            result_url=f"/api/jobs/{job.id}/result" if has_result else None,
        )
