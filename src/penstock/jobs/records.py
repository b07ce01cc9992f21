"""A job as it goes over the wire."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from penstock.http.schema import Record


class State(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class JobRecord(Record):
    """An answer that is worked on, or was."""

    id: str
    state: State
    request: Annotated[str, Field(description="Method and path of the request that it answers.")]
    created_at: str
    started_at: Annotated[str | None, Field(description="null while it is queued.")]
    finished_at: str | None
    elapsed_seconds: Annotated[float, Field(description="Since it was started.")]
    rows_read: Annotated[int, Field(description="Rows of the event store that were read so far.")]
    rows_to_read: Annotated[int, Field(description="Rows to read in all, as the engine estimates them; may rise.")]
    result_url: Annotated[str | None, Field(description="Where the answer is, or the problem that it ended with; null until then.")]
