"""A funnel that the dry run of an import suggests, as the builder shows it before it is saved."""

from typing import Any

from penstock.base.errors import NotFound
from penstock.events.imports.dry_runs.schema import FirstFunnelStepRecord, ImportSummaryRecord
from penstock.events.model import Kind
from penstock.funnels.definitions.model import CountingUnit
from penstock.funnels.statements.matching import TYPES

_WINDOWS_S = {CountingUnit.ATTEMPT: 7 * 86_400, CountingUnit.VISITOR: 14 * 86_400}


def first_funnel(summary: ImportSummaryRecord, attempt_property: str | None) -> dict[str, Any]:
    """Return the definition in the format of an API request, without a name.

    attempt_property: one of the properties that look like an attempt ID; None counts visitors.
    Raises `NotFound` if the summary does not list the property.
    """
    steps, unit = summary.steps, CountingUnit.VISITOR
    if attempt_property is not None:
        steps, unit = _steps_with(summary, attempt_property), CountingUnit.ATTEMPT
    is_visitor_funnel = unit is CountingUnit.VISITOR
    return {
        "name": "",
        "countingUnit": unit,
        "attemptProperty": attempt_property,
        "sequenceProperty": summary.sequence_property if summary.whole_seconds else None,
        "equalTimes": "inStepOrder" if summary.whole_seconds and is_visitor_funnel else None,
        "conversionWindowSeconds": _WINDOWS_S[unit],
        "steps": [
            {"type": TYPES[step.type], "value": step.name}
            for step in steps
            if step.type is not Kind.PROVIDER
        ],
    }


def equal_times_note(summary: ImportSummaryRecord, attempt_property: str | None) -> str | None:
    """Return what the suggested funnel does with equal times; None if the times are not coarse."""
    if not summary.whole_seconds:
        return None
    begin, sequence = "All times in the file are whole seconds.", summary.sequence_property
    if attempt_property is None:
        rest = f", unless {sequence} proves another order" if sequence else ""
        return f"{begin} Events with equal times count in the order of the steps{rest}."
    if sequence:
        return f"{begin} The sequence property {sequence} orders events with equal times."
    return (
        f"{begin} The order of events in the same second is unknown, so an attempt cannot complete "
        "two steps in one second. Add a column with a number that rises with each event and choose "
        "it as the sequence property, or count visitors."
    )


def _steps_with(
    summary: ImportSummaryRecord, attempt_property: str
) -> tuple[FirstFunnelStepRecord, ...]:
    for each in summary.attempt_properties:
        if each.name == attempt_property:
            return each.steps
    raise NotFound("The import has no such property that looks like an attempt ID.")
