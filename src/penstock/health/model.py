"""The state of this node."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.base.worker import WorkerHealth


class Readiness(NamedTuple):
    """stores: whether each answers.

    failed_workers: those that have failed for a minute or longer.
    """

    stores: Mapping[str, bool]
    workers: Sequence[WorkerHealth]
    failed_workers: Sequence[WorkerHealth]

    @property
    def is_ready(self) -> bool:
        return all(self.stores.values()) and not self.failed_workers
