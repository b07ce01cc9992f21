"""Turns rows of the report statement into the response of the API. Step 7 of the query path."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from pydantic import MISSING

from penstock.base.scalar import Scalar, untagged
from penstock.funnels.definitions.model import Definition, Row
from penstock.funnels.forecasts.service import Forecasts
from penstock.funnels.results.schema import (
    AggregateRecord,
    CohortRecord,
    CohortsRecord,
    DataQualityRecord,
    DiagnosticRecord,
    OptionRecord,
    ReportRecord,
    StepRecord,
)
from penstock.funnels.results.tally import Tally, figures_of
from penstock.funnels.statements import figures
from penstock.funnels.statements.query import QueryParams

_NOTHING: Mapping[str, Any] = {
    "cohort_count": 0, "median_ms": None, "counted": [], "quality": [],
}  # fmt: skip
"""The total row to use if the statement returns no rows."""


def shape_report(
    definition: Definition,
    params: QueryParams,
    rows: Sequence[Mapping[str, Any]],
    lost_on_devices: int,
    forecasts: Forecasts | None = None,
) -> ReportRecord:
    """Return the numbers of a report.

    rows: the result of `statements.report.build`. lost_on_devices: see `data_quality`. forecasts:
    those of the query, if the report has any.
    """
    total = read_total(definition, rows)
    of_steps: list[Any] = [MISSING] * len(definition.steps)
    if forecasts is not None:
        of_steps = [None, *forecasts.of_report(total)]
    aggregate = _aggregate(definition, total, of_steps)
    cohorts = [
        _cohort(definition, {**row, **figures.read(definition, row)}, forecasts)
        for row in rows
        if not row["is_total"]
    ]
    cohort_count = total["cohort_count"]
    if not definition.breakdown_properties:
        # Without a breakdown there is one cohort, which may be empty.
        all_units = CohortRecord(cohort={}, label={}, forecast=of_steps[-1], **aggregate)
        cohorts = [all_units] if params.page.number == 1 else []
        cohort_count = 1
    return ReportRecord(
        aggregate=AggregateRecord(**aggregate),
        forecast=of_steps[-1],
        cohorts=CohortsRecord(
            page=params.page.number, page_size=params.page.size, total=cohort_count, data=cohorts
        ),
        data_quality=data_quality(definition, total, lost_on_devices),
    )


def read_total(definition: Definition, rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the columns and figures of the total. rows: see `shape_report`."""
    row = next((row for row in rows if row["is_total"]), _NOTHING)
    return {**row, **figures.read(definition, row)}


def _cohort(
    definition: Definition, row: Mapping[str, Any], forecasts: Forecasts | None
) -> CohortRecord:
    key = cohort_key(definition.breakdown_properties, map(untagged, row["texts"]))
    forecast = MISSING if forecasts is None else forecasts.of_cohort(row["texts"], row)
    return CohortRecord(**key, **_aggregate(definition, row), forecast=forecast)


def cohort_key(names: Iterable[str], values: Iterable[Scalar | None]) -> dict[str, Any]:
    """Return the fields of `CohortKeyRecord`."""
    cohort = dict(zip(names, values, strict=True))
    label = {name: "Unknown" if value is None else value for name, value in cohort.items()}
    return {"cohort": cohort, "label": label}


def _aggregate(
    definition: Definition, row: Mapping[str, Any], forecasts: Sequence[Any] = ()
) -> dict[str, Any]:
    """Return the fields of `AggregateRecord`, for all units or for one cohort.

    forecasts: those of the steps, if they have any.
    """
    tally = Tally.of_steps(row)
    return {
        **figures_of(tally, AggregateRecord),
        "steps": list(_steps(definition, tally, row["options"], forecasts)),
        "diagnostics": _diagnostics(definition, row),
    }


def _steps(
    definition: Definition, tally: Tally, option_counts: Sequence[int], forecasts: Sequence[Any]
) -> Iterator[StepRecord]:
    """Yield the steps. option_counts: number of units for each option of each step."""
    required = [(index, step) for index, step in enumerate(definition.rows) if step.required]
    counts_of_options = iter(option_counts)
    for number, ((index, step), counted) in enumerate(
        zip(required, tally.by_step(), strict=True), start=1
    ):
        options = [
            OptionRecord(option=option, count=counted.count if step.all_of else count)
            for option, count in enumerate(islice(counts_of_options, len(step.matches)))
        ]
        yield StepRecord(
            step=number,
            row=index,
            **identify(step),
            **figures_of(counted, StepRecord),
            options=options,
            row_count=(
                sum(option.count for option in options) if definition.in_any_order else MISSING
            ),
            forecast=forecasts[number - 1] if forecasts else MISSING,
        )


def _diagnostics(definition: Definition, row: Mapping[str, Any]) -> list[DiagnosticRecord]:
    return [
        DiagnosticRecord(**diagnostic, units=units, events=events)
        for diagnostic, units, events in zip(
            locate_diagnostics(definition), row["seen_units"], row["seen_events"], strict=True
        )
    ]


def locate_diagnostics(definition: Definition) -> list[dict[str, Any]]:
    """Return the diagnostic rows, and between which steps each looks for events."""
    diagnostics = []
    step = 0
    for index, row in enumerate(definition.rows):
        if row.diagnostic:
            looks = {"after_step": step, "where": _describe_gap(step, len(definition.steps))}
            diagnostics.append({"row": index, **looks, **identify(row)})
        step += row.required
    return diagnostics


def _describe_gap(step: int, n: int) -> str:
    """Describe where a diagnostic row below a step looks. step: 0 above the first step."""
    if not step:
        return "before step 1"
    return f"between steps {step} and {step + 1}" if step < n else f"after step {step}"


def identify(row: Row) -> dict[str, Any]:
    """Return the type and value of a row as they were saved, and its name, if it has one."""
    match = row.matches[0]
    type_, value = row.saved_as or (str(match.type), match.value)
    return {"type": type_, "value": value, "name": row.name}


def data_quality(
    definition: Definition, row: Mapping[str, Any], lost_on_devices: int
) -> DataQualityRecord:
    """Return the data quality of a report.

    row: the columns and figures of the total.
    lost_on_devices: number of events that clients reported as dropped.
    """
    names = definition.breakdown_properties
    return DataQualityRecord(
        events_without_attempt_id=row["unitless"],
        invalid_sequence_values=row["invalid"],
        sequence_skips=row["skips"],
        unordered_ties=row["ties"],
        units_with_ordering_issues=row["disordered"],
        assumed_order=row["assumed"],
        tied_entries=row["tied"],
        unknown_entry_values=dict(zip(names, row["missing"], strict=True)),
        conflicting_entry_values=dict(zip(names, row["conflicting"], strict=True)),
        unverified_provider_events=row["unverified"],
        coarse_times=row["coarse"],
        attempts_with_several_visitors=row["several"],
        units_over_limit=row["cut"],
        lost_on_devices=lost_on_devices,
    )
