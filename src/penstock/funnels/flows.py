"""Flows: the paths of events before the entry, between two steps, and after a loss."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from penstock.base.rates import rate
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.parameters import check_pair, check_step, unfit_parameters
from penstock.funnels.queries.provenance import head_of
from penstock.funnels.queries.schema import CohortQuery, EventsOf, HeadRecord
from penstock.funnels.statements.flows import DEPTH, Where, flows
from penstock.funnels.statements.matching import TYPES
from penstock.http.schema import Rate, Record

Path = tuple[tuple[str, str], ...]
"""Kinds and names of events."""


class FlowsQuery(CohortQuery):
    """The query parameters for flows."""

    where: Where = Where.AFTER
    """before: before the entry, from the nearest event back. between: after `step` and before
    `toStep`, for units that reached `toStep`. after: after `step`, for units that dropped off
    there.
    """
    step: Annotated[int, Field(ge=1, le=19)] = 1
    """Step for `between` and `after`."""
    to_step: Annotated[int | None, Field(ge=1, le=20)] = None
    """A later step for `between`; by default the next."""
    of: EventsOf = "unit"


class FlowRecord(Record):
    """An event on a path, and the events that follow it: before the entry, the earlier ones."""

    type: str
    name: str
    units: int
    """Units whose path starts with the events up to here."""
    share: Rate | None
    """units / all units, to four decimals."""
    ended: int
    """Units without a further event."""
    others: int
    """Units whose further event is not among the five in `next`."""
    next: list["FlowRecord"]
    """Empty for the third event of a path."""


class FlowsRecord(HeadRecord):
    """Paths of up to three events, the five most frequent at each point."""

    where: Where
    step: int | None
    """null before the entry."""
    to_step: int | None
    """The later step of `between`; null otherwise."""
    units: int
    ended: int
    """Units without any event there."""
    others: int
    """Units whose first event is not in `data`."""
    data: list[FlowRecord]


def read_flows(runner: FunnelQueryRunner, context: QueryContext, query: FlowsQuery) -> FlowsRecord:
    """Returns the paths of events before the entry, between two steps, or after a loss."""
    is_before = query.where is Where.BEFORE
    if not is_before:
        check_step(context.definition, query.step)
    to_step = _to_step(context, query)
    by_visitor = query.of == "visitor" and bool(context.definition.attempt_keys)
    result = runner.fetch(
        context,
        lambda profile: flows(
            context.counted(profile), query.where, query.step, to_step, of_visitors=by_visitor
        ),
    )
    rows = {_path(row): row for row in result.rows}
    total = rows[()]
    branches = _branches(rows, (), total["units"])
    return FlowsRecord(
        **head_of(context, result.provenance),
        where=query.where,
        step=None if is_before else query.step,
        to_step=to_step if query.where is Where.BETWEEN else None,
        units=total["units"],
        ended=total["ended"],
        others=_others(total, branches),
        data=branches,
    )


def _to_step(context: QueryContext, query: FlowsQuery) -> int:
    """Return the step before which paths end, if they end before a step."""
    if query.to_step is None:
        return query.step + 1
    if query.where is not Where.BETWEEN:
        raise unfit_parameters({"toStep": "Send where=between as well, or leave toStep out."})
    check_pair(context.definition, ("step", "toStep"), query.step, query.to_step)
    return query.to_step


def _path(row: Mapping[str, Any]) -> Path:
    return tuple((kind, name) for kind, name in row["start"])


def _branches(rows: Mapping[Path, Mapping[str, Any]], path: Path, whole: int) -> list[FlowRecord]:
    """Return the events that follow a path, most frequent first. whole: number of all units."""
    if len(path) == DEPTH:
        return []
    following = sorted(
        (other for other in rows if other and other[:-1] == path),
        key=lambda other: (-rows[other]["units"], other),
    )
    records = []
    for other in following:
        row, (kind, name) = rows[other], other[-1]
        branches = _branches(rows, other, whole)
        is_last = len(other) == DEPTH
        records.append(
            FlowRecord(
                type=TYPES[kind],
                name=name,
                units=row["units"],
                share=rate(row["units"], whole),
                ended=row["ended"],
                others=0 if is_last else _others(row, branches),
                next=branches,
            )
        )
    return records


def _others(row: Mapping[str, Any], branches: Sequence[FlowRecord]) -> int:
    others: int = row["units"] - row["ended"] - sum(branch.units for branch in branches)
    return others
