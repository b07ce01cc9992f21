"""Wire types for flows."""

from typing import Annotated

from pydantic import Field

from penstock.funnels.queries.schema import CohortQuery, EventsOf, HeadRecord
from penstock.funnels.statements.flows import Where
from penstock.http.schema import Record


class FlowsQuery(CohortQuery):
    """The query parameters for flows."""

    where: Annotated[
        Where,
        Field(
            description="before: before the entry, from the nearest event back. between: after "
            "`step` and before the next, for units that reached the next. after: after `step`, for "
            "units that dropped off there."
        ),
    ] = Where.AFTER
    step: Annotated[int, Field(ge=1, le=19, description="Step for `between` and `after`.")] = 1
    of: EventsOf = "unit"


class FlowRecord(Record):
    """An event on a path, and the events that follow it: before the entry, the earlier ones."""

    type: str
    name: str
    units: Annotated[int, Field(description="Units whose path starts with the events up to here.")]
    share: Annotated[float | None, Field(description="units / all units, to four decimals.")]
    ended: Annotated[int, Field(description="Units without a further event.")]
    others: Annotated[
        int, Field(description="Units whose further event is not among the five in `next`.")
    ]
    next: Annotated[list["FlowRecord"], Field(description="Empty for the third event of a path.")]


class FlowsRecord(HeadRecord):
    """Paths of up to three events, the five most frequent at each point."""

    where: Where
    step: Annotated[int | None, Field(description="null before the entry.")]
    units: int
    ended: Annotated[int, Field(description="Units without any event there.")]
    others: Annotated[int, Field(description="Units whose first event is not in `data`.")]
    data: list[FlowRecord]
