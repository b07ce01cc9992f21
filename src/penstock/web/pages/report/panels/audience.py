"""The line that says whom a report counts."""

from typing import Any

from penstock.funnels.results.audience import read_audience
from penstock.web.pages.report.panels.context import ReportContext

_CHOICES = {"internal": "by internal traffic", "segment": "by the segment", "filters": "by filters"}


def audience(context: ReportContext) -> dict[str, Any]:
    """Return the record, and what its choices left out, as counts and words."""
    record = read_audience(context.runner, context.shared_query)
    left_out = [
        (count, words)
        for name, words in _CHOICES.items()
        if (count := getattr(record.left_out, name)) is not None
    ]
    return {"record": record, "left_out": left_out}
