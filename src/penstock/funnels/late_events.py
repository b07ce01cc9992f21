"""Counts events that arrived late: earlier periods look better now than they did then."""

from penstock.base.rates import rate
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.statements.query import Statement
from penstock.warehouse.queries import load


def late_share(
    runner: FunnelQueryRunner, context: QueryContext, start_ms: int | None, end_ms: int | None
) -> float:
    """Return the share of a period's events that arrived more than an hour after they occurred."""
    websites = list(context.params.website_ids)
    statement = Statement(
        load("penstock.funnels", "count_late_events"),
        {"websites": websites, "start": start_ms, "end": end_ms},
    )
    [row] = runner.fetch_events(context, statement).rows
    return rate(row["late"], row["events"]) or 0.0
