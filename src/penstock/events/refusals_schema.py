"""What goes over the wire about refused items."""

from typing import Annotated, Self

from pydantic import Field

from penstock.base.clock import iso
from penstock.events.records import FaultRecord
from penstock.events.refusals import Refusal
from penstock.http.schema import PageQuery, Record


class RefusalsQuery(PageQuery):
    website_id: Annotated[str | None, Field(description="Only of this website, and of none that could be told.")] = None


class RefusalRecord(Record):
    """A refused item, or a whole body."""

    number: Annotated[int, Field(description="Rises with each refusal of this node.")]
    at: str
    route: str
    website_id: Annotated[str | None, Field(description="null where it could not be told, or is none of the workspace.")]
    code: Annotated[str, Field(description="Of the problem document; `invalid` for an item of a batch.")]
    errors: tuple[FaultRecord, ...]
    item: Annotated[str | None, Field(description="An excerpt as JSON text, without secrets and network addresses.")]

    @classmethod
    def of(cls, refusal: Refusal) -> Self:
        return cls(
            number=refusal.number,
            at=iso(refusal.at_ms),
            route=refusal.route,
            website_id=refusal.website_id,
            code=refusal.code,
            errors=tuple(FaultRecord.of(fault) for fault in refusal.faults),
            item=refusal.item,
        )
