"""HTTP routes for jobs."""

from litestar import Response

from penstock.accounts.model import Caller
from penstock.base.clock import Clock
from penstock.http.handlers import route
from penstock.http.scopes import KeyScope
from penstock.jobs.schema import JobRecord
from penstock.jobs.service import JobService

_ONE = "/api/jobs/{job_id:str}"


@route("GET", _ONE, "A job", tag="jobs")
def read_job(caller: Caller, jobs: JobService, clock: Clock, job_id: str) -> JobRecord:
    """Returns the state and progress of a request sent with `Prefer: respond-async`."""
    return JobRecord.from_job(jobs.job(caller.workspace_id, job_id), clock())


@route("GET", f"{_ONE}/result", "The result of a job", returns=("*/*",), tag="jobs")
def read_job_result(caller: Caller, jobs: JobService, job_id: str) -> Response[bytes]:
    """Returns the original route's response and status; 409 until the response is available."""
    return jobs.response(caller.workspace_id, job_id)


@route("DELETE", _ONE, "Cancel a job", scopes=(KeyScope.READ,), tag="jobs")
async def cancel_job(caller: Caller, jobs: JobService, job_id: str) -> None:
    """Stops the job's queries in the engine. If the job is finished, deletes it instead."""
    await jobs.cancel(caller.workspace_id, job_id)


ROUTES = (read_job, read_job_result, cancel_job)
