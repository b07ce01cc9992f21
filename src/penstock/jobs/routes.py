"""HTTP routes for jobs."""

from anyio import to_thread
from litestar import Response, delete, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.model import Caller
from penstock.base.clock import Clock
from penstock.http.answers import answer, no_content
from penstock.http.openapi import described
from penstock.http.scopes import KeyScope
from penstock.jobs.schema import JobRecord
from penstock.jobs.service import JobService


@get("/api/jobs/{job_id:str}", opt=described("A job", answers=JobRecord, tag="jobs"))
async def read_job(
    job_id: FromPath[str],
    caller: NamedDependency[Caller],
    jobs: NamedDependency[JobService],
    clock: NamedDependency[Clock],
) -> Response[bytes]:
    """Returns the state and progress of a request sent with `Prefer: respond-async`."""
    job = await to_thread.run_sync(jobs.job, caller.workspace_id, job_id)
    return answer(JobRecord.from_job(job, clock()))


@get(
    "/api/jobs/{job_id:str}/result",
    opt=described("The result of a job", returns=("*/*",), tag="jobs"),
)
async def read_job_result(
    job_id: FromPath[str], caller: NamedDependency[Caller], jobs: NamedDependency[JobService]
) -> Response[bytes]:
    """Returns the original route's response and status; 409 until the response is available."""
    return await to_thread.run_sync(jobs.response, caller.workspace_id, job_id)


@delete(
    "/api/jobs/{job_id:str}",
    opt=described(
        "Cancel a job",
        scopes=(KeyScope.READ,),
        tag="jobs",
    ),
)
async def cancel_job(
    job_id: FromPath[str], caller: NamedDependency[Caller], jobs: NamedDependency[JobService]
) -> Response[None]:
    """Stops the job's queries in the engine. If the job is finished, deletes it instead."""
    await jobs.cancel(caller.workspace_id, job_id)
    return no_content()


ROUTES = (read_job, read_job_result, cancel_job)
