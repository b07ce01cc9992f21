"""The history that a response is based on. Source: interface, rule 16; semantics, "Coverage"."""

from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from penstock.base.clock import iso, iso_or_none
from penstock.base.gaps import Gap
from penstock.base.ids import WebsiteId, WorkspaceId
from penstock.funnels.definitions.model import Definition, MatchType
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.provenance import Provenance
from penstock.funnels.queries.schema import CoverageRecord, GapRecord, NoteCode
from penstock.funnels.statements.query import DataProfile, QueryParams

ReadGaps = Callable[[WorkspaceId, Collection[WebsiteId]], Iterable[Gap]]
"""A function that reads the gaps of the given websites, oldest first."""


_TOLERATED_AHEAD_MS = 300_000
"""Time by which a sender's clock may run ahead without a note, in milliseconds."""


class Note(NamedTuple):
    """A sentence about the coverage, and its code."""

    code: NoteCode
    text: str


def coverage_of(
    context: QueryContext,
    provenance: Provenance,
    gaps: Iterable[Gap],
    open_windows: int,
    remarks: Iterable[Note] = (),
) -> CoverageRecord:
    """Return the coverage of a response.

    open_windows: number of units whose window is open. remarks: further notes, which do not make
    the response incomplete.
    """
    params, definition, profile = context.params, context.definition, context.profile
    of_kinds = [gap for gap in gaps if gap.event_kind in (None, *_kinds(definition))]
    relevant = [gap for gap in of_kinds if _overlaps(gap, params, definition)]
    qualifications = [
        *_gap_notes(relevant),
        *_history_notes(params, profile),
        *_future_notes(params, profile),
        *_open_window_notes(definition, open_windows),
        *_run_notes(of_kinds, params, definition),
    ]
    if not provenance.is_fresh:
        text = "The newest events may not be counted yet; repeat the request."
        qualifications.append(Note(NoteCode.NOT_FRESH, text))
    notes = [*qualifications, *_remarks(definition, relevant, open_windows), *remarks]
    return CoverageRecord(
        complete=not qualifications,
        first_event_at=iso_or_none(profile.first_event_ms),
        last_event_at=iso_or_none(profile.last_event_ms),
        period_begins_before_history=_begins_before_history(params, profile),
        open_windows=open_windows,
        gaps=[
            GapRecord.from_object(gap, from_=gap.from_ms)
            for gap in relevant
            if gap.note  # a complete import has no note
        ],
        notes=[note.text for note in notes],
        note_codes=[note.code for note in notes],
    )


def _kinds(definition: Definition) -> set[str]:
    """Return the kinds of event that a funnel reads, as spelled in the warehouse."""
    types = {match.type for row in definition.rows for match in row.matches}
    if definition.read_touches:
        types = set(MatchType)  # any event may be a touch
    return {match_type.value.replace(" ", "").lower() for match_type in types}


def _gap_notes(gaps: Iterable[Gap]) -> list[Note]:
    """Return the notes of all gaps. A note that several gaps share appears once."""
    notes = (
        Note(NoteCode.LOSS if gap.kind == "loss" else NoteCode.GAP, gap.note)
        for gap in gaps
        if gap.note and gap.dismissed_at_ms is None
    )
    return list(dict.fromkeys(notes))


def _history_notes(params: QueryParams, profile: DataProfile) -> Iterator[Note]:
    if profile.first_event_ms is None:
        yield Note(NoteCode.NO_EVENTS, "No events are retained yet.")
    elif _begins_before_history(params, profile):
        yield Note(NoteCode.SHORT_HISTORY, _short_history(profile))


def _future_notes(params: QueryParams, profile: DataProfile) -> Iterator[Note]:
    """Note events too far in the future, which suggest that the server's clock was ahead.

    Senders' clocks may run a little ahead.
    """
    last_ms = profile.future_until_ms
    if last_ms is not None and last_ms > params.evaluated_at_ms + _TOLERATED_AHEAD_MS:
        text = (
            f"Some events have times in the future, up to {iso(last_ms)}: probably the server's "
            "clock was ahead when they arrived. They count once their time has come."
        )
        yield Note(NoteCode.FUTURE_EVENTS, text)


def _short_history(profile: DataProfile) -> str:
    if profile.history_start_ms is None:
        return "The period begins before history: no event near or after its start is retained."
    if profile.history_start_ms == profile.first_event_ms:
        first_at = iso(profile.history_start_ms)
        return f"The period begins before the first retained event, which occurred at {first_at}."
    return (
        "The period begins before history: no event is retained from the two years before "
        f"{iso(profile.history_start_ms)}."
    )


def _begins_before_history(params: QueryParams, profile: DataProfile) -> bool:
    """Whether no event is retained from the two years before the period's start.

    Older events are ignored, because one event with a wrong time would hide that history is short.
    """
    if params.start_ms is None:
        return False
    return profile.history_start_ms is None or params.start_ms < profile.history_start_ms


def _open_window_notes(definition: Definition, open_windows: int) -> Iterator[Note]:
    if open_windows and definition.window_s is not None:
        units = definition.units(open_windows)
        text = f"{units} still in progress."
        yield Note(NoteCode.OPEN_WINDOWS, text)


def _remarks(definition: Definition, gaps: Iterable[Gap], open_windows: int) -> Iterator[Note]:
    """Yield notes about the response that do not make it incomplete."""
    if not definition.is_by_entry:
        yield Note(NoteCode.BREAKDOWN_AT, _breakdown_words(definition))
    if open_windows and definition.window_s is None:
        yield Note(NoteCode.NO_WINDOW, "No conversion window: unfinished visitors stay pending.")
    texts = (
        f"{gap.note} An owner dismissed this gap on {_date(gap.dismissed_at_ms)}."
        for gap in gaps
        if gap.note and gap.dismissed_at_ms is not None
    )
    yield from (Note(NoteCode.DISMISSED_GAP, text) for text in dict.fromkeys(texts))


def _breakdown_words(definition: Definition) -> str:
    """Say which event gives the values of the cohorts, and what follows for their rates."""
    at = definition.breakdown_at
    if not isinstance(at, int):
        return f"Cohorts are by the {at} accepted event that has the property, not by the entry."
    return (
        f"Cohorts are by the values at step {at}, not at the entry. The rates of a cohort are over "
        f"units that reached step {at}; Unknown also contains units that did not."
    )


def _run_notes(gaps: Iterable[Gap], params: QueryParams, definition: Definition) -> Iterator[Note]:
    """Note that runs may shift, because each begins after the end of the previous one."""
    if definition.repeat and any(
        gap.note and gap.kind != "import" and _begins_in_time(gap, params, definition)
        for gap in gaps
    ):
        text = (
            "Earlier events were removed, so runs may begin at other events than before: each "
            "begins after the end of the one before it."
        )
        yield Note(NoteCode.RUNS_SHIFT, text)


def _date(at_ms: int) -> str:
    """Format a UTC date like `22 Nov 2026`."""
    date = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{date.day} {date:%b %Y}"


def _overlaps(gap: Gap, params: QueryParams, definition: Definition) -> bool:
    """Whether a gap overlaps the span [startAt, endAt + window] that the query reads.

    Touches and first times are read from the beginning of history.
    """
    if params.start_ms is None or params.end_ms is None:
        return True
    _, last_ms = gap.affected_range
    reads_history = bool(definition.read_touches) or definition.finds_first_times
    is_read = last_ms >= params.start_ms or reads_history
    return is_read and _begins_in_time(gap, params, definition)


def _begins_in_time(gap: Gap, params: QueryParams, definition: Definition) -> bool:
    """Whether a gap begins before the last time that the query reads."""
    if params.end_ms is None or definition.window_s is None:
        return True
    return gap.affected_range[0] <= params.end_ms + definition.window_s * 1000
