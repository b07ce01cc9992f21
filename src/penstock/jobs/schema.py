"""Wire types of jobs."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from penstock.http.schema import Record


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class JobRecord(Record):
    """An answer computed in the background."""

    id: str
    state: JobState
    request: Annotated[str, Field(description="Method and path of the request it answers.")]
    created_at: str
    started_at: Annotated[str | None, Field(description="null while it is queued.")]
    finished_at: str | None
    elapsed_seconds: Annotated[float, Field(description="Since the start.")]
    rows_read: Annotated[int, Field(description="Rows of the event store read so far.")]
    rows_to_read: Annotated[int, Field(description="Estimated rows to read in total; may rise.")]
    result_url: Annotated[
        str | None,
        Field(description="URL of the answer or the problem document; null until it is finished."),
    ]
