"""Types that describe the state of this node."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.base.disk_space import FULL_BYTES
from penstock.base.worker import WorkerHealth


class FailedShipment(NamedTuple):
    """An insert that the event store rejected or did not answer. error: the kind and code of the
    error.
    """

    at_ms: int
    error: str


class OutboxState(NamedTuple):
    """The queue of events for the event store.

    bundles: number of bundles of rows. oldest_age_s: age of the oldest bundle; None if there is
    none. failures: failed shipments of this node since its start. last_failure: the latest failure.
    """

    bundles: int
    oldest_age_s: float | None
    failures: int = 0
    last_failure: FailedShipment | None = None


class MissingEvents(NamedTuple):
    """Number of events that the event store has lost. It is None before the first comparison."""

    events: int | None
    compared_at_ms: int | None


class OutcomesHealth(NamedTuple):
    """State of the stored funnel outcomes on this node.

    differences: number of differences between stored outcomes and events, found by comparisons
    since the start. last_difference_at_ms: time of the latest difference.
    """

    stored: int
    differences: int = 0
    last_difference_at_ms: int | None = None


class Resources(NamedTuple):
    """Resources that this process uses, and free resources. Sizes are in bytes.

    min_disk_free: free disk space below which only events and small records are stored.
    """

    open_descriptors: int
    descriptor_limit: int
    memory: int
    disk_free: int
    disk_total: int
    min_disk_free: int

    @property
    def is_disk_low(self) -> bool:
        """Whether uploads, exports and other work that uses the disk stop."""
        return self.disk_free < self.min_disk_free

    @property
    def is_disk_full(self) -> bool:
        """Whether the stores may be unable to write."""
        return self.disk_free < FULL_BYTES


class TableSize(NamedTuple):
    """Disk use of a table. rows: None for a whole store."""

    name: str
    rows: int | None
    bytes: int


class StoreSize(NamedTuple):
    """Disk use of a whole store.

    growth: change in bytes over the last `seconds`, negative if the store shrank; None if unknown.
    """

    name: str
    bytes: int
    growth: int | None
    seconds: int


class Readiness(NamedTuple):
    """State of this node.

    stores: whether each store answers. is_damaged: whether the metadata database is damaged.

    missing_right: a permission missing in the event store. silence: a sentence that names the event
    store's shards or replicas that do not respond. failed_workers: workers that have failed for a
    minute or longer. outbox: None if the metadata database does not answer. is_outbox_old: whether
    the oldest rows have waited too long. resources: None if the disk does not answer.
    clock_ahead_ms: milliseconds that this machine's clock is ahead of PostgreSQL's; None with
    SQLite.
    cannot_write: whether the disk of the metadata database is full, although space may seem free.
    has_newer_schema: whether a newer Penstock has migrated the metadata database meanwhile.
    outcomes, missing: for information only; they never make the node unready.
    """

    stores: Mapping[str, bool]
    workers: Sequence[WorkerHealth]
    failed_workers: Sequence[WorkerHealth]
    outbox: OutboxState | None
    is_outbox_old: bool
    resources: Resources | None
    outcomes: OutcomesHealth
    missing: MissingEvents
    is_damaged: bool
    missing_right: str | None
    silence: str | None
    clock_ahead_ms: int | None
    cannot_write: bool
    has_newer_schema: bool

    @property
    def is_ready(self) -> bool:
        return (
            all(self.stores.values())
            and not self.failed_workers
            and not self.is_outbox_old
            and not self.is_disk_full
        )

    @property
    def is_disk_full(self) -> bool:
        return self.cannot_write or (self.resources is not None and self.resources.is_disk_full)

    @property
    def is_degraded(self) -> bool:
        """Whether the node stores events, but does not do other work, because the disk is low."""
        return self.is_ready and self.resources is not None and self.resources.is_disk_low
