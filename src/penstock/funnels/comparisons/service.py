"""Compares cohorts of a breakdown property: which converts better, and how certain that is."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pydantic import MISSING

from penstock.base.errors import Fault
from penstock.base.paging import Page
from penstock.base.rates import Share
from penstock.base.scalar import Scalar, tagged, untagged
from penstock.funnels.comparisons.proportions import (
    CONFIDENCE_LEVEL,
    MIN_UNITS,
    Comparison,
    compare_all,
    probability_to_beat,
    wilson_interval,
)
from penstock.funnels.comparisons.schema import (
    AgainstBaselineRecord,
    CohortsLikeRecord,
    ComparedRecord,
    CompareQuery,
    ComparisonRecord,
    ComparisonWarningRecord,
    WarningCode,
)
from penstock.funnels.comparisons.words import summary
from penstock.funnels.definitions.model import Definition
from penstock.funnels.forecasts.schema import ForecastRecord
from penstock.funnels.forecasts.service import Forecasts, forecasts_of
from penstock.funnels.other_tools.rules import Parts
from penstock.funnels.other_tools.schema import LikeFiguresRecord
from penstock.funnels.other_tools.service import CountedLike, count_parts_like
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.provenance import Provenance, head_of
from penstock.funnels.results.schema import RangeRecord
from penstock.funnels.results.shaping import cohort_key, read_total
from penstock.funnels.results.tally import Tally, figures_of
from penstock.funnels.statements import figures
from penstock.funnels.statements.report import build
from penstock.http.bodies import bad_parameter

MAX_COHORTS = 50

_DECIMALS = 6


@dataclass(frozen=True, slots=True)
class Arm:
    """One cohort.

    value: the property's value at entry; None if missing.
    conflicting: number of units with another value in a later event.
    forecast: where its rate settles, if the request asks for it.
    """

    value: Scalar | None
    tally: Tally
    conflicting: int
    forecast: ForecastRecord | MISSING | None = MISSING


@dataclass(frozen=True, slots=True)
class _Cohorts:
    """The cohorts of a comparison.

    arms: the largest cohorts, largest first, at most `MAX_COHORTS`.
    count: number of all cohorts.
    total: the sum of all cohorts, without a value.
    """

    arms: list[Arm]
    count: int
    total: Arm
    provenance: Provenance


def compare_cohorts(
    runner: FunnelQueryRunner, prepared: QueryContext, query: CompareQuery
) -> ComparisonRecord:
    """Compares the cohorts of a breakdown property with a baseline.

    The response contains confidence intervals, significance tests and warnings.
    """
    context = _break_down_by(prepared, query.property_)
    forecasts = forecasts_of(runner, context) if query.forecast else None
    cohorts = _cohorts(runner, context, forecasts)
    arms, provenance = cohorts.arms, cohorts.provenance
    baseline = arms[0] if arms else None
    if query.has_baseline:
        value: Any = query.baseline
        baseline = next((arm for arm in arms if tagged(arm.value) == tagged(value)), None)
        if baseline is None and len(arms) == MAX_COHORTS:
            selected = {query.property_: value}
            alone = context.with_params(cohort=selected, page=Page(1, 1))
            of_it = forecasts_of(runner, alone) if query.forecast else None
            rare = _cohorts(runner, alone, of_it)
            provenance += rare.provenance
            arms, baseline = [*arms, *rare.arms], next(iter(rare.arms), None)
        if baseline is None:
            message = f"No unit of this query entered with this value of {query.property_}."
            raise bad_parameter(Fault("baseline", "unknown_cohort", message))
    warnings = _warnings(context.definition, query.property_, arms, cohorts.total)
    parts = Parts(name=query.property_, values=tuple(arm.value for arm in arms))
    like = count_parts_like(runner, context, query, parts)
    return ComparisonRecord(
        **head_of(context, provenance),
        **_compare(query.property_, arms, baseline, like),
        count_like=MISSING
        if like is None
        else CohortsLikeRecord(**dict(like.rules), others=like.figures(0)),
        summary=_summary(context.definition, query.property_, arms, baseline),
        total=cohorts.count,
        left_out=cohorts.count - len(arms),
        warnings=list(warnings),
        coverage=runner.coverage(context, provenance, cohorts.total.tally.open),
    )


def _cohorts(
    runner: FunnelQueryRunner, context: QueryContext, forecasts: Forecasts | None
) -> _Cohorts:
    context = context if forecasts is None else forecasts.context
    result = runner.fetch(context, partial(build, context.definition, context.params))
    rows = result.rows
    arms = [_arm(context.definition, row, forecasts) for row in rows if not row["is_total"]]
    total = read_total(context.definition, rows)
    whole = Arm(None, Tally.of_steps(total), sum(total["conflicting"]))
    return _Cohorts(arms, total["cohort_count"], whole, result.provenance)


def _break_down_by(context: QueryContext, name: str) -> QueryContext:
    """Return the same query with a single breakdown property. Raises Malformed for another name."""
    if name not in context.definition.breakdown_properties:
        raise bad_parameter(context.definition.breakdown_fault("property"))
    definition = replace(context.definition, breakdown_properties=(name,))
    return replace(context, definition=definition).with_params(page=Page(1, MAX_COHORTS))


def _arm(definition: Definition, row: Mapping[str, Any], forecasts: Forecasts | None) -> Arm:
    """Convert a row of the statement to a cohort."""
    texts, row = row["texts"], {**row, **figures.read(definition, row)}
    forecast = MISSING if forecasts is None else forecasts.of_cohort(texts, row)
    return Arm(untagged(texts[0]), Tally.of_steps(row), sum(row["conflicting"]), forecast)


def _compare(
    name: str, arms: Sequence[Arm], baseline: Arm | None, like: CountedLike | None
) -> dict[str, Any]:
    index = arms.index(baseline) if baseline else None
    shares = [arm.tally.completions for arm in arms]
    settled = [arm.tally.settled_completions for arm in arms]
    against = _against_baseline(shares, index)
    of_settled = against if settled == shares else _against_baseline(settled, index)
    return {
        "property": name,
        "baseline": cohort_key([name], [baseline.value]) if baseline else None,
        "confidence_level": CONFIDENCE_LEVEL,
        "cohorts": [
            _record(name, *row, MISSING if like is None else like.figures(part))
            for part, row in enumerate(zip(arms, against, of_settled, strict=True), start=1)
        ],
    }


def _summary(
    definition: Definition, name: str, arms: Sequence[Arm], baseline: Arm | None
) -> str | None:
    """Return the result in words, over settled units if the funnel has a window."""
    if baseline is None:
        return None
    has_window = definition.window_s is not None
    shares = [_compared_share(arm, has_window=has_window) for arm in arms]
    comparisons = _compare_with_baseline(shares, arms.index(baseline))
    tested = [
        (arm.value, comparison)
        for arm, comparison in zip(arms, comparisons, strict=True)
        if comparison is not None and comparison.corrected is not None
    ]
    clear = [pair for pair in tested if pair[1].is_clear]
    units = f"{'settled ' if has_window else ''}{definition.unit_word}s"
    return summary(name, baseline.value, clear, len(tested), units)


def _record(
    name: str,
    arm: Arm,
    against: AgainstBaselineRecord | None,
    settled_against: AgainstBaselineRecord | None,
    like: LikeFiguresRecord | MISSING,
) -> ComparedRecord:
    tally, all_units, settled = arm.tally, arm.tally.completions, arm.tally.settled_completions
    figures = {
        **figures_of(tally, ComparedRecord),
        "final_rate": tally.final_bounds and _range(tally.final_bounds),
    }
    return ComparedRecord(
        **cohort_key([name], [arm.value]),
        **figures,
        rate_interval=_range(wilson_interval(all_units)) if all_units.whole else None,
        conflicting_entry_values=arm.conflicting,
        too_few=all_units.whole < MIN_UNITS,
        against_baseline=against,
        settled_rate_interval=_range(wilson_interval(settled)) if settled.whole else None,
        settled_too_few=settled.whole < MIN_UNITS,
        settled_against_baseline=settled_against,
        forecast=arm.forecast,
        count_like=like,
    )


def _compared_share(arm: Arm, *, has_window: bool) -> Share:
    """Return the completions by which cohorts are compared in words: the settled ones, if any unit
    can settle.
    """
    return arm.tally.settled_completions if has_window else arm.tally.completions


def _compare_with_baseline(
    shares: Sequence[Share], baseline: int | None
) -> list[Comparison | None]:
    """Compare each cohort with the baseline.

    The result is None for the baseline, and where the cohort or the baseline has no units.

    baseline: index of the baseline; None without cohorts.
    """
    if baseline is None or not shares[baseline].whole:
        return [None] * len(shares)
    compared = [index for index, share in enumerate(shares) if share.whole and index != baseline]
    comparisons = compare_all([(shares[index], shares[baseline]) for index in compared])
    by_index = dict(zip(compared, comparisons, strict=True))
    return [by_index.get(index) for index in range(len(shares))]


def _against_baseline(
    shares: Sequence[Share], baseline: int | None
) -> list[AgainstBaselineRecord | None]:
    """Return the records of `_compare_with_baseline`."""
    comparisons = _compare_with_baseline(shares, baseline)
    return [
        None
        if comparison is None or baseline is None
        else AgainstBaselineRecord(
            difference=round(comparison.difference, _DECIMALS),
            difference_interval=_range(comparison.interval),
            test=comparison.method,
            p_value=comparison.p_value,
            p_value_corrected=comparison.corrected,
            probability_to_beat=round(probability_to_beat(share, shares[baseline]), _DECIMALS),
        )
        for share, comparison in zip(shares, comparisons, strict=True)
    ]


def _warnings(
    definition: Definition, name: str, arms: Sequence[Arm], total: Arm
) -> Iterator[ComparisonWarningRecord]:
    has_window = definition.window_s is not None
    shares = [_compared_share(arm, has_window=has_window) for arm in arms]
    if small := sum(share.whole < MIN_UNITS for share in shares):
        cohorts = "1 cohort has" if small == 1 else f"{small} cohorts have"
        yield ComparisonWarningRecord(
            code=WarningCode.TOO_FEW,
            message=f"{cohorts} fewer than {MIN_UNITS} settled {definition.unit_word}s "
            "(settledTooFew). Wait for more before you decide."
            if has_window
            else f"{cohorts} fewer than {definition.units(MIN_UNITS)} (tooFew). Wait for more "
            "before you decide.",
        )
    if total.conflicting:
        have = "has" if total.conflicting == 1 else "have"
        yield ComparisonWarningRecord(
            code=WarningCode.ASSIGNED_AFTER_ENTRY,
            message=f"{definition.units(total.conflicting)} {have} a different value of {name} in "
            "a later event than at entry, and count in the cohort of their entry. Set the property "
            "before step 1.",
        )
    if open_units := total.tally.open:
        yield ComparisonWarningRecord(
            code=WarningCode.OPEN_WINDOWS,
            message=f"{definition.units(open_units)} may still complete, and count as not "
            "converted until then. finalRate gives the range that each rate can still reach.",
        )


def _range(bounds: tuple[float, float]) -> RangeRecord:
    return RangeRecord.rounded(bounds, _DECIMALS)
