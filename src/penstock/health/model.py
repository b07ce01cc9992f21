"""The state of this node."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.base.worker import WorkerHealth


class FailedShipment(NamedTuple):
    """An insert that the event store refused or did not answer. error: its kind and code."""

    at_ms: int
    error: str


class OutboxState(NamedTuple):
    """What waits for the event store.

    bundles: of rows. oldest_age_s: of the oldest bundle; None when there is none. failures: failed
    shipments of this node since its start. last_failure: the latest of them.
    """

    bundles: int
    oldest_age_s: float | None
    failures: int = 0
    last_failure: FailedShipment | None = None


class MissingEvents(NamedTuple):
    """How many stored events the event store had lost at the last comparison; None: none yet."""

    events: int | None
    compared_at_ms: int | None


class OutcomesHealth(NamedTuple):
    """Stored outcomes of funnels on this node.

    differences: that comparisons with events found since the start. last_difference_at_ms: the
    latest of them.
    """

    stored: int
    differences: int = 0
    last_difference_at_ms: int | None = None


class Resources(NamedTuple):
    """Resources that this process uses, and free ones. Sizes in bytes."""

    open_descriptors: int
    descriptor_limit: int
    memory: int
    disk_free: int
    disk_total: int


class TableSize(NamedTuple):
    """What a table uses on disk. rows: None for a whole store."""

    name: str
    rows: int | None
    bytes: int


class StoreSize(NamedTuple):
    """What a whole store uses on disk.

    growth: in bytes, below 0 when it shrank, in the last `seconds`; None when it is not known.
    """

    name: str
    bytes: int
    growth: int | None
    seconds: int


class Readiness(NamedTuple):
    """stores: whether each answers. is_damaged: whether the metadata database was found damaged.
    missing_right: a right that the event store refuses.

    failed_workers: those that have failed for a minute or longer. outbox: None when the metadata
    database does not answer. is_outbox_old: whether its oldest rows wait longer than the setting.
    resources: None when the disk does not answer. outcomes, missing: never make the node unready.
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

    @property
    def is_ready(self) -> bool:
        return all(self.stores.values()) and not self.failed_workers and not self.is_outbox_old
