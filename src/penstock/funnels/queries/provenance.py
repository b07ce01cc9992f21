"""The source of a response's rows, and the head of the response, which states the source."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import MISSING

from penstock.funnels.definitions.ad_hoc import NO_CHANGES
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.schema import (
    AskedRecord,
    DirectReason,
    ServedFrom,
)


@dataclass(frozen=True, slots=True)
class Provenance:
    """The source of rows.

    computed_at_ms: time at which the newest rows were computed. is_fresh: whether all events
    acknowledged before the query were readable. direct_reason: why the query read events instead
    of stored outcomes; None if it read stored outcomes.
    """

    computed_at_ms: int
    served_from: ServedFrom
    is_fresh: bool
    direct_reason: DirectReason | None = None

    def __add__(self, other: "Provenance | None") -> "Provenance":
        """Combine two provenances: the later time, and the source that takes more work.

        other: None if a part of the response needed no statement.
        """
        if other is None:
            return self
        sources = {self.served_from, other.served_from}
        return Provenance(
            max(self.computed_at_ms, other.computed_at_ms),
            next(source for source in ServedFrom if source in sources),
            is_fresh=self.is_fresh and other.is_fresh,
            direct_reason=self.direct_reason or other.direct_reason,
        )


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Rows of one statement by column name. Requests share these values, so do not change them."""

    rows: Sequence[dict[str, Any]]
    provenance: Provenance


def empty_result(context: QueryContext) -> QueryResult:
    """Return the result of a query that needs no statement."""
    return QueryResult(
        [], Provenance(context.params.evaluated_at_ms, ServedFrom.QUERY, is_fresh=context.is_fresh)
    )


def head_of(context: QueryContext, provenance: Provenance) -> dict[str, Any]:
    """Return the fields of `HeadRecord`."""
    reason = provenance.direct_reason
    return {
        "funnel_id": context.funnel_id,
        "definition_revision": context.revision,
        "goals": context.definition.goals,
        "counting_unit": context.definition.counting_unit,
        "repeat": context.definition.repeat,
        "breakdown_at": MISSING
        if context.definition.is_by_entry
        else context.definition.breakdown_at,
        "evaluated_at": context.params.evaluated_at_ms,
        "computed_at": provenance.computed_at_ms,
        "served_from": provenance.served_from,
        "direct_reason": None if reason is DirectReason.OFF else reason,
        "last_known_event_at": context.profile.last_event_ms,
        "period": {"start_at": context.params.start_ms, "end_at": context.params.end_ms},
        "website_id": context.website_id,
        "asked": question_record(context) if _asks_something(context) else None,
    }


def _asks_something(context: QueryContext) -> bool:
    return context.ad_hoc != NO_CHANGES or context.internal_traffic is not None


def question_record(context: QueryContext) -> AskedRecord:
    return AskedRecord.from_object(
        context.ad_hoc, segment=context.segment, internal_traffic=context.internal_traffic
    )
