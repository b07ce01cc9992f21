"""Comparing the cohorts of one breakdown property: which of them converts better, and how sure that is."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.base.errors import Fault
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
    RangeRecord,
    WarningCode,
    WarningRecord,
)
from penstock.funnels.definitions.model import Definition
from penstock.funnels.results.asking import Asker
from penstock.funnels.results.coverage import ReadGaps, coverage_of
from penstock.funnels.results.inquiry import Inquiry
from penstock.funnels.results.schema import CohortKeyRecord
from penstock.funnels.statements.report import build
from penstock.http.bodies import bad_parameter

MAX_COHORTS = 50
FEWEST = 30
"""Units that must enter a cohort before its numbers say much."""

_DECIMALS = 6


@dataclass(frozen=True, slots=True)
class Arm:
    """One cohort. value: at entry, None for missing. conflicting: units of which a later accepted event has another value."""

    value: Scalar | None
    entered: int
    completed: int
    pending: int
    conflicting: int

    @property
    def too_few(self) -> bool:
        return self.entered < FEWEST


@dataclass(frozen=True, slots=True)
class _Counted:
    """arms: the most entered first. total: of all cohorts, also of those that are not in `arms`; its value means nothing."""

    arms: list[Arm]
    cohorts: int
    total: Arm


class CompareService:
    """Its methods block; call them from a worker thread."""

    def __init__(self, asker: Asker, read_gaps: ReadGaps) -> None:
        self._asker, self._read_gaps = asker, read_gaps

    def compare(self, workspace_id: WorkspaceId, funnel_id: str, query: CompareQuery) -> ComparisonRecord:
        """Errors as of `Asker.saved`; Malformed for a property that is no breakdown property, and a baseline that no cohort has."""
        inquiry = _by_property(self._asker.saved(workspace_id, funnel_id, query), query.property_)
        counted = self._counted(inquiry)
        arms = list(counted.arms)
        baseline = arms[0] if arms else None
        if query.names_baseline:
            baseline = self._baseline(inquiry, arms, query)
            if all(arm is not baseline for arm in arms):
                arms.append(baseline)
        gaps = self._read_gaps(workspace_id, inquiry.question.website_ids)
        definition, pending = inquiry.definition, counted.total.pending
        return ComparisonRecord.model_validate(
            {
                **inquiry.head,
                **_compared(query.property_, arms, baseline),
                "total": counted.cohorts,
                "leftOut": counted.cohorts - len(arms),
                "warnings": list(_warnings(definition, query.property_, arms, counted.total)),
                "coverage": coverage_of(inquiry.question, definition, inquiry.facts, gaps, pending, fresh=inquiry.fresh),
            }
        )

    def _counted(self, inquiry: Inquiry) -> _Counted:
        rows = self._asker.records(build(inquiry.definition, inquiry.question, inquiry.facts), inquiry)
        total = next((row for row in rows if row["is_total"]), None)
        if total is None:
            return _Counted([], 0, Arm(None, 0, 0, 0, 0))
        arms = [_arm(row, untagged(row["texts"][0])) for row in rows if not row["is_total"]]
        return _Counted(arms, total["wanted_cohorts"], _arm(total, None))

    def _baseline(self, inquiry: Inquiry, arms: Sequence[Arm], query: CompareQuery) -> Arm:
        """The arm of the value that was sent; asks for it where it is not among the most entered."""
        wanted: Any = query.baseline
        found = [arm for arm in arms if tagged(arm.value) == tagged(wanted)]
        if not found and len(arms) == MAX_COHORTS:
            alone = replace(inquiry.question, cohort={query.property_: wanted}, page=Page(1, 1))
            found = self._counted(replace(inquiry, question=alone)).arms
        if not found:
            raise bad_parameter(
                Fault("baseline", "unknown_cohort", f"No unit that is asked about entered with this value of {query.property_}.")
            )
        return found[0]


def _by_property(inquiry: Inquiry, name: str) -> Inquiry:
    """The same question, by one breakdown property alone."""
    properties = inquiry.definition.breakdown_properties
    if name not in properties:
        raise bad_parameter(inquiry.definition.not_a_breakdown("property"))
    return replace(
        inquiry,
        definition=replace(inquiry.definition, breakdown_properties=(name,)),
        question=replace(inquiry.question, page=Page(1, MAX_COHORTS)),
    )


def _arm(row: Mapping[str, Any], value: Scalar | None) -> Arm:
    """row: one of the statement's, whose lists are empty where there was nothing to add up."""
    entered, *_, completed = row["counts"] or [0, 0]
    return Arm(value, entered, completed, sum(row["pendings"]), sum(row["conflicting"]))


def _compared(name: str, arms: Sequence[Arm], baseline: Arm | None) -> dict[str, Any]:
    against = _against(arms, baseline) if baseline else []
    return {
        "property": name,
        "baseline": _key(name, baseline.value) if baseline else None,
        "confidenceLevel": CONFIDENCE_LEVEL,
        "cohorts": [_record(name, arm, held) for arm, held in zip(arms, against, strict=True)],
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

    Those with too few units are left out of the correction for many comparisons, lest they weaken the others.
    """
    base = _share(baseline)
    tests = [p_value(_share(arm), base) for arm in arms]
    counted = [place for place, arm in enumerate(arms) if not (arm is baseline or arm.too_few or baseline.too_few)]
    corrected = dict(zip(counted, holm([tests[place][1] for place in counted]), strict=True))
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


def _warnings(definition: Definition, name: str, arms: Sequence[Arm], total: Arm) -> Iterator[WarningRecord]:
    if few := sum(arm.too_few for arm in arms):
        cohorts, fewest = "1 cohort has" if few == 1 else f"{few} cohorts have", definition.units(FEWEST)
        yield _warning(WarningCode.TOO_FEW, f"{cohorts} fewer than {fewest} (tooFew); wait for more before deciding by them.")
    if total.conflicting:
        have = "has" if total.conflicting == 1 else "have"
        yield _warning(
            WarningCode.ASSIGNED_AFTER_ENTRY,
            f"{definition.units(total.conflicting)} {have} another value of {name} in a later event than at entry, and stay in the cohort "
            "of their entry; what is compared must be assigned before the journey begins.",
        )
    if total.pending:
        yield _warning(
            WarningCode.OPEN_WINDOWS,
            f"{definition.units(total.pending)} may still complete; until then they count as not converted, and finalRate tells how far "
            "rates can go.",
        )


def _warning(code: WarningCode, message: str) -> WarningRecord:
    return WarningRecord.model_validate({"code": code, "message": message})


def _key(name: str, value: Scalar | None) -> CohortKeyRecord:
    return CohortKeyRecord(cohort={name: value}, label={name: "Unknown" if value is None else value})


def _range(lower: float, upper: float) -> RangeRecord:
    return RangeRecord(lower=round(lower, _DECIMALS), upper=round(upper, _DECIMALS))
