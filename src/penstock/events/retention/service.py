"""Deletes events that are older than their website's retention limit.

This happens once a day for each website and kind of event, because each deletion rewrites parts of
the event store. The limit is rounded to midnight UTC, so that reports do not change from minute to
minute. The same worker performs these deletions and deletions that people request.
"""

from penstock.accounts.websites.service import WebsiteService
from penstock.base.clock import Clock
from penstock.base.worker import Worker
from penstock.events.deletions.service import DeletionService
from penstock.settings import DAY_S

_AFTER_S, _EVERY_S = 60.0, 600.0
_DAY_MS = DAY_S * 1000


class RetentionService:
    """Requests a deletion for each website and kind of event whose oldest events have expired."""

    def __init__(self, websites: WebsiteService, deletions: DeletionService, clock: Clock) -> None:
        self._websites, self._deletions, self._clock = websites, deletions, clock
        self.worker = Worker(
            "retention", self._step, clock, period_s=_EVERY_S, first_after_s=_AFTER_S
        )

    def _step(self) -> None:
        today_ms = self._clock() // _DAY_MS * _DAY_MS
        for website in self._websites.websites_with_retention():
            for kind, days in sorted(website.retention_days.items()):
                self.worker.report_progress()
                self._deletions.retain(website, kind, today_ms - days * _DAY_MS)
