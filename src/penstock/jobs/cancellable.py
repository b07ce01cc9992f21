"""Slow responses for any route. They stop when the client disconnects, or become jobs."""

import asyncio
from collections.abc import Callable
from functools import partial

import structlog
from anyio import to_thread
from litestar import Response

from penstock.accounts.model import Caller
from penstock.http.answers import answer
from penstock.http.handlers import route
from penstock.http.openapi import JSON_ONLY, description_of
from penstock.http.requests import AnyRequest, path_of
from penstock.jobs.prefer import RESPOND_ASYNC, prefers_async
from penstock.jobs.schema import JobRecord
from penstock.jobs.service import ComputeAnswer, JobService
from penstock.warehouse.work import Work

log = structlog.get_logger()

slow_route = partial(route, runs_in="respond", job=JobRecord)
"""Like `route`, for a function that may take long: see `CancellableResponse`."""

CLIENT_CLOSED_REQUEST = 499
"""Status for logs: the client has disconnected. nginx uses the same code."""


class CancellableResponse:
    """The object `respond` of a request, which runs the functions of slow routes.

    compute: a blocking function that returns a record, a dict or a response.
    """

    def __init__(self, request: AnyRequest, caller: Caller, jobs: JobService) -> None:
        self._request, self._workspace_id, self._jobs = request, caller.workspace_id, jobs
        self._may_be_job = caller.website_id is None
        """False for an API key for one website. Such keys have no access to jobs."""

    async def __call__(
        self, compute: ComputeAnswer, *, check: Callable[[], object] | None = None
    ) -> Response[bytes]:
        """Return the response, or a job (202) if the client prefers a job.

        Stops if the client disconnects. check: a blocking function that raises the predictable
        errors of `compute`, so that no job is started in vain.
        """
        if self._may_be_job and prefers_async(self._request.headers.getall("prefer", [])):
            if check is not None:
                await to_thread.run_sync(check)
            return await self._start_job(compute)
        work = Work(owner=self._workspace_id)
        computation = asyncio.ensure_future(self._jobs.compute(work, self._workspace_id, compute))
        disconnect = asyncio.ensure_future(_wait_for_disconnect(self._request))
        try:
            await asyncio.wait({computation, disconnect}, return_when=asyncio.FIRST_COMPLETED)
            if computation.done():
                return computation.result()
            log.info("client_left", path=path_of(self._request))
            await self._stop(work, computation)
            return Response(b"", status_code=CLIENT_CLOSED_REQUEST)
        except asyncio.CancelledError:  # the server is stopping
            await self._stop(work, computation)
            raise
        finally:
            disconnect.cancel()

    async def _stop(self, work: Work, computation: "asyncio.Future[Response[bytes]]") -> None:
        await self._jobs.stop(work)
        computation.cancel()  # It may still be waiting for a thread.
        await asyncio.wait({computation})
        if not computation.cancelled():
            computation.exception()  # Retrieve the exception, so that asyncio does not log it.

    async def _start_job(self, compute: ComputeAnswer) -> Response[bytes]:
        job = await self._jobs.start(self._request, self._workspace_id, compute)
        headers = {"Location": f"/api/jobs/{job.id}", "Preference-Applied": RESPOND_ASYNC}
        return answer(JobRecord.from_job(job, job.created_at_ms), status=202, headers=headers)


async def _wait_for_disconnect(request: AnyRequest) -> None:
    """Return once the client has disconnected. The body must have been read before this call."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def provide_cancellable_response(
    request: AnyRequest,
    caller: Caller,
    jobs: JobService,
) -> CancellableResponse:
    if _is_file(request):
        await to_thread.run_sync(jobs.disk.space.require, "exports")
    return CancellableResponse(request, caller, jobs)


def _is_file(request: AnyRequest) -> bool:
    """Whether the route writes its response to a temporary file first."""
    description = description_of(request.route_handler)
    return description is not None and description.returns != JSON_ONLY
