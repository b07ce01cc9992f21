"""Flows: the paths of events before the entry, between two steps, and after a loss."""

from typing import Any

from penstock.funnels.questions import FLOWS
from penstock.funnels.statements.flows import Where
from penstock.web.pages.report.panels.context import ReportContext


def paths(context: ReportContext) -> dict[str, Any]:
    """Return the flows. choices: the parts of the history that the funnel can show."""
    page, query, n = context.page, context.query, len(context.page.required_steps)
    where, choices = query.where, dict(_CHOICES)
    if not page.has_window:
        del choices[Where.AFTER]  # without a window, units never drop off
        where = where if where in choices else Where.BETWEEN
    more: dict[str, Any] = {"where": where, "step": min(query.step, n - 1), "of": query.of}
    return {"flows": context.ask(FLOWS, more), "choices": list(choices.items()), "more": more}


_CHOICES = {
    Where.BEFORE: "Before the entry",
    Where.BETWEEN: "Between steps",
    Where.AFTER: "After a loss",
}
