"""The events soon after a step, by which units are compared."""

from typing import Literal

from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.statements.drivers import AfterStep, median_time


def events_after_step(
    runner: FunnelQueryRunner, context: QueryContext, step: int, of: Literal["unit", "visitor"]
) -> AfterStep | None:
    """Return the events within the median time until the next step; None if no unit continued.

    of: the events of each unit, or all events of its visitors. Raises the same errors as
    `FunnelQueryRunner.fetch`.
    """
    [row] = runner.fetch(context, lambda profile: median_time(context.counted(profile), step)).rows
    if not row["units"]:
        return None
    of_visitors = of == "visitor" and bool(context.definition.attempt_keys)
    return AfterStep(step, round(row["median_ms"]), of_visitors)
