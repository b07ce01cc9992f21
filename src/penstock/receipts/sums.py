"""Reads the sums of a receipt's question. Functions block, within the limits of queries."""

from collections.abc import Callable
from hashlib import sha256

from penstock.base.errors import Fault, Invalid
from penstock.base.ids import first_id
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.statements.content_sums import FORM, content_sums, newest_versions
from penstock.funnels.statements.query import Known, Plan
from penstock.receipts.model import MAX_SUMS
from penstock.receipts.schema import (
    DaySumRecord,
    EarlierRecord,
    SumRecord,
    SumsRecord,
    UseRecord,
)


def plan_of(context: QueryContext) -> Plan:
    return Plan(context.definition, context.params, context.profile)


def known_at(runner: FunnelQueryRunner, context: QueryContext, at_ms: int) -> Known:
    """Return what is stored now, as far as it was received up to a time."""
    [row] = runner.read_again(newest_versions(plan_of(context)))
    return Known(at_ms, first_id("imp", at_ms + 1), row["merge"], row["traits"])


def read_sums(runner: FunnelQueryRunner, context: QueryContext, key: tuple[int, int]) -> SumsRecord:
    """Sum up the content that a query reads. The query must name what was known.

    Raises Invalid if the period has too many days.
    """
    known = context.params.known
    assert known is not None
    rows = runner.read_again(content_sums(plan_of(context), key, MAX_SUMS))
    if len(rows) > MAX_SUMS:
        message = (
            f"A receipt has a sum for each website and day, at most {MAX_SUMS:,}: choose a shorter "
            "period or one website."
        )
        raise Invalid([Fault("parameters.period", "too_long", message)])
    parts = {
        part: [row for row in rows if row["part"] == part]
        for part in ("events", "earlier", "merges", "traits")
    }
    merges, traits = (
        next(
            (SumRecord(number=row["number"], sum=_hex(row["sum"])) for row in parts[name]),
            SumRecord(number=0, sum=_hex("0")),
        )
        for name in ("merges", "traits")
    )
    return SumsRecord(
        form=FORM,
        events=[
            DaySumRecord(
                website=row["website"], day=row["day"], number=row["number"], sum=_hex(row["sum"])
            )
            for row in parts["events"]
        ],
        earlier=[
            EarlierRecord(website=row["website"], number=row["number"]) for row in parts["earlier"]
        ],
        merges=merges,
        traits=traits,
        newest_merge=known.merge,
        newest_traits=known.traits,
    )


def uses_of(
    context: QueryContext, internal_traffic_revision: int, cohort_name: Callable[[str], str]
) -> list[UseRecord]:
    """Return what a query reads beside its funnel. cohort_name: returns a saved cohort's name."""
    uses = [
        UseRecord(kind="goal", id=goal.id, name=goal.name, revision=str(goal.revision))
        for goal in context.definition.goals
    ]
    if (segment := context.segment) is not None:
        uses.append(
            UseRecord(
                kind="segment", id=segment.id, name=segment.name, revision=str(segment.revision)
            )
        )
    for cohort_id, members in context.params.members.items():
        keys = sorted(key for text in members for key in text.split(","))
        content = sha256(",".join(keys).encode()).hexdigest()[:32]
        uses.append(
            UseRecord(kind="cohort", id=cohort_id, name=cohort_name(cohort_id), revision=content)
        )
    if not context.ad_hoc.internal:
        uses.append(
            UseRecord(
                kind="internalTraffic",
                id="internalTraffic",
                name="internal traffic",
                revision=str(internal_traffic_revision),
            )
        )
    return uses


def _hex(number: str) -> str:
    return f"{int(number):032x}"
