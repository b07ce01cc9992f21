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
    return {
        "name": "",
        "countingUnit": unit,
        "attemptProperty": attempt_property,
        "sequenceProperty": None,
        "conversionWindowSeconds": _WINDOWS_S[unit],
        "steps": [
            {"type": TYPES[step.type], "value": step.name}
            for step in steps
            if step.type is not Kind.PROVIDER
        ],
    }


def _steps_with(
    summary: ImportSummaryRecord, attempt_property: str
) -> tuple[FirstFunnelStepRecord, ...]:
    for each in summary.attempt_properties:
        if each.name == attempt_property:
            return each.steps
    raise NotFound("The import has no such property that looks like an attempt ID.")
