"""HTTP of jobs."""

from anyio import to_thread
from litestar import Response, delete, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.model import Caller
from penstock.http.answers import answer, no_content
from penstock.http.openapi import described
from penstock.jobs.jobs import Jobs
from penstock.jobs.records import JobRecord


@get("/api/jobs/{job_id:str}", opt=described("A job", answers=JobRecord, tag="jobs"))
async def read_job(job_id: FromPath[str], caller: NamedDependency[Caller], jobs: NamedDependency[Jobs]) -> Response[bytes]:
    """State and progress of an answer that was asked for with `Prefer: respond-async`."""
    return answer(await to_thread.run_sync(jobs.record, jobs.get(caller.workspace_id, job_id)))


@get("/api/jobs/{job_id:str}/result", opt=described("The answer of a job", tag="jobs"))
async def read_job_result(job_id: FromPath[str], caller: NamedDependency[Caller], jobs: NamedDependency[Jobs]) -> Response[bytes]:
    """What the route would have answered, with its status: the record, or a problem document. 409 until there is one."""
    return jobs.result(caller.workspace_id, job_id)


@delete("/api/jobs/{job_id:str}", opt=described("Cancel a job", tag="jobs"))
async def cancel_job(job_id: FromPath[str], caller: NamedDependency[Caller], jobs: NamedDependency[Jobs]) -> Response[None]:
    """Its queries end in the engine. A job that is finished is forgotten."""
    jobs.cancel(caller.workspace_id, job_id)
    return no_content()


ROUTES = (read_job, read_job_result, cancel_job)
