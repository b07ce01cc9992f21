"""HTTP route for the use of the disk."""

from anyio import to_thread
from litestar import Response, get
from litestar.di import NamedDependency

from penstock.accounts.model import Caller
from penstock.disk.schema import DiskUseRecord
from penstock.disk.service import DiskService
from penstock.http.answers import answer
from penstock.http.openapi import described


@get(
    "/api/settings/disk",
    opt=described("Files that wait on the disk", answers=DiskUseRecord, tag="accounts"),
)
async def read_disk_use(
    caller: NamedDependency[Caller], disk: NamedDependency[DiskService]
) -> Response[bytes]:
    """Returns what the workspace's waiting files use, and the most that they may use."""
    return answer(DiskUseRecord.from_use(await to_thread.run_sync(disk.use, caller.workspace_id)))


ROUTES = (read_disk_use,)
