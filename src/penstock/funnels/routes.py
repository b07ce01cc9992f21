"""HTTP routes for previews, for the questions about a saved funnel, and for its files."""

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from litestar import Response
from litestar.handlers import HTTPRouteHandler

from penstock.accounts.audit.model import Action
from penstock.accounts.audit.service import AuditLog
from penstock.accounts.model import Caller
from penstock.funnels.attempt_keys import AttemptKeysIn, AttemptKeysRecord, find_attempt_keys
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.request import question
from penstock.funnels.questions import EXPORTS, QUESTIONS, FunnelExport, FunnelQuestion
from penstock.funnels.results.schema import PreviewIn, ResultsRecord
from penstock.funnels.results.service import preview
from penstock.funnels.units.schema import TraceQuery, TraceRecord
from penstock.funnels.units.trace_reader import trace_of
from penstock.http.answers import file_download
from penstock.http.requests import AnyRequest, raw_path_after
from penstock.http.scopes import KeyScope
from penstock.jobs.cancellable import slow_route


def _question_route(row: FunnelQuestion[Any, Any]) -> HTTPRouteHandler:
    def ask(caller: Caller, funnel_queries: FunnelQueryRunner, funnel_id: str, query: Any) -> Any:
        return row.ask(
            funnel_queries,
            caller.workspace_id,
            funnel_id,
            query,
            names_by_trait=_may_see_traits(caller),
        )

    ask.__annotations__ |= {"query": row.query, "return": row.record}
    return question(row.path, row.summary)(_described_by(row.answer, ask))


def _export_route(row: FunnelExport[Any]) -> HTTPRouteHandler:
    def export(
        caller: Caller,
        funnel_queries: FunnelQueryRunner,
        audit_log: AuditLog,
        funnel_id: str,
        query: Any,
    ) -> Response[bytes]:
        context = funnel_queries.prepare_saved(
            caller.workspace_id, funnel_id, query, names_by_trait=_may_see_traits(caller)
        )
        file, name = row.write(funnel_queries, context, query)
        target = row.target.format(funnel_id=funnel_id, format=query.format)
        audit_log.record(caller, Action.EXPORTED, target)
        return file_download(file, name, row.media_types[query.format])

    export.__annotations__["query"] = row.query
    media_types = tuple(row.media_types.values())
    return question(row.path, row.summary, returns=media_types)(_described_by(row.write, export))


@slow_route(
    "POST",
    "/api/funnels/preview",
    "Preview a funnel",
    status=200,
    validated_by="funnels",
    scopes=(KeyScope.READ,),
    tag="funnels",
)
def preview_funnel(
    caller: Caller, funnel_queries: FunnelQueryRunner, draft: PreviewIn
) -> ResultsRecord:
    """Send the fields of a definition and the query parameters of results in one body.

    Nothing is saved.
    """
    return preview(funnel_queries, caller.workspace_id, draft)


@slow_route(
    "POST",
    "/api/funnels/attempt-keys",
    "Find the attempt ID",
    status=200,
    validated_by="funnels",
    scopes=(KeyScope.READ,),
    tag="funnels",
)
def propose_attempt_keys(
    caller: Caller, funnel_queries: FunnelQueryRunner, draft: AttemptKeysIn
) -> AttemptKeysRecord:
    """Send a draft of a funnel, as for a preview. Returns the keys of its events that could be the
    attempt ID, measured, the best first. IDs of people and devices are never proposed.
    """
    return find_attempt_keys(funnel_queries, caller.workspace_id, draft)


@question("units/{unit:path}", "Trace of one unit")
def read_trace(
    request: AnyRequest,
    caller: Caller,
    funnel_queries: FunnelQueryRunner,
    funnel_id: str,
    query: TraceQuery,
) -> TraceRecord:
    """Returns all events of an attempt or a visitor in reading order, each with its decision."""
    unit, names_by_trait = unit_in_path(request), _may_see_traits(caller)
    return trace_of(
        funnel_queries,
        caller.workspace_id,
        funnel_id,
        query,
        unit,
        names_by_trait=names_by_trait,
    )


def unit_in_path(request: AnyRequest) -> str:
    """Return the rest of the path after `/units/`. An ID may contain slashes, encoded or not."""
    return unquote(raw_path_after(request, "/units/"))


def _may_see_traits(caller: Caller) -> bool:
    """Whether people may be named by a trait. It may come from websites that a key cannot read."""
    return caller.website_id is None


def _described_by(use_case: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a function the name and the docstring of a use case, for the API reference."""
    function.__name__, function.__doc__ = use_case.__name__, use_case.__doc__
    return function


ROUTES = (
    preview_funnel,
    propose_attempt_keys,
    *map(_question_route, QUESTIONS),
    *map(_export_route, EXPORTS),
    read_trace,
)
