"""Compares the cohorts of one breakdown property: which converts better, and how certain it is."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from penstock.base.errors import Fault, Malformed
from penstock.base.ids import WorkspaceId
from penstock.base.paging import Page
from penstock.base.rates import rate
from penstock.base.scalar import Scalar, tagged, untagged
from penstock.funnels.comparisons.proportions import (
    CONFIDENCE_LEVEL,
    Share,
    holm,
    newcombe_interval,
    p_value,
    probability_to_beat,
    wilson_interval,
)
from penstock.funnels.comparisons.schema import (
    AgainstBaselineRecord,
    ComparedRecord,
    CompareQuery,
    ComparisonRecord,
    ComparisonWarningRecord,
    RangeRecord,
    WarningCode,
)
from penstock.funnels.definitions.model import Definition
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.coverage import ReadGaps, coverage_of
from penstock.funnels.queries.provenance import Provenance, head_of
from penstock.funnels.queries.resolve import SavedFunnel
from penstock.funnels.queries.schema import CohortKeyRecord
from penstock.funnels.results.shaping import total_of
from penstock.funnels.statements import figures
from penstock.funnels.statements.report import build
from penstock.http.bodies import bad_parameter

MAX_COHORTS = 50
FEWEST = 30
"""Units that must enter a cohort before its numbers mean much."""

_DECIMALS = 6


@dataclass(frozen=True, slots=True)
class Arm:
    """One cohort. value: at entry, None for missing.

    conflicting: units with another value in a later event.
    """

    value: Scalar | None
    entered: int
    completed: int
    pending: int
    conflicting: int

    @property
    def too_few(self) -> bool:
        return self.entered < FEWEST


@dataclass(frozen=True, slots=True)
class _Cohorts:
    """arms: most entered first, at most `MAX_COHORTS`. count: of all cohorts.

    total: of all cohorts, without a value.
    """

    arms: list[Arm]
    count: int
    total: Arm
    provenance: Provenance


class CompareService:
    """Methods block: call them from a worker thread."""

    def __init__(self, runner: FunnelQueryRunner, read_gaps: ReadGaps) -> None:
        self._runner, self._read_gaps = runner, read_gaps

    def compare(
        self, workspace_id: WorkspaceId, funnel_id: str, query: CompareQuery
    ) -> ComparisonRecord:
        """Errors as of `FunnelQueryRunner.prepare` and `compare_of`."""
        source = SavedFunnel(funnel_id, query.revision)
        prepared = self._runner.prepare(workspace_id, source, query.selection())
        return self.compare_of(prepared, query)

    def compare_of(self, prepared: QueryContext, query: CompareQuery) -> ComparisonRecord:
        """The comparison of a prepared query, which selects no cohort.

        Malformed for an unknown breakdown property, or a baseline that no cohort has.
        """
        context = _by_property(prepared, query.property_)
        cohorts = self._cohorts(context)
        arms, provenance = cohorts.arms, cohorts.provenance
        baseline = arms[0] if arms else None
        if query.has_baseline:
            value: Any = query.baseline
            baseline = next((arm for arm in arms if tagged(arm.value) == tagged(value)), None)
            if baseline is None and len(arms) == MAX_COHORTS:
                rare = self._cohorts(_only_cohort(context, query.property_, value))
                provenance += rare.provenance
                arms, baseline = [*arms, *rare.arms], next(iter(rare.arms), None)
            if baseline is None:
                raise _unknown_baseline(query.property_)
        gaps = self._read_gaps(context.workspace_id, context.params.website_ids)
        warnings = _warnings(context.definition, query.property_, arms, cohorts.total)
        return ComparisonRecord.model_validate(
            {
                **head_of(context, provenance),
                **_compared(query.property_, arms, baseline),
                "total": cohorts.count,
                "leftOut": cohorts.count - len(arms),
                "warnings": list(warnings),
                "coverage": coverage_of(context, provenance, gaps, cohorts.total.pending),
            }
        )

    def _cohorts(self, context: QueryContext) -> _Cohorts:
        build_statement = partial(build, context.definition, context.params)
        result = self._runner.fetch(context, build_statement)
        rows = result.rows
        arms = [
            _arm(figures.read(context.definition, row), untagged(row["texts"][0]))
            for row in rows
            if not row["is_total"]
        ]
        total = total_of(context.definition, rows)
        return _Cohorts(arms, total["cohort_count"], _arm(total, None), result.provenance)


def _by_property(context: QueryContext, name: str) -> QueryContext:
    """The same query with one breakdown property alone."""
    if name not in context.definition.breakdown_properties:
        raise bad_parameter(context.definition.not_a_breakdown("property"))
    return replace(
        context,
        definition=replace(context.definition, breakdown_properties=(name,)),
        params=replace(context.params, page=Page(1, MAX_COHORTS)),
    )


def _only_cohort(context: QueryContext, name: str, value: Scalar | None) -> QueryContext:
    """The same query for one cohort."""
    return replace(context, params=replace(context.params, cohort={name: value}, page=Page(1, 1)))


def _unknown_baseline(name: str) -> Malformed:
    message = f"No unit of this query entered with this value of {name}."
    return bad_parameter(Fault("baseline", "unknown_cohort", message))


def _arm(row: Mapping[str, Any], value: Scalar | None) -> Arm:
    """row: the figures by name."""
    entered, *_, completed = row["counts"]
    return Arm(value, entered, completed, sum(row["pendings"]), sum(row["conflicting"]))


def _compared(name: str, arms: Sequence[Arm], baseline: Arm | None) -> dict[str, Any]:
    against = _against(arms, baseline) if baseline else []
    return {
        "property": name,
        "baseline": _key(name, baseline.value) if baseline else None,
        "confidenceLevel": CONFIDENCE_LEVEL,
        "cohorts": [_record(name, *pair) for pair in zip(arms, against, strict=True)],
    }


def _record(name: str, arm: Arm, against: AgainstBaselineRecord | None) -> ComparedRecord:
    key = _key(name, arm.value)
    return ComparedRecord(
        cohort=key.cohort,
        label=key.label,
        entered=arm.entered,
        completed=arm.completed,
        pending=arm.pending,
        conversion_rate=rate(arm.completed, arm.entered) or 0.0,
        rate_interval=_range(*wilson_interval(_share(arm))),
        final_rate=_range(arm.completed / arm.entered, (arm.completed + arm.pending) / arm.entered),
        conflicting_entry_values=arm.conflicting,
        too_few=arm.too_few,
        against_baseline=against,
    )


def _against(arms: Sequence[Arm], baseline: Arm) -> list[AgainstBaselineRecord | None]:
    """Each arm against the baseline, None for the baseline itself.

    Arms with too few units are left out of the correction, which would weaken the others.
    """
    base = _share(baseline)
    tests = [p_value(_share(arm), base) for arm in arms]
    tested = [
        place
        for place, arm in enumerate(arms)
        if not (arm is baseline or arm.too_few or baseline.too_few)
    ]
    corrected = dict(zip(tested, holm([tests[place][1] for place in tested]), strict=True))
    return [
        None
        if arm is baseline
        else AgainstBaselineRecord(
            difference=round(_share(arm).rate - base.rate, _DECIMALS),
            difference_interval=_range(*newcombe_interval(_share(arm), base)),
            test=test,
            p_value=probability,
            p_value_corrected=corrected.get(place),
            probability_to_beat=round(probability_to_beat(_share(arm), base), _DECIMALS),
        )
        for place, (arm, (test, probability)) in enumerate(zip(arms, tests, strict=True))
    ]


def _share(arm: Arm) -> Share:
    return Share(arm.completed, arm.entered)


def _warnings(
    definition: Definition, name: str, arms: Sequence[Arm], total: Arm
) -> Iterator[ComparisonWarningRecord]:
    if few := sum(arm.too_few for arm in arms):
        cohorts, fewest = (
            "1 cohort has" if few == 1 else f"{few} cohorts have",
            definition.units(FEWEST),
        )
        yield _warning(
            WarningCode.TOO_FEW,
            f"{cohorts} fewer than {fewest} (tooFew); wait for more before you decide.",
        )
    if total.conflicting:
        have = "has" if total.conflicting == 1 else "have"
        yield _warning(
            WarningCode.ASSIGNED_AFTER_ENTRY,
            f"{definition.units(total.conflicting)} {have} another value of {name} in a later "
            "event than at entry, and stay in the cohort of their entry; assign what you compare "
            "before step 1.",
        )
    if total.pending:
        yield _warning(
            WarningCode.OPEN_WINDOWS,
            f"{definition.units(total.pending)} may still complete; until then they count as not "
            "converted. finalRate gives the range that each rate can still reach.",
        )


def _warning(code: WarningCode, message: str) -> ComparisonWarningRecord:
    return ComparisonWarningRecord.model_validate({"code": code, "message": message})


def _key(name: str, value: Scalar | None) -> CohortKeyRecord:
    return CohortKeyRecord(
        cohort={name: value}, label={name: "Unknown" if value is None else value}
    )


def _range(lower: float, upper: float) -> RangeRecord:
    return RangeRecord(lower=round(lower, _DECIMALS), upper=round(upper, _DECIMALS))
