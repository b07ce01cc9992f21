"""The units behind a number in a report, and the trace of one unit."""

from typing import Any, assert_never

from litestar import Response
from pydantic import MISSING

from penstock.base.clock import parse_time
from penstock.base.wording import listed
from penstock.funnels.definitions.titles import row_title
from penstock.funnels.other_tools.rules import TOOLS, Switch
from penstock.funnels.other_tools.schema import LikeQuery
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.questions import UNITS
from penstock.funnels.results.schema import ReportQuery
from penstock.funnels.routes import unit_in_path
from penstock.funnels.statements.units import Outcome
from penstock.funnels.units.path import Decision
from penstock.funnels.units.schema import TraceQuery, TraceRecord, UnitsQuery, only_step
from penstock.funnels.units.trace_reader import trace_of
from penstock.web.page_routes import slow_page
from penstock.web.pages.funnel_page import FunnelPage, FunnelPages
from penstock.web.pages.parts import load_part
from penstock.web.pages.report.panels.quality import QUALITIES
from penstock.web.pages.schema import UnitsPageQuery
from penstock.web.view import View

_CONDITIONS = {
    "step", "option", "outcome", "diagnostic", "quality", "property", "event_name", "event_type",
    "has_event", "of", "sort", "order", "count_like", "mode", "differs", "reason",
}  # fmt: skip
"""Parameters that select and order units."""

_SORTS = {"entry": "Entry", "completion": "Completion", "lastActivity": "Last activity"}

_RULES: dict[str, str] = {
    Switch.ENTRIES: "entries",
    Switch.TIES: "equal times",
    Switch.AFTER_END: "steps after the period",
    Switch.NUMBERS: "sequence numbers",
    Switch.ONE_EVENT: "events of several steps",
    Switch.EXCLUDED: "exclusions",
    Switch.STRICT: "strict order",
    "several": "more than two rules",
}
"""Words for the rules in the name of a reason."""

DECISIONS: dict[Decision, tuple[str, str]] = {
    Decision.ENTRY: ("Entry", "info"),
    Decision.ACCEPTED: ("Accepted", "good"),
    Decision.SEQUENCE_SKIP: ("Skipped: sequence number", "warn"),
    Decision.UNORDERED_TIE: ("Skipped: unordered tie", "warn"),
    Decision.OUTSIDE_WINDOW: ("Outside window", "warn"),
    Decision.NO_MATCH: ("No match", ""),
    Decision.UNVERIFIED_PROVIDER: ("Unverified provider", "warn"),
    Decision.DIAGNOSTIC: ("Diagnostic", "info"),
    Decision.EXCLUSION: ("Excludes", "warn"),
}
"""Text and colour of the badge of each decision."""


@slow_page("/funnels/{funnel_id:str}/units")
def units(
    view: View, funnel_id: str, funnel_pages: FunnelPages, funnel_queries: FunnelQueryRunner
) -> Response[bytes]:
    page = funnel_pages.load(funnel_id, view.query(UnitsPageQuery, view.websites))
    query = view.query(UnitsQuery)
    sent = query.model_dump(include=_CONDITIONS, exclude_defaults=True, by_alias=True, mode="json")
    conditions = {
        name: ",".join(map(str, value)) if isinstance(value, list) else value
        for name, value in sent.items()
    }

    def load() -> Any:
        cursor = {"cursor": query.cursor} if query.cursor else {}
        parameters = {**page.parameters(), **conditions, **cursor}
        full_query = UnitsQuery.model_validate(parameters)
        return UNITS.ask(funnel_queries, view.workspace_id, funnel_id, full_query)

    return view.render(
        "report/units.html",
        parts=("list",),
        report=page,
        query=query,
        conditions=conditions,
        outcomes=_outcomes(page),
        sorts=_SORTS,
        title=_title(page, query),
        only_step=only_step(query),
        event_in_words=_event_in_words(page, query),
        like=_like(query),
        tools=TOOLS,
        list_part=load_part(view, "list", load),
    )


def _like(query: LikeQuery) -> dict[str, str]:
    """Return the parameters that name another tool and its modes; empty without one."""
    if query.count_like is None:
        return {}
    mode = {"mode": ",".join(query.mode)} if query.mode else {}
    return {"countLike": query.count_like.value, **mode}


def _outcomes(page: FunnelPage) -> dict[str, str]:
    """Return the outcomes that units of the funnel can have, with their names."""
    outcomes = [outcome for outcome in Outcome if page.excludes or outcome != Outcome.EXCLUDED]
    return {outcome.value: page.outcome(outcome) for outcome in outcomes}


def _title(page: FunnelPage, query: UnitsQuery) -> str:
    """Describe a list's conditions in words, such as `Attempts that reached step 2`."""
    phrases = []
    that, step = page.who, only_step(query)
    if len(query.step or ()) > 1 or len(query.outcome or ()) > 1:
        phrases.append(_several(page, query))
    else:
        outcome = query.outcome[0].value if query.outcome else None
        phrases += _stopped(page, step, outcome)
    row = page.required_steps[step - 1] if step and step <= len(page.required_steps) else None
    if row and query.option is not None and query.option <= len(row.or_):
        phrases.append(f"by {[row, *row.or_][query.option].value}")
    if query.diagnostic is not None and query.diagnostic < len(page.definition.steps):
        phrases.append(f"with {row_title(page.definition.steps[query.diagnostic])}")
    if query.quality:
        suffix = f" for {query.property}" if query.property else ""
        phrases.append(QUALITIES[query.quality] + suffix)
    tool = TOOLS.get(query.count_like) if query.count_like else None
    if query.differs and tool is not None:
        reason = f": {_rules_in_words(query.reason)}" if query.reason else ""
        phrases.append(f"that {tool.name} counts in another way{reason}")
    return " ".join([page.noun().capitalize(), *(phrases or [f"{that} entered"])])


def _rules_in_words(reason: str) -> str:
    """Return the rules of a reason, such as `equal times or sequence numbers`."""
    words = reason.replace("-or-", " or ").replace("-and-", " and ").split()
    return " ".join(_RULES.get(word, word) for word in words)


def _several(page: FunnelPage, query: UnitsQuery) -> str:
    """Describe several outcomes or steps, such as `pending or dropped off at step 2 or 3`."""
    steps = f"step {listed([str(step) for step in sorted(query.step)], 'or')}" if query.step else ""
    if not query.outcome:
        return f"{page.who} reached {steps}"
    outcomes = listed([page.outcome(each).lower() for each in query.outcome], "or")
    return f"{outcomes} at {steps}" if steps else outcomes


def _stopped(page: FunnelPage, step: int | None, outcome: str | None) -> list[str]:
    """Describe at most one step and at most one outcome."""
    phrases, that = [], page.who
    outcomes = {
        "completed": f"{that} completed the funnel",
        "pending": f"{that} are pending" if page.has_window else f"{that} have not converted",
        "droppedOff": f"{that} dropped off",
        "excluded": f"{that} were excluded",
    }
    if step is not None:
        row = page.required_steps[step - 1] if step <= len(page.required_steps) else None
        name = f"step {step}" + (f", {row_title(row)}" if row else "")
        stopped = {
            "pending": f"pending at {name}" if page.has_window else f"{that} stopped at {name}",
            "droppedOff": f"{that} dropped off after {name}",
            "excluded": f"{that} were excluded after {name}",
        }
        phrases.append(stopped.get(outcome or "", f"{that} reached {name}"))
    if outcome and (step is None or outcome == "completed"):
        phrases.append(outcomes[outcome])
    return phrases


def _event_in_words(page: FunnelPage, query: UnitsQuery) -> str | None:
    """Describe a list's condition on an event; None if it has none."""
    if query.event_name is None:
        return None
    words = f"{'With' if query.has_event else 'Without'} {query.event_name}"
    if query.of == "visitor" and page.definition.counting_unit == "attempt":
        words += " of the visitor"
    step = only_step(query)
    return f"{words} soon after step {step}" if step else words


@slow_page("/funnels/{funnel_id:str}/units/{unit:path}")
def trace(
    view: View, funnel_id: str, funnel_pages: FunnelPages, funnel_queries: FunnelQueryRunner
) -> Response[bytes]:
    page = funnel_pages.load(funnel_id, view.query(ReportQuery, view.websites))
    unit, like = unit_in_path(view.request), _like(view.query(LikeQuery))

    def load() -> dict[str, Any]:
        query = TraceQuery.model_validate(page.parameters(cohort=False, **like))
        trace = trace_of(funnel_queries, view.workspace_id, funnel_id, query, unit)
        return {**_timeline(trace), "reason": _reason(page, trace)}

    return view.render(
        "report/trace.html",
        parts=("timeline",),
        report=page,
        unit=unit,
        decisions=DECISIONS,
        like=like,
        tools=TOOLS,
        timeline=load_part(view, "timeline", load),
    )


def _reason(page: FunnelPage, record: TraceRecord) -> str:
    """Return in a sentence why the unit has its outcome. Its times are as in the record."""
    titles, reached = page.step_titles, record.reached
    match record.outcome:
        case None:
            return f"Did not enter: no {titles[0]}"
        case Outcome.COMPLETED:
            words = page.outcome_of(record, record.evaluated_at)
            return f"{words}: {titles[-1]} on {record.completed_at}"
        case Outcome.PENDING if record.window_ends_at is None:
            return f"{page.pending_word}: no {titles[reached]} so far"
        case Outcome.PENDING:
            return (
                f"Pending: no {titles[reached]} so far; the window ends on {record.window_ends_at}"
            )
        case Outcome.DROPPED_OFF:
            return (
                f"Dropped: no {titles[reached]} until {record.window_ends_at}, "
                "when the window ended"
            )
        case Outcome.EXCLUDED:
            events = (each.name for each in record.events if each.decision is Decision.EXCLUSION)
            event = next(events, "an event")
            return f"Excluded: {event} after {titles[reached - 1]} on {record.excluded_at}"
        case outcome:
            assert_never(outcome)


def _timeline(record: TraceRecord) -> dict[str, Any]:
    """Return the trace, with the seconds from the entry to each event; None if there is no
    entry.
    """
    entry_ms = None if record.entry_at is None else parse_time(record.entry_at)
    seconds = [
        None if entry_ms is None else (parse_time(event.occurred_at) - entry_ms) / 1000
        for event in record.events
    ]
    there = record.there
    decided = [] if there is MISSING else there.events or []
    return {
        "trace": record,
        "events": list(zip(record.events, seconds, strict=True)),
        "there": None if there is MISSING else there,
        "decided_there": {each.event_id: each for each in decided},
    }


ROUTES = (units, trace)
