"""The jobs room: slow responses, computed for waiting clients or as jobs."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from penstock.accounts.plugin import AccountsRoom
from penstock.base.metrics import PolledGauge
from penstock.base.worker import Worker
from penstock.core import Core, Room
from penstock.disk.plugin import DiskRoom
from penstock.jobs import routes
from penstock.jobs.cancellable import provide_cancellable_response
from penstock.jobs.service import JobService


@dataclass(frozen=True)
class JobsRoom(Room):
    jobs: JobService

    routes = routes.ROUTES
    request_objects = {"respond": provide_cancellable_response}  # noqa: RUF012

    def workers(self) -> Sequence[Worker]:
        return [self.jobs.worker]

    def gauges(self) -> Sequence[PolledGauge]:
        return [
            PolledGauge(
                "penstock_jobs", "Jobs of all nodes, by state.", self.jobs.count_by_state, "state"
            )
        ]

    def lifespans(self) -> Sequence[AbstractAsyncContextManager[None]]:
        return [self.jobs.running()]


def build(core: Core, accounts: AccountsRoom, disk: DiskRoom) -> JobsRoom:
    jobs = JobService(core.database, core.warehouse, accounts.limits, disk.disk, core.clock)
    return JobsRoom(jobs=jobs)
