"""HTTP route for the use of the disk."""

from penstock.accounts.model import Caller
from penstock.disk.schema import DiskUseRecord
from penstock.disk.service import DiskService
from penstock.http.handlers import route


@route("GET", "/api/settings/disk", "Files that wait on the disk", tag="accounts")
def read_disk_use(caller: Caller, disk: DiskService) -> DiskUseRecord:
    """Returns what the workspace's waiting files use, and the most that they may use."""
    return DiskUseRecord.from_use(disk.use(caller.workspace_id))


ROUTES = (read_disk_use,)
