"""A request about a saved funnel, as routes receive it."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from litestar import Response
from litestar.di import NamedDependency
from litestar.params import FromPath
from pydantic import BaseModel

from penstock.accounts.model import Caller
from penstock.base.ids import WorkspaceId
from penstock.funnels.queries.resolve import SavedFunnel, resolve_definition
from penstock.funnels.queries.schema import PeriodQuery
from penstock.funnels.saved.service import FunnelService
from penstock.http.bodies import read_query
from penstock.http.openapi import described
from penstock.http.requests import AnyRequest
from penstock.jobs.cancellable import CancellableResponse
from penstock.jobs.schema import JobRecord

Q = TypeVar("Q", bound=PeriodQuery)


def describe_query(
    summary: str,
    query: type[PeriodQuery],
    answers: type[BaseModel] | None = None,
    returns: tuple[str, ...] = ("application/json",),
) -> dict[str, Any]:
    """Like `described`, but for a route about a saved funnel."""
    return described(
        summary, query=query, answers=answers, returns=returns, job=JobRecord, tag="funnels"
    )


class FunnelRequest:
    """Litestar dependency `funnel`: the funnel named in the path, which may not exist."""

    def __init__(
        self,
        request: AnyRequest,
        workspace_id: WorkspaceId,
        funnel_id: str,
        funnels: FunnelService,
        respond: CancellableResponse,
    ) -> None:
        self.id = funnel_id
        self._request, self._workspace_id = request, workspace_id
        self._funnels, self._respond = funnels, respond

    async def respond(
        self, model: type[Q], answer: Callable[[WorkspaceId, str, Q], BaseModel | Response[bytes]]
    ) -> Response[bytes]:
        """Return the response of `answer` to the query parameters, now or as a job.

        An unknown funnel or revision, and ad hoc changes that do not fit, are reported immediately,
        before a job starts.
        """
        query = read_query(self._request, model)
        source = SavedFunnel(self.id, query.revision)
        changes = query.selection().ad_hoc
        check = partial(resolve_definition, self._funnels, self._workspace_id, source, changes)
        return await self._respond(partial(answer, self._workspace_id, self.id, query), check=check)


async def provide_funnel_request(
    request: AnyRequest,
    funnel_id: FromPath[str],
    caller: NamedDependency[Caller],
    funnels: NamedDependency[FunnelService],
    respond: NamedDependency[CancellableResponse],
) -> FunnelRequest:
    return FunnelRequest(request, caller.workspace_id, funnel_id, funnels, respond)
