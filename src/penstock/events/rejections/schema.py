"""Wire types of rejections."""

from operator import not_
from typing import Annotated, Self

from pydantic import Field

from penstock.base.clock import iso
from penstock.events.rejections.model import Rejection
from penstock.events.schema import FaultRecord
from penstock.http.schema import PageQuery, Record


class RejectionsQuery(PageQuery):
    website_id: Annotated[
        str | None, Field(description="Only rejections of this website, or of an unknown one.")
    ] = None


class RejectionRecord(Record):
    """A rejected item, or a rejected body."""

    number: Annotated[int, Field(description="Rises with each rejection of this node.")]
    at: str
    route: str
    website_id: Annotated[
        str | None,
        Field(description="Null when the item names no website of the workspace."),
    ]
    code: Annotated[
        str, Field(description="Of the problem document; `invalid` for an item of a batch.")
    ]
    errors: Annotated[tuple[FaultRecord, ...], Field(description="The first ten.")]
    more_errors: Annotated[
        int, Field(exclude_if=not_, description="Number of errors that `errors` leaves out.")
    ]
    item: Annotated[
        str | None,
        Field(description="An excerpt as JSON text, without secrets and network addresses."),
    ]

    @classmethod
    def of(cls, rejection: Rejection) -> Self:
        return cls(
            number=rejection.number,
            at=iso(rejection.at_ms),
            route=rejection.route,
            website_id=rejection.website_id,
            code=rejection.code,
            errors=tuple(FaultRecord.of(fault) for fault in rejection.faults),
            more_errors=rejection.more_faults,
            item=rejection.item,
        )
