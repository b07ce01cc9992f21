"""The list of visitors, and the page of one visitor."""

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import NamedTuple
from urllib.parse import unquote, urlencode

from litestar import Response
from litestar.response import Redirect

from penstock.activity.schema import StoredEventRecord
from penstock.activity.visitors.schema import TimelineQuery, VisitorDetailRecord, VisitorsQuery
from penstock.activity.visitors.service import VisitorService
from penstock.base.clock import parse_time
from penstock.base.errors import Conflict, Malformed, NotFound
from penstock.base.paging import Page
from penstock.base.user_agent import Device
from penstock.funnels.definitions.model import CountingUnit
from penstock.funnels.definitions.schema import FunnelRecord
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.schema import AdHocQuery
from penstock.funnels.saved.service import FunnelService
from penstock.funnels.units.schema import TraceRecord
from penstock.funnels.units.trace_reader import trace_of
from penstock.http.requests import raw_path_after
from penstock.web.page_routes import slow_page
from penstock.web.pages.parts import load_part
from penstock.web.view import View

_FUNNELS = Page(1, 50)
"""The funnels that a visitor's page checks."""


class Session(NamedTuple):
    """Consecutive events of one session, newest first. duration_s: from the first to the last."""

    events: list[StoredEventRecord]
    duration_s: float


@slow_page("/visitors")
def find_visitors(view: View, visitors: VisitorService) -> Response[bytes]:
    query = view.query(VisitorsQuery, view.websites)
    return view.render(
        "visitors/list.html",
        parts=("list",),
        query=query,
        visitors=visitors.visitors(view.workspace_id, query),
        devices=[device.value for device in Device],
    )


@slow_page("/visitors/{visitor_id:path}")
def visitor(
    view: View,
    visitors: VisitorService,
    funnels: FunnelService,
    funnel_queries: FunnelQueryRunner,
) -> Response[bytes]:
    """Show one visitor. If several visitors share the ID, redirects to their list."""
    visitor_id = unquote(raw_path_after(view.request, "/visitors/"))
    query = view.query(TimelineQuery, view.websites)
    try:
        detail, timeline = visitors.visitor_with_timeline(view.workspace_id, visitor_id, query)
    except Malformed:
        return Redirect(f"/visitors?{urlencode({'search': visitor_id})}", status_code=302)
    return view.render(
        "visitors/visitor.html",
        parts=("timeline", "funnels"),
        funnels=load_part(view, "funnels", partial(entries, view, funnels, funnel_queries, detail)),
        visitor=detail,
        timeline=timeline,
        sessions=sessions_of(timeline.data),
    )


class FunnelEntry(NamedTuple):
    """A visitor's run through a funnel. steps: number of required steps."""

    funnel: FunnelRecord
    steps: int
    trace: TraceRecord


def entries(
    view: View, funnels: FunnelService, runner: FunnelQueryRunner, visitor: VisitorDetailRecord
) -> list[FunnelEntry]:
    """Return the funnels that count visitors and that the visitor entered, the newest first."""
    entered = []
    for funnel in funnels.page(view.workspace_id, _FUNNELS).data:
        if funnel.counting_unit != CountingUnit.VISITOR:
            continue
        query = AdHocQuery(websiteId=visitor.website_id)
        with suppress(NotFound, Conflict):  # no matching event, or a goal without a definition
            trace = trace_of(runner, view.workspace_id, funnel.id, query, visitor.visitor_id)
            steps = sum(row.required for row in funnel.steps)
            if trace.entry_at is not None:
                entered.append(FunnelEntry(funnel, steps, trace))
    return entered


def sessions_of(events: Iterable[StoredEventRecord]) -> list[Session]:
    """Group a timeline, newest first, by session. Events without a session are one group."""
    groups = (
        list(group)
        for _, group in groupby(events, lambda it: it.external_session_id or it.session_id)
    )
    return [Session(group, _seconds(group)) for group in groups]


def _seconds(events: list[StoredEventRecord]) -> float:
    first, last = (parse_time(event.occurred_at) for event in (events[-1], events[0]))
    return (last - first) / 1000


ROUTES = (find_visitors, visitor)
