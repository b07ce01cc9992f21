"""The events that came after a step, for units that did not reach the next step."""

from typing import Any

from penstock.funnels.questions import NEXT
from penstock.web.pages.report.panels.context import ReportContext


def next_events(context: ReportContext) -> dict[str, Any]:
    n, outcome = len(context.page.required_steps), context.query.outcome
    if not context.page.has_window:
        outcome = "pending"  # without a window, units never drop off
    more: dict[str, Any] = {
        "step": min(context.query.step, n - 1),
        "outcome": None if outcome == "both" else outcome,
        "of": context.query.of,
    }
    return {"next_events": context.ask(NEXT, more), "more": more}
