"""The one way of a route to an answer that may take long."""

import asyncio
from collections.abc import Callable
from typing import Any

import structlog
from anyio import to_thread
from litestar import Request, Response
from litestar.di import NamedDependency

from penstock.accounts.model import Caller
from penstock.base.ids import WorkspaceId
from penstock.http.answers import answer
from penstock.jobs.jobs import Jobs, Make
from penstock.jobs.prefer import RESPOND_ASYNC, prefers_async
from penstock.warehouse.work import Work

log = structlog.get_logger()

CLIENT_CLOSED_REQUEST = 499
"""For nobody to see."""


class Answered:
    """Litestar dependency `answered`. A route ends in `return await answered(make)`, where `make` blocks and answers a record."""

    def __init__(self, request: Request[Any, Any, Any], workspace_id: WorkspaceId, jobs: Jobs) -> None:
        self._request, self._workspace_id, self._jobs = request, workspace_id, jobs

    async def __call__(self, make: Make, *, check: Callable[[], object] | None = None) -> Response[bytes]:
        """The answer. A job instead where the client prefers that. Nothing, when the client goes away; the work is stopped then.

        check: raises what `make` would soon raise, so that no job is made of such a request. Blocks.
        """
        if prefers_async(self._request.headers.getall("prefer", [])):
            if check is not None:
                await to_thread.run_sync(check)
            return await self._as_job(make)
        work = Work()
        making = asyncio.ensure_future(self._jobs.made(work, self._workspace_id, make))
        leaving = asyncio.ensure_future(_left(self._request))
        try:
            await asyncio.wait({making, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if making.done():
                return making.result()
            log.info("client_left", path=self._request.url.path)
            await self._stopped(work, making)
            return Response(b"", status_code=CLIENT_CLOSED_REQUEST)
        except asyncio.CancelledError:  # the server stops, and waits no longer
            await self._stopped(work, making)
            raise
        finally:
            leaving.cancel()

    async def _stopped(self, work: Work, making: "asyncio.Future[Response[bytes]]") -> None:
        await self._jobs.stop(work)
        making.cancel()  # when it still waits for a thread
        await asyncio.wait({making})
        if not making.cancelled():
            making.exception()  # seen, and of no use to anyone

    async def _as_job(self, make: Make) -> Response[bytes]:
        job = self._jobs.start(self._request, self._workspace_id, make)
        headers = {"Location": f"/api/jobs/{job.id}", "Preference-Applied": RESPOND_ASYNC}
        return answer(await to_thread.run_sync(self._jobs.record, job), status=202, headers=headers)


async def _left(request: Request[Any, Any, Any]) -> None:
    """Ends when the client has gone. The body was read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def provide_answered(request: Request[Any, Any, Any], caller: NamedDependency[Caller], jobs: NamedDependency[Jobs]) -> Answered:
    return Answered(request, caller.workspace_id, jobs)
