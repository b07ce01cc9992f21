"""Reads the figures that a receipt keeps. Functions block, within the limits of queries."""

import hmac
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from pydantic import MISSING

from penstock.base.clock import MS_PER_MINUTE
from penstock.base.paging import Page
from penstock.base.scalar import Scalar, tagged
from penstock.funnels.definitions.schema import SavedDefinition
from penstock.funnels.definitions.titles import step_titles
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.results.schema import AggregateRecord, ResultsRecord, StepRecord
from penstock.funnels.results.service import report_of
from penstock.funnels.shown_rates import shown_rate
from penstock.receipts.model import MAX_COHORTS
from penstock.receipts.schema import (
    ReceiptCohortRecord,
    ReceiptFiguresRecord,
    ReceiptStepRecord,
)
from penstock.receipts.signatures import canonical_json

_OF_RATE = {
    *("entered", "completed", "pending", "dropped_off", "excluded", "settled"),
    "early_completions",
}
_OF_STEPS = {"count", "settled", "pending", "dropped_off", "excluded", "row_count"}
_MAX_COHORTS_READ = 1_000
"""Number of cohorts among which those of a receipt are looked for."""


def read_figures(
    runner: FunnelQueryRunner,
    context: QueryContext,
    definition: SavedDefinition,
    key: tuple[int, int],
    original: ReceiptFiguresRecord | None = None,
) -> tuple[ReceiptFiguresRecord, ResultsRecord]:
    """Return the figures of a query for a receipt, and the report that has them.

    definition: as saved. key: keys the hashes of the cohorts' values. original: figures to compare
    with, whose cohorts are looked for; None for the figures of a new receipt.
    """
    page = Page(1, MAX_COHORTS if original is None else _MAX_COHORTS_READ)
    report = report_of(runner, context.with_params(page=page))
    total, has_window = report.aggregate, context.definition.window_s is not None
    rate = _rate_of(total, has_window=has_window)
    steps = [
        ReceiptStepRecord(
            name=title,
            part=part,
            **step.model_dump(include=_OF_STEPS, by_alias=False),
        )
        for title, step, part in zip(
            step_titles(definition), total.steps, _parts(total.steps, rate["of"]), strict=True
        )
    ]
    has_cohorts = bool(context.definition.breakdown_properties)
    by_value = {}
    for cohort in report.cohorts.data if has_cohorts else ():
        own, value = _rate_of(cohort, has_window=has_window), _hash_of(cohort.cohort, key)
        by_value[value] = ReceiptCohortRecord(
            value=value,
            values=MISSING if original is None else cohort.cohort,
            steps=_parts(cohort.steps, own["of"]),
            **own,
        )
    if original is not None:
        cohorts = [] if original.cohorts is MISSING else original.cohorts
        by_value = {each.value: by_value[each.value] for each in cohorts if each.value in by_value}
    figures = ReceiptFiguresRecord(
        **rate,
        steps=steps,
        cohorts=list(by_value.values()),
        cohorts_total=report.cohorts.total if has_cohorts else 0,
    )
    return figures, report


def _rate_of(figures: AggregateRecord, *, has_window: bool) -> dict[str, Any]:
    """Return the fields of `ReceiptRateRecord`."""
    shown, minutes = shown_rate(figures, has_window=has_window), figures.median_completion_minutes
    return {
        **figures.model_dump(include=_OF_RATE, by_alias=False),
        "part": shown.part,
        "whole": shown.whole,
        "of": shown.of,
        "is_so_far": shown.is_so_far,
        "median_completion_ms": None if minutes is None else round(minutes * MS_PER_MINUTE),
    }


def _parts(steps: Sequence[StepRecord], of: str) -> list[int]:
    """Return the units of a rate that reached each step."""
    if of == "settled":
        return [step.settled for step in steps]
    excluded_later = [*accumulate(step.excluded for step in reversed(steps))][::-1]
    return [step.count - excluded for step, excluded in zip(steps, excluded_later, strict=True)]


def _hash_of(values: Mapping[str, Scalar | None], key: tuple[int, int]) -> str:
    text = canonical_json({name: tagged(value) for name, value in values.items()})
    secret = b"".join(half.to_bytes(8, "little") for half in key)
    return hmac.digest(secret, text.encode("utf-8", "surrogatepass"), "sha256").hex()[:32]
