"""Re-evaluates units that changed since a mark, for queries and for the worker."""

from collections.abc import Callable
from dataclasses import replace

import structlog

from penstock.funnels.outcomes.locks import LockedOutcome
from penstock.funnels.outcomes.model import Backlog, Mark, NotStorable, Subject
from penstock.funnels.outcomes.registry import OutcomeRegistry
from penstock.funnels.outcomes.tables import OutcomeTables

log = structlog.get_logger()


class OutcomeRefresher:
    """Re-evaluates changed units, or retires their build.

    Methods block, and raise the same errors as `LockedOutcome`. The caller must hold the lock and
    have a mark.
    """

    def __init__(
        self, tables: OutcomeTables, registry: OutcomeRegistry, wake_worker: Callable[[], None]
    ) -> None:
        self._tables, self._registry, self._wake_worker = tables, registry, wake_worker

    def retire(self, locked: LockedOutcome, mark: Mark, reason: str) -> None:
        """End the use of a build's rows; the worker drops them later."""
        log.info("outcomes_dropped", funnel_id=mark.funnel_id, reason=reason)
        # Save the mark first, so that rows are dropped only when no mark refers to them, even if a
        # later step fails.
        locked.open_change()
        locked.save(replace(mark, build=""))
        self._wake_worker()

    def fold_changes(
        self,
        subject: Subject,
        locked: LockedOutcome,
        mark: Mark,
        backlog: Backlog,
        until_ms: int,
        max_units: int,
    ) -> Mark | None:
        """Evaluate changed units again, and return the new mark.

        Returns None, without writing anything, if more than `max_units` have changed. Also returns
        None if payment events match the funnel; in that case, the build is retired. until_ms: later
        events are not read.
        """
        try:
            changed = self._tables.changed_units(subject, mark, backlog, until_ms, max_units)
        except NotStorable:
            self._registry.set_not_storable(mark.outcome)
            self.retire(locked, mark, "provider_events")
            return None
        if changed is None:
            return None
        if changed.is_empty:
            mark = self._tables.refresh(subject, mark, backlog, changed, until_ms)
            self._registry.remember(mark)
            return mark
        locked.open_change(until_ms)
        try:
            return locked.save(self._tables.refresh(subject, mark, backlog, changed, until_ms))
        except BaseException:
            # The change stays open, so that the worker finds it and evaluates the rest.
            self._wake_worker()
            raise
