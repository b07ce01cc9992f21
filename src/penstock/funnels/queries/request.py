"""Routes that answer questions about a saved funnel."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from litestar.handlers import HTTPRouteHandler

from penstock.accounts.model import Caller
from penstock.funnels.queries.resolve import SavedFunnel, resolve_definition
from penstock.funnels.queries.schema import PeriodQuery
from penstock.funnels.saved.service import FunnelService
from penstock.http.handlers import route
from penstock.jobs.cancellable import CancellableResponse
from penstock.jobs.schema import JobRecord


def question(
    path: str, summary: str, **description: Any
) -> Callable[[Callable[..., Any]], HTTPRouteHandler]:
    """Like `route`, for a question about the saved funnel `funnel_id`, which may not exist.

    path: what follows the funnel's own path. The function needs the parameters `caller` and
    `query`.
    """
    return route(
        "GET",
        f"/api/funnels/{{funnel_id:str}}/{path}",
        summary,
        runs_in="run_question",
        job=JobRecord,
        tag="funnels",
        **description,
    )


async def provide_run_question(
    funnel_id: str,
    query: PeriodQuery,
    caller: Caller,
    funnels: FunnelService,
    respond: CancellableResponse,
) -> Callable[..., Awaitable[Any]]:
    """Return the function that runs a question, now or as a job.

    An unknown funnel or revision, and ad hoc changes that do not fit, are reported immediately,
    before a job starts.
    """
    source, changes = SavedFunnel(funnel_id, query.revision), query.selection().ad_hoc
    return partial(
        respond,
        check=partial(resolve_definition, funnels, caller.workspace_id, source, changes),
    )
