"""Annotations on the charts of a report."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from penstock.annotations.model import Annotation
from penstock.base.clock import parse_time
from penstock.funnels.trends import TrendBucketRecord
from penstock.web.pages.report.panels.context import ReportContext


def annotations_of(
    context: ReportContext, buckets: Sequence[TrendBucketRecord]
) -> list[tuple[int, Annotation]]:
    """Return the annotations in the time of a trend, each with its time, the latest first."""
    if not buckets:
        return []
    query, view = context.query, context.page.view
    return context.annotations.shown(
        view.workspace_id,
        (parse_time(buckets[0].from_), parse_time(buckets[-1].to)),
        query.zone,
        funnel_id=context.page.funnel.id,
        website_id=query.website_id,
    )


def with_marks(
    chart: dict[str, Any], annotations: Sequence[tuple[int, Annotation]]
) -> dict[str, Any]:
    """Return a chart with a mark for each annotation, at the bucket that contains its time."""
    times = chart["times"]
    marks = [
        {"index": bisect_right(times, at_ms // 1000) - 1, "text": each.text}
        for at_ms, each in reversed(annotations)
    ]
    return {**chart, "marks": marks}
