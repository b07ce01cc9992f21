"""The cohorts that have their own bars and lines on a report, each in its own colour."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.base.scalar import tagged
from penstock.funnels.results.schema import CohortRecord
from penstock.web.pages.report.panels.context import ReportContext
from penstock.web.pages.schema import MAX_PICKED


@dataclass(frozen=True, slots=True)
class Segment:
    """A cohort with its own bars. colour: 1 to 6, as in `static/tokens.css`. key: its values, as
    JSON.
    """

    colour: int
    key: str
    cohort: CohortRecord


def key_of(cohort: Mapping[str, Any]) -> str:
    """Return the values of a cohort, as JSON."""
    return json.dumps(dict(cohort), ensure_ascii=False)


def segments(context: ReportContext) -> Sequence[Segment]:
    """Return the cohorts that the reader picked or else the largest; none if there are fewer than
    two cohorts.
    """
    largest = context.largest_cohorts
    if len(largest) < 2:
        return []
    picked = context.query.picked
    if picked is None:
        shown: Sequence[CohortRecord | None] = largest[:MAX_PICKED]
    else:
        by_values = {_tagged(cohort.cohort): cohort for cohort in largest}
        shown = [by_values.get(_tagged(cohort)) if cohort else None for cohort in picked]
    return [
        Segment(colour, key_of(cohort.cohort), cohort)
        for colour, cohort in enumerate(shown, start=1)
        if cohort is not None
    ]


def _tagged(cohort: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the values of a cohort with their types: `1`, `"1"` and `true` differ."""
    return tuple(sorted((name, tagged(value)) for name, value in cohort.items()))
