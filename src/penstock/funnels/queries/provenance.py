"""The source of a response's rows, and the head of the response, which states the source."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from penstock.base.clock import iso, iso_or_none
from penstock.funnels.definitions.ad_hoc import NO_CHANGES
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.schema import (
    AskedRecord,
    DirectReason,
    NamedSegmentRecord,
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
        "funnelId": context.funnel_id,
        "definitionRevision": context.revision,
        "goals": [asdict(goal) for goal in context.definition.goals],
        "countingUnit": context.definition.counting_unit,
        "repeat": context.definition.repeat,
        "evaluatedAt": iso(context.params.evaluated_at_ms),
        "computedAt": iso(provenance.computed_at_ms),
        "servedFrom": provenance.served_from,
        "directReason": None if reason is DirectReason.OFF else reason,
        "lastKnownEventAt": iso_or_none(context.profile.last_event_ms),
        "period": {
            "startAt": iso_or_none(context.params.start_ms),
            "endAt": iso_or_none(context.params.end_ms),
        },
        "websiteId": context.website_id,
        "asked": question_record(context) if _asks_something(context) else None,
    }


def _asks_something(context: QueryContext) -> bool:
    return context.ad_hoc != NO_CHANGES or context.internal_traffic is not None


def question_record(context: QueryContext) -> AskedRecord:
    changes, segment = context.ad_hoc, context.segment
    return AskedRecord(
        breakdown=None if changes.breakdown is None else list(changes.breakdown),
        filters=None if changes.filters is None else list(changes.filters),
        window=changes.window,
        settled=changes.settled,
        segment=segment
        and NamedSegmentRecord(id=segment.id, name=segment.name, revision=segment.revision),
        internal_traffic=context.internal_traffic,
    )
