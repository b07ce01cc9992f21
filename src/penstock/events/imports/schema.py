"""What imports look like on the wire."""

from typing import Annotated

from pydantic import Field

from penstock.base.clock import iso, iso_or_none
from penstock.events.imports.model import ImportJob, ImportState, Reject
from penstock.http.schema import Name, Query, Record


class ImportQuery(Query):
    """Where an import goes."""

    website_id: Annotated[str, Field(description="The website or app that the events belong to.")]
    file_name: Annotated[Name | None, Field(description="Shown in the list of imports.")] = None


class ImportRecord(Record):
    """An import and how far it is."""

    id: str
    website_id: str
    state: ImportState
    file_name: str | None
    sha256: Annotated[str, Field(description="Of the file as it was sent.")]
    bytes_total: Annotated[int, Field(description="Size of the file as it was sent.")]
    bytes_read: int
    lines_read: int
    accepted: int
    duplicates: Annotated[int, Field(description="Lines whose event was known already.")]
    rejected: Annotated[int, Field(description="Lines that were not taken; `rejects` has the reasons.")]
    first_event_at: Annotated[str | None, Field(description="Earliest event of the file, as far as it is read.")]
    last_event_at: str | None
    error: Annotated[str | None, Field(description="Why a failed import stopped; what was read before it stays.")]
    created_at: str
    updated_at: str
    finished_at: str | None

    @classmethod
    def of(cls, job: ImportJob) -> "ImportRecord":
        return cls(
            id=job.id,
            website_id=job.website_id,
            state=job.state,
            file_name=job.file_name,
            sha256=job.sha256,
            bytes_total=job.bytes_total,
            bytes_read=job.bytes_read,
            lines_read=job.lines_read,
            accepted=job.accepted,
            duplicates=job.duplicates,
            rejected=job.rejected,
            first_event_at=iso_or_none(job.first_event_at_ms),
            last_event_at=iso_or_none(job.last_event_at_ms),
            error=job.error,
            created_at=iso(job.created_at_ms),
            updated_at=iso(job.updated_at_ms),
            finished_at=iso_or_none(job.finished_at_ms),
        )


class FaultRecord(Record):
    """One broken rule. field: empty for the line as a whole."""

    field: str
    code: str
    message: str


class RejectRecord(Record):
    """A line that was not taken."""

    line: Annotated[int, Field(description="From 1.")]
    errors: list[FaultRecord]

    @classmethod
    def of(cls, reject: Reject) -> "RejectRecord":
        errors = [FaultRecord(field=fault.field, code=fault.code, message=fault.message) for fault in reject.faults]
        return cls(line=reject.line, errors=errors)
