"""Folds the units that changed since a mark, for queries and for the worker."""

from collections.abc import Callable

from penstock.funnels.outcomes.model import Mark, NotStorable, Subject
from penstock.funnels.outcomes.registry import OutcomeRegistry
from penstock.funnels.outcomes.tables import Backlog, OutcomeTables

FEW_EVENTS = 50_000
"""New events that a query folds itself. The worker folds more, and begins at a tenth of it."""


class OutcomeRefresher:
    """Folds changed units again, or retires their build.

    Methods block, and raise as `OutcomeTables` does. The caller holds the outcome's lock.
    """

    def __init__(
        self, tables: OutcomeTables, registry: OutcomeRegistry, wake_worker: Callable[[], None]
    ) -> None:
        self._tables, self._registry, self._wake_worker = tables, registry, wake_worker

    def retire(self, mark: Mark, reason: str) -> None:
        """`OutcomeRegistry.retire`, after which the worker drops the rows."""
        self._registry.retire(mark, reason)
        self._wake_worker()

    def fold_changes(
        self, subject: Subject, mark: Mark, backlog: Backlog, until_ms: int, max_units: int
    ) -> Mark | None:
        """The mark after folding changed units again; None, with nothing done, for too many.

        None also when payment events match the funnel; then the build is retired. until_ms: later
        events are not read.
        """
        try:
            changes = self._tables.changes(subject, mark, backlog, until_ms, max_units)
            if changes is None:
                return None
            self._registry.set_read_until(mark.build, until_ms)
            mark = self._tables.refresh(subject, mark, backlog, changes, until_ms)
            self._registry.set_mark(mark, save=not changes.none)
        except NotStorable:
            self._registry.set_not_storable(mark.outcome)
            self.retire(mark, "provider_events")
            return None
        except BaseException:
            # Some rows may know more than the mark: the worker looks, and folds the rest.
            self._registry.set_interrupted(mark.outcome, interrupted=True)
            self._wake_worker()
            raise
        return mark
