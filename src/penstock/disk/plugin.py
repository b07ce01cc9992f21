"""The disk room: free space, and each workspace's budget for waiting files."""

from dataclasses import dataclass

from penstock.core import Core, Room
from penstock.disk import routes
from penstock.disk.service import DiskService


@dataclass(frozen=True)
class DiskRoom(Room):
    disk: DiskService

    routes = routes.ROUTES


def build(core: Core) -> DiskRoom:
    return DiskRoom(disk=DiskService(core.database, core.settings))
