"""What history an answer stands on. Source: interface, rule 16; funnel semantics, "Coverage"."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from penstock.base.clock import iso, iso_or_none
from penstock.base.ids import WebsiteId, WorkspaceId
from penstock.funnels.definitions.model import Definition
from penstock.funnels.results.schema import CoverageRecord, GapRecord
from penstock.funnels.statements.query import Facts, Question


@dataclass(frozen=True, slots=True)
class Gap:
    """Something that changed a website's history. from_ms, to_ms: the events it touched. at_ms: when it was asked for.

    reach: the first and last moment of which it touched something, or may have left something out.
    note: what it leaves open, in a sentence; None when it is done and whole. A note that several share is told once.
    """

    kind: str
    website_id: WebsiteId
    from_ms: int
    to_ms: int
    reach: tuple[int, int]
    at_ms: int
    state: str
    note: str | None


ReadGaps = Callable[[WorkspaceId, Collection[WebsiteId]], Iterable[Gap]]
"""Tells the gaps of some websites; the rooms that make them are put together in `penstock.app`."""


def coverage_of(
    question: Question, definition: Definition, facts: Facts, gaps: Iterable[Gap], open_windows: int, *, fresh: bool
) -> CoverageRecord:
    """Coverage of one answer. fresh: whether everything that was acknowledged before the question could be read."""
    touching = [gap for gap in gaps if _touches(gap, question, definition.window_s)]
    too_early = question.start_ms is not None and (facts.first_event_ms is None or question.start_ms < facts.first_event_ms)
    notes = list(dict.fromkeys(gap.note for gap in touching if gap.note))
    if facts.first_event_ms is None:
        notes.append("No events are retained yet.")
    elif too_early:
        notes.append(f"The period begins before the first retained event, which occurred at {iso(facts.first_event_ms)}.")
    if open_windows:
        notes.append(f"{definition.units(open_windows)} may still complete: the conversion window is open.")
    if not fresh:
        notes.append("Events acknowledged in the last moments may not be counted yet; ask again.")
    return CoverageRecord(
        complete=not notes,
        first_event_at=iso_or_none(facts.first_event_ms),
        last_event_at=iso_or_none(facts.last_event_ms),
        period_begins_before_history=too_early,
        open_windows=open_windows,
        gaps=[
            GapRecord(
                kind=gap.kind, website_id=gap.website_id, from_=iso(gap.from_ms), to=iso(gap.to_ms), at=iso(gap.at_ms), state=gap.state
            )
            for gap in touching
        ],
        notes=notes,
    )


def _touches(gap: Gap, question: Question, window_s: int | None) -> bool:
    """Whether a gap overlaps the span [startAt, endAt + window] that the answer reads."""
    if question.start_ms is None or question.end_ms is None:
        return True
    first_ms, last_ms = gap.reach
    begins_in_time = window_s is None or first_ms <= question.end_ms + window_s * 1000
    return begins_in_time and last_ms >= question.start_ms
