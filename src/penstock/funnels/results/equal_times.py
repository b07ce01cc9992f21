"""The note of a report whose units fail because their events have equal times."""

from penstock.funnels.definitions.model import CountingUnit, Definition
from penstock.funnels.queries.coverage import Note
from penstock.funnels.queries.schema import NoteCode
from penstock.funnels.results.schema import ReportRecord
from penstock.funnels.statements.query import QueryParams

_IN_STEP_ORDER = (
    "If the times are whole seconds, edit the funnel: set “Events with equal times” to “Count in "
    "the order of the steps” (equalTimes: inStepOrder)."
)
_SEQUENCE = (
    "Send a whole number that rises with each event of an attempt, and choose it as the funnel's "
    "sequence property (sequenceProperty)."
)


def equal_times_notes(
    definition: Definition, params: QueryParams, report: ReportRecord
) -> list[Note]:
    """Return a note with the way out if a tenth of the units or more have unordered ties.

    The data quality covers all cohorts, so a report on one cohort gets no note.
    """
    total, quality = report.aggregate, report.data_quality
    tied, others = (
        quality.units_with_ordering_issues,
        quality.sequence_skips + quality.invalid_sequence_values,
    )
    if (
        definition.in_step_order
        or params.cohort
        or total.completed + total.excluded == total.entered
        or 10 * tied < total.entered
        or quality.unordered_ties <= others
    ):
        return []
    is_attempts = definition.counting_unit is CountingUnit.ATTEMPT
    way_out = _SEQUENCE if is_attempts else _IN_STEP_ORDER
    text = (
        f"{definition.units(tied)} of {total.entered:,} have events with equal times, so their "
        f"order is unknown. Some of them may have completed. {way_out}"
    )
    return [Note(NoteCode.EQUAL_TIMES, text)]
