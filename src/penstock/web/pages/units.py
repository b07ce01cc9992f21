"""Who is behind a number of a report, and the trace of one of them."""

from typing import Any

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.base.clock import parse_time
from penstock.funnels.results.schema import PeriodQuery
from penstock.funnels.units.routes import unit_in_path
from penstock.funnels.units.schema import TraceRecord, UnitsQuery
from penstock.funnels.units.service import UnitService
from penstock.funnels.units.trace import Decision
from penstock.funnels.units.tracing import TraceService
from penstock.jobs.answered import Answered
from penstock.web.pages.asked import PeriodAsked
from penstock.web.pages.subject import Subject, Subjects, part_of
from penstock.web.view import View

_CONDITIONS = ("step", "option", "outcome", "diagnostic", "quality", "property", "cursor")

DECISIONS: dict[Decision, tuple[str, str]] = {
    Decision.ENTRY: ("Entry", "info"),
    Decision.ACCEPTED: ("Accepted", "good"),
    Decision.SEQUENCE_SKIP: ("Skipped by its number", "warn"),
    Decision.UNORDERED_TIE: ("Order not proven", "warn"),
    Decision.OUTSIDE_WINDOW: ("Outside the window", "warn"),
    Decision.NO_MATCH: ("Not wanted", ""),
    Decision.UNVERIFIED_PROVIDER: ("Provider not verified", "warn"),
    Decision.DIAGNOSTIC: ("Diagnostic", "info"),
}
"""Each decision in a word or two, with the tone of its badge."""

_QUALITIES = {
    "sequenceSkip": "with an event skipped for its sequence number",
    "unorderedTie": "with an unordered tie",
    "invalidSequenceValue": "with an unusable sequence number",
    "orderingIssue": "with an order that is in doubt",
    "tiedEntry": "with several entries at one time",
    "unknownEntryValue": "without a value at entry",
    "conflict": "with another value later on",
    "severalVisitors": "with events of several visitors",
}


@get("/funnels/{funnel_id:str}/units")
async def units(
    view: NamedDependency[View],
    funnel_id: FromPath[str],
    subjects: NamedDependency[Subjects],
    units: NamedDependency[UnitService],
    answered: NamedDependency[Answered],
) -> Response[bytes]:
    def made() -> Response[bytes]:
        subject = subjects.of(funnel_id, view.query(PeriodAsked))
        wanted = view.query(UnitsQuery)
        told = wanted.model_dump(include=set(_CONDITIONS), exclude_none=True, mode="json")
        query = UnitsQuery.model_validate({**subject.parameters(), **told})
        return view.render(
            "report/units.html",
            parts=("list",),
            report=subject,
            wanted=wanted,
            told={name: value for name, value in told.items() if name != "cursor"},
            words=_in_words(subject, wanted),
            found=part_of(view, "list", lambda: units.units(view.workspace_id, funnel_id, query)),
        )

    return await answered(made)


def _in_words(subject: Subject, wanted: UnitsQuery) -> str:
    """Which units a list has, as `Attempts that reached step 2`."""
    phrases = []
    step = wanted.step
    if step is not None:
        row = subject.required[step - 1] if step <= len(subject.required) else None
        name = f"step {step}" + (f", {row.value}" if row else "")
        stopped = {"pending": f"that are at {name}, and may go on", "droppedOff": f"that dropped off after {name}"}
        phrases.append(stopped.get(wanted.outcome or "", f"that reached {name}"))
        if row and wanted.option is not None and wanted.option <= len(row.or_):
            phrases.append(f"by {[row, *row.or_][wanted.option].value}")
    if wanted.outcome and (step is None or wanted.outcome == "completed"):
        outcomes = {"completed": "that completed the funnel", "pending": "that may still complete", "droppedOff": "that dropped off"}
        phrases.append(outcomes[wanted.outcome])
    if wanted.diagnostic is not None and wanted.diagnostic < len(subject.definition.steps):
        phrases.append(f"with {subject.definition.steps[wanted.diagnostic].value}")
    if wanted.quality:
        phrases.append(_QUALITIES[wanted.quality] + (f" of {wanted.property}" if wanted.property else ""))
    return " ".join([subject.noun().capitalize(), *(phrases or ["that entered"])])


@get("/funnels/{funnel_id:str}/units/{unit:path}")
async def trace(
    view: NamedDependency[View],
    funnel_id: FromPath[str],
    subjects: NamedDependency[Subjects],
    traces: NamedDependency[TraceService],
    answered: NamedDependency[Answered],
) -> Response[bytes]:
    def made() -> Response[bytes]:
        subject = subjects.of(funnel_id, view.query(PeriodAsked))
        unit = unit_in_path(view.request)
        query = PeriodQuery.model_validate(subject.parameters(cohort=False))
        return view.render(
            "report/trace.html",
            parts=("timeline",),
            report=subject,
            unit=unit,
            decisions=DECISIONS,
            found=part_of(view, "timeline", lambda: _timeline(traces.trace(view.workspace_id, funnel_id, query, unit))),
        )

    return await answered(made)


def _timeline(record: TraceRecord) -> dict[str, Any]:
    """A trace, and for each event the seconds since the entry; None before it."""
    entry_ms = None if record.entry_at is None else parse_time(record.entry_at)
    since = [None if entry_ms is None else (parse_time(one.occurred_at) - entry_ms) / 1000 for one in record.events]
    return {"trace": record, "events": list(zip(record.events, since, strict=True))}


ROUTES = (units, trace)
