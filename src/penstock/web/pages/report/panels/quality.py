"""Data quality: skipped and uncertain events."""

from dataclasses import dataclass
from typing import Any

from penstock.base.wording import listed
from penstock.funnels.results.schema import ResultsRecord
from penstock.funnels.statements.entries import MAX_UNIT_EVENTS
from penstock.web.pages.funnel_page import FunnelPage
from penstock.web.pages.report.panels.context import ReportContext


@dataclass(frozen=True, slots=True)
class DataQualityIssue:
    """A number about data quality. words: noun phrase shown after the number.

    quality, property: the conditions that select the affected units; None if events are counted.
    is_problem: whether something may be missing from the figures, so that there is something to do.
    """

    count: int
    words: str
    meaning: str
    quality: str | None = None
    property: str | None = None
    is_problem: bool = False


def quality(context: ReportContext) -> dict[str, Any]:
    report = context.report
    return {"issues": _issues(context.page, report), "impossible": report.impossible_steps}


def count_problems(context: ReportContext) -> int:
    """Return the number of different problems, for the badge of the tab.

    Issues that call for nothing, such as unknown values at entry, do not count.
    """
    report = context.report
    present = [issue for issue in _issues(context.page, report) if issue.count]
    return sum(issue.is_problem for issue in present) + len(report.impossible_steps)


QUALITIES = {
    "sequenceSkip": "with an event skipped by sequence number",
    "unorderedTie": "with an unordered tie",
    "invalidSequenceValue": "with an invalid sequence number",
    "orderingIssue": "with uncertain event order",
    "tiedEntry": "with tied entries",
    "unknownEntryValue": "with no entry value",
    "conflict": "with a later, different value",
    "severalVisitors": "with events from several visitors",
    "overLimit": "with more events than the limit per unit",
    "assumedOrder": "with an assumed order of events",
    "coarseTime": "with a provider event in the second of another event",
}
"""Phrases about units with an issue, by the condition that selects them."""


def _issues(page: FunnelPage, results: ResultsRecord) -> list[DataQualityIssue]:
    numbers = results.data_quality
    is_attempt_funnel = page.definition.counting_unit == "attempt"

    def units(
        quality: str, count: int, meaning: str, *, is_problem: bool = False
    ) -> DataQualityIssue:
        words = f"{page.noun(count)} {QUALITIES[quality]}"
        return DataQualityIssue(count, words, meaning, quality, is_problem=is_problem)

    def events(count: int) -> str:
        return "event" if count == 1 else "events"

    issues = [
        units(
            "orderingIssue",
            numbers.units_with_ordering_issues,
            "At least one of the next three problems.",
        ),
        DataQualityIssue(
            numbers.sequence_skips,
            f"{events(numbers.sequence_skips)} skipped by sequence number",
            "Their number was not greater than the last accepted one.",
            "sequenceSkip",
            is_problem=True,
        ),
        DataQualityIssue(
            numbers.unordered_ties,
            f"{events(numbers.unordered_ties)} skipped as unordered ties",
            "They have the same time as the previous step, and no sequence number proves their "
            "order."
            + (
                ""
                if is_attempt_funnel
                else " If the times are whole seconds, edit the funnel to count equal times in the "
                "order of the steps."
            ),
            "unorderedTie",
            is_problem=True,
        ),
        DataQualityIssue(
            numbers.invalid_sequence_values,
            f"{events(numbers.invalid_sequence_values)} with an invalid sequence number",
            "Sequence numbers must be whole numbers, 0 or greater.",
            "invalidSequenceValue",
            is_problem=True,
        ),
        units(
            "tiedEntry",
            numbers.tied_entries,
            "They have several entries at the same time. Values that differ count as Unknown.",
        ),
        DataQualityIssue(
            numbers.assumed_order,
            f"{events(numbers.assumed_order)} in an assumed order",
            "They have the same time as the previous step, and this funnel counts equal times in "
            "the order of the steps.",
            "assumedOrder",
        ),
        DataQualityIssue(
            numbers.coarse_times,
            f"provider {events(numbers.coarse_times)} in the second of another event",
            "The provider sends whole seconds. Step 1 uses the start of the second, later steps "
            "its end.",
            "coarseTime",
        ),
        units(
            "overLimit",
            numbers.units_over_limit,
            f"Only the first {MAX_UNIT_EVENTS:,} matching events, or the first entries, count.",
            is_problem=True,
        ),
    ]
    # The property name comes last, so that right-to-left text cannot affect other text.
    for name, count in numbers.unknown_entry_values.items():
        words = f"{page.noun(count)} entered without {page.property_name(name)}"
        issues.append(
            DataQualityIssue(count, words, "They count as Unknown.", "unknownEntryValue", name)
        )
    for name, count in numbers.conflicting_entry_values.items():
        words = f"{page.noun(count)} with a later, different {page.property_name(name)}"
        issues.append(
            DataQualityIssue(count, words, "They stay in their entry cohort.", "conflict", name)
        )
    if is_attempt_funnel:
        issues += [
            units(
                "severalVisitors", numbers.attempts_with_several_visitors, "Each is counted once."
            ),
            DataQualityIssue(
                numbers.events_without_attempt_id,
                f"{events(numbers.events_without_attempt_id)} without an attempt ID",
                "They match a step but are not counted: they have no "
                f"{listed(page.definition.attempt_keys)}.",
                is_problem=True,
            ),
            DataQualityIssue(
                numbers.unverified_provider_events,
                f"unverified provider {events(numbers.unverified_provider_events)}",
                "They are not counted: they have no verified link to a visitor of the attempt.",
                is_problem=True,
            ),
        ]
    issues.append(
        DataQualityIssue(
            numbers.lost_on_devices,
            f"{events(numbers.lost_on_devices)} lost on devices",
            "Clients dropped these because their queues were full. They are not in any report.",
            is_problem=True,
        )
    )
    return issues
