"""The next events of units after the step at which they stopped."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from penstock.base.paging import MAX_PAGE_SIZE
from penstock.base.rates import rate
from penstock.funnels.definitions.model import CountingUnit
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.parameters import check_step
from penstock.funnels.queries.provenance import head_of
from penstock.funnels.queries.schema import CohortQuery, EventsOf, HeadRecord
from penstock.funnels.statements.matching import TYPES
from penstock.funnels.statements.units import Outcome, next_events
from penstock.http.schema import Rate, Record


class NextQuery(CohortQuery):
    """The query parameters for next events."""

    step: Annotated[int, Field(ge=1, le=19)]
    """Furthest step of the units."""
    outcome: Literal["pending", "droppedOff", "excluded"] | None = None
    """Outcome of the units. Default: pending and droppedOff."""
    of: EventsOf = "unit"
    page_size: Annotated[int, Field(ge=1, le=MAX_PAGE_SIZE)] = 20
    """Number of different events, most frequent first; 1 to 100."""


class NextEventRecord(Record):
    type: str
    name: str
    units: int
    """Units with this event."""
    events: int
    first: int
    """Units for which this was the very next event."""
    share: Rate | None
    """units / stopped, to four decimals."""


class NextRecord(HeadRecord):
    """Events of units after the step at which they stopped, up to the end of their windows."""

    step: int
    stopped: int
    """Units of this outcome that got no further than this step."""
    silent: int
    """Stopped units without another event in their window."""
    data: list[NextEventRecord]


def read_next(runner: FunnelQueryRunner, context: QueryContext, query: NextQuery) -> NextRecord:
    """Returns the most frequent events of units after the step at which they stopped."""
    check_step(context.definition, query.step)
    outcome = None if query.outcome is None else Outcome(query.outcome)
    counts_attempts = context.definition.counting_unit is CountingUnit.ATTEMPT
    result = runner.fetch(
        context,
        lambda profile: next_events(
            context.counted(profile),
            query.step,
            outcome,
            query.page_size,
            of_visitors=query.of == "visitor" and counts_attempts,
        ),
    )
    total, *rows = result.rows
    return NextRecord(
        **head_of(context, result.provenance),
        step=query.step,
        stopped=total["stopped"],
        silent=total["stopped"] - total["units"],
        data=[_next_event(row, total["stopped"]) for row in rows],
    )


def _next_event(row: Mapping[str, Any], stopped: int) -> NextEventRecord:
    return NextEventRecord(
        type=TYPES[row["kind"]],
        name=row["name"],
        units=row["units"],
        events=row["events"],
        first=row["first_units"],
        share=rate(row["units"], stopped),
    )
