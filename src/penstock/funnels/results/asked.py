"""The one way of a route to an answer about a saved funnel."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from litestar import Request, Response
from litestar.di import NamedDependency
from litestar.params import FromPath
from pydantic import BaseModel

from penstock.accounts.model import Caller
from penstock.base.ids import WorkspaceId
from penstock.funnels.results.schema import PeriodQuery
from penstock.funnels.saved.service import FunnelService
from penstock.http.bodies import read_query
from penstock.http.openapi import described
from penstock.jobs.answered import Answered
from penstock.jobs.records import JobRecord

Q = TypeVar("Q", bound=PeriodQuery)


def described_answer(summary: str, query: type[PeriodQuery], answers: type[BaseModel] | None = None) -> dict[str, Any]:
    """As `described`, of an answer about a funnel."""
    return described(summary, query=query, answers=answers, later=JobRecord, tag="funnels")


class AskedFunnel:
    """Litestar dependency `funnel`: the funnel that a request names, whether there is one or not."""

    def __init__(
        self, request: Request[Any, Any, Any], workspace_id: WorkspaceId, funnel_id: str, funnels: FunnelService, answered: Answered
    ) -> None:
        self.id = funnel_id
        self._request, self._workspace_id, self._funnels, self._answered = request, workspace_id, funnels, answered

    async def answered(self, model: type[Q], make: Callable[[WorkspaceId, str, Q], BaseModel | Response[bytes]]) -> Response[bytes]:
        """What `make` answers to the query parameters. An unknown funnel or revision is refused before a job is made of it."""
        query = read_query(self._request, model)
        check = partial(self._funnels.at_revision, self._workspace_id, self.id, query.revision)
        return await self._answered(partial(make, self._workspace_id, self.id, query), check=check)


async def provide_asked_funnel(
    request: Request[Any, Any, Any],
    funnel_id: FromPath[str],
    caller: NamedDependency[Caller],
    funnels: NamedDependency[FunnelService],
    answered: NamedDependency[Answered],
) -> AskedFunnel:
    return AskedFunnel(request, caller.workspace_id, funnel_id, funnels, answered)
