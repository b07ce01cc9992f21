"""The comparison panel: each cohort's conversion rate and confidence interval, on one scale."""

from typing import Any

from penstock.base.errors import Malformed
from penstock.funnels.comparisons.schema import ComparisonRecord
from penstock.funnels.questions import COMPARE
from penstock.web.pages.report.panels.context import ReportContext
from penstock.web.pages.report.panels.other_tools import ask_like
from penstock.web.pages.report.panels.scale import Scale, scale_of
from penstock.web.pages.report.panels.segments import key_of, segments


def compare(context: ReportContext) -> dict[str, Any]:
    query, properties = context.query, context.page.definition.breakdown_properties
    name = query.property_ if query.property_ in properties else properties[0]
    more: dict[str, Any] = {
        "property": name,
        "baseline": query.baseline if name == query.property_ else None,
    }
    prepared = context.prepare(cohort=False)
    try:
        comparison, other = ask_like(context, COMPARE, {**more, "cohort": False}, prepared)
    except Malformed:  # no unit has the baseline value in this period, so use the largest cohort
        more["baseline"] = None
        comparison, other = ask_like(context, COMPARE, {**more, "cohort": False}, prepared)
    # With one breakdown property, the values are the cohorts of the bars.
    shown = segments(context) if len(properties) == 1 else []
    return {
        "comparison": comparison,
        "colours": {segment.key: segment.colour for segment in shown},
        "key_of": key_of,
        "property": name,
        "choices": [(name, context.page.property_name(name)) for name in properties],
        "scale": _scale(comparison, is_settled=context.page.has_window),
        "more": {**more, **(other.more if other else {})},
        "beside": other,
    }


def _scale(comparison: ComparisonRecord, *, is_settled: bool) -> Scale:
    """Return a scale that covers every interval.

    is_settled: whether the intervals are about settled units.
    """
    intervals = [
        interval
        for cohort in comparison.cohorts
        if (interval := cohort.settled_rate_interval if is_settled else cohort.rate_interval)
    ]
    return scale_of([(interval.lower, interval.upper) for interval in intervals])
