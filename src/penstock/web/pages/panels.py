"""What the parts of a report show: answers of the services as the API gives them, with what the eye needs beside."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.base.clock import parse_time
from penstock.base.errors import Malformed
from penstock.base.ids import WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.funnels.comparisons.schema import CompareQuery, ComparisonRecord
from penstock.funnels.comparisons.service import CompareService
from penstock.funnels.insights.schema import DurationsRecord, NextQuery, TimingQuery, TrendBucketRecord, TrendQuery
from penstock.funnels.insights.service import InsightService
from penstock.funnels.results.schema import DiagnosticRecord, ResultsQuery, ResultsRecord, StepRecord
from penstock.funnels.results.service import ResultsService
from penstock.web.pages.asked import ReportAsked, Show
from penstock.web.pages.subject import Subject

Parts = list[tuple[str, float]]
"""Of a bar, as `ui.bar` takes them."""


@dataclass(frozen=True, slots=True)
class Sources:
    """What is asked, and who answers."""

    workspace_id: WorkspaceId
    funnel_id: str
    subject: Subject
    asked: ReportAsked
    results: ResultsService
    insights: InsightService
    comparisons: CompareService

    def result(self, **more: Any) -> ResultsRecord:
        query = ResultsQuery.model_validate(self.subject.parameters(**more))
        return self.results.results(self.workspace_id, self.funnel_id, query)


@dataclass(frozen=True, slots=True)
class Bar:
    """One step. parts: of the bar. median_s: from the step before. options: name and count, where there are several."""

    step: StepRecord
    parts: Parts
    median_s: float | None
    options: Sequence[tuple[int, str, int]]
    filters: int
    all_of: bool
    diagnostics: Sequence[DiagnosticRecord]


def overview(sources: Sources) -> dict[str, Any]:
    """The figures and the bars, with the median time of each step."""
    results = sources.result(pageSize=1)
    timing = sources.insights.timing(sources.workspace_id, sources.funnel_id, TimingQuery.model_validate(sources.subject.parameters()))
    medians = [None, *(one.median_minutes for one in timing.steps)]
    bars = [_bar(sources, results, at, _seconds(median)) for at, median in enumerate(medians)]
    return {"results": results, "bars": bars}


def _bar(sources: Sources, results: ResultsRecord, at: int, median_s: float | None) -> Bar:
    steps = results.aggregate.steps
    step = steps[at]
    row = sources.subject.definition.steps[step.row]
    names = [row.value, *(one.value for one in row.or_)]
    parts = _against_all(steps, at) if sources.asked.bars == "overall" else _against_previous(steps, at)
    return Bar(
        step=step,
        parts=parts,
        median_s=median_s,
        options=[(one.option, names[one.option], one.count) for one in step.options] if len(names) > 1 else [],
        filters=len(row.filters),
        all_of=row.mode is not None,
        diagnostics=[one for one in results.aggregate.diagnostics if one.after_step == step.step],
    )


def _against_all(steps: Sequence[StepRecord], at: int) -> Parts:
    """Of all who entered: who reached the step, who may still, who dropped off before it."""
    earlier = steps[:at]
    return _parts(steps[0].count, steps[at].count, sum(one.pending for one in earlier), sum(one.dropped_off for one in earlier))


def _against_previous(steps: Sequence[StepRecord], at: int) -> Parts:
    """Of those at the step before: who reached this one, who may still, who dropped off."""
    if at == 0:
        return _against_all(steps, 0)
    before = steps[at - 1]
    return _parts(before.count, steps[at].count, before.pending, before.dropped_off)


def _parts(whole: int, reached: int, pending: int, dropped: int) -> Parts:
    if not whole:
        return []
    return [("reached", reached / whole), ("pending", pending / whole), ("dropped", dropped / whole)]


def _seconds(minutes: float | None) -> float | None:
    return None if minutes is None else minutes * 60


def cohorts(sources: Sources) -> dict[str, Any]:
    asked = sources.asked
    results = sources.result(page=asked.page, pageSize=asked.page_size, sort=asked.sort, order=asked.order)
    found = Listing(results.cohorts.data, Page(asked.page, asked.page_size), results.cohorts.total)
    return {"found": found, "properties": sources.subject.definition.breakdown_properties}


def trend(sources: Sources) -> dict[str, Any]:
    asked = sources.asked
    more: dict[str, Any] = {"interval": asked.interval, "timezone": asked.timezone}
    query = TrendQuery.model_validate(sources.subject.parameters(**more))
    found = sources.insights.trend(sources.workspace_id, sources.funnel_id, query)
    series = _rates(found.data) if asked.measure == "rate" else _counts(found.data)
    chart = {"times": [parse_time(one.from_) // 1000 for one in found.data], "series": series, "zone": asked.timezone}
    return {"found": found, "chart": chart, "more": more}


def _rates(buckets: Sequence[TrendBucketRecord]) -> list[dict[str, Any]]:
    """Two lines that meet: what is settled, and dashed what may still rise."""
    first = next((at for at, one in enumerate(buckets) if one.maturing), len(buckets))
    settled = [one.conversion_rate if at < first else None for at, one in enumerate(buckets)]
    maturing = [one.conversion_rate if at >= first - 1 else None for at, one in enumerate(buckets)]
    lines: list[dict[str, Any]] = [{"label": "Conversion rate", "values": settled, "style": "percent"}]
    if first < len(buckets):
        lines.append({"label": "May still rise", "values": maturing, "style": "percent", "colour": "series-1", "dashed": True})
    return lines


def _counts(buckets: Sequence[TrendBucketRecord]) -> list[dict[str, Any]]:
    told = {"Entered": "entered", "Completed": "completed", "Pending": "pending"}
    return [{"label": label, "values": [getattr(one, name) for one in buckets], "style": "number"} for label, name in told.items()]


def times(sources: Sources) -> dict[str, Any]:
    n = len(sources.subject.required)
    pair = _pair(sources.asked.pair, n)
    more: dict[str, Any] = {} if pair is None else {"from": pair[0], "to": pair[1]}
    found = sources.insights.timing(sources.workspace_id, sources.funnel_id, TimingQuery.model_validate(sources.subject.parameters(**more)))
    chosen = found.asked or found.overall
    return {"found": found, "chosen": chosen, "bins": _bins(chosen), "pair": pair or (1, n), "more": more}


def _pair(text: str | None, n: int) -> tuple[int, int] | None:
    """Two steps of a funnel with n, or None where the text names none."""
    first, _, last = (text or "").partition("-")
    if not last or not 1 <= int(first) < int(last) <= n:
        return None
    return int(first), int(last)


def _bins(chosen: DurationsRecord) -> list[tuple[float, float | None, int, float, float]]:
    """Of a histogram: from and to in seconds, units, their share of all and of the highest bin."""
    most = max((one.units for one in chosen.histogram), default=0)
    return [
        (one.from_minutes * 60, _seconds(one.to_minutes), one.units, one.units / chosen.units, one.units / most) for one in chosen.histogram
    ]


@dataclass(frozen=True, slots=True)
class Scale:
    """From rates to places on a drawing, 0 to 1."""

    low: float
    high: float

    def at(self, rate: float) -> float:
        return min(1.0, max(0.0, (rate - self.low) / (self.high - self.low)))


def compare(sources: Sources) -> dict[str, Any]:
    asked, properties = sources.asked, sources.subject.definition.breakdown_properties
    chosen = asked.property_ if asked.property_ in properties else properties[0]
    more: dict[str, Any] = {"property": chosen, "baseline": asked.baseline if chosen == asked.property_ else None}
    try:
        found = _compared(sources, more)
    except Malformed:  # a baseline that nobody has in this period: the most entered takes its place
        more["baseline"] = None
        found = _compared(sources, more)
    return {"found": found, "property": chosen, "choices": [(name, name) for name in properties], "scale": _scale(found), "more": more}


def _compared(sources: Sources, more: Mapping[str, Any]) -> ComparisonRecord:
    query = CompareQuery.model_validate(sources.subject.parameters(cohort=False, **more))
    return sources.comparisons.compare(sources.workspace_id, sources.funnel_id, query)


def _scale(found: ComparisonRecord) -> Scale:
    """Holds every interval, with a little room on both sides."""
    low = min((one.rate_interval.lower for one in found.cohorts), default=0.0)
    high = max((one.rate_interval.upper for one in found.cohorts), default=1.0)
    room = max(high - low, 0.01) * 0.05
    return Scale(low - room, high + room)


def came_next(sources: Sources) -> dict[str, Any]:
    n = len(sources.subject.required)
    more: dict[str, Any] = {
        "step": min(sources.asked.step, n - 1),
        "outcome": None if sources.asked.outcome == "both" else sources.asked.outcome,
    }
    found = sources.insights.next(sources.workspace_id, sources.funnel_id, NextQuery.model_validate(sources.subject.parameters(**more)))
    return {"found": found, "more": more}


@dataclass(frozen=True, slots=True)
class Trouble:
    """A number of data quality. quality, property: that find its units; None where events are counted. words: after the number."""

    count: int
    words: str
    meaning: str
    quality: str | None = None
    property: str | None = None


def quality(sources: Sources) -> dict[str, Any]:
    results = sources.result(pageSize=1)
    return {"results": results, "troubles": list(_troubles(sources.subject, results))}


def _troubles(subject: Subject, results: ResultsRecord) -> list[Trouble]:
    told, noun = results.data_quality, subject.noun
    attempts = subject.definition.counting_unit == "attempt"

    def events(count: int) -> str:
        return "event" if count == 1 else "events"

    ordering, severals = told.units_with_ordering_issues, told.attempts_with_several_visitors
    found = [
        Trouble(ordering, f"{noun(ordering)} with an order that is in doubt", "At least one of the next three.", "orderingIssue"),
        Trouble(
            told.sequence_skips, f"{events(told.sequence_skips)} passed over for the sequence number",
            "The number was not greater than the last accepted one.", "sequenceSkip",
        ),
        Trouble(
            told.unordered_ties, f"{events(told.unordered_ties)} passed over as unordered ties",
            "Nothing proves that they came after the step before: the time is the same, and no sequence numbers tell.", "unorderedTie",
        ),
        Trouble(
            told.invalid_sequence_values, f"{events(told.invalid_sequence_values)} with an unusable sequence number",
            "It must be a whole number from 0 on.", "invalidSequenceValue",
        ),
        Trouble(
            told.tied_entries, f"{noun(told.tied_entries)} with several entries at one time",
            "Their cohort is what these entries agree on, and missing where they differ.", "tiedEntry",
        ),
    ]  # fmt: skip
    # A name that people chose stands last: one that turns the direction of text turns nothing behind it.
    for name, count in told.unknown_entry_values.items():
        found.append(Trouble(count, f"{noun(count)} entered without {name}", "They are counted as Unknown.", "unknownEntryValue", name))
    for name, count in told.conflicting_entry_values.items():
        words = f"{noun(count)} later seen with another {name}"
        found.append(Trouble(count, words, "They stay in the cohort of their entry.", "conflict", name))
    if attempts:
        found += [
            Trouble(severals, f"{noun(severals)} with events of several visitors", "They count once.", "severalVisitors"),
            Trouble(
                told.events_without_attempt_id, f"{events(told.events_without_attempt_id)} without an attempt ID",
                f"They fulfil a step, but no attempt can have them: they carry no {subject.definition.attempt_property}",
            ),
            Trouble(
                told.unverified_provider_events, f"{events(told.unverified_provider_events)} of payment providers left out",
                "Their link to a visitor of the attempt is not verified.",
            ),
        ]  # fmt: skip
    return found


DETAILS: Mapping[Show, Callable[[Sources], dict[str, Any]]] = {
    Show.COHORTS: cohorts,
    Show.TREND: trend,
    Show.TIMES: times,
    Show.COMPARE: compare,
    Show.NEXT: came_next,
    Show.QUALITY: quality,
}
