"""Answers shared reports within limits, however often they are opened."""

import asyncio
from contextlib import suppress
from functools import partial

import structlog
from anyio import to_thread

from penstock.accounts.workspace.service import WorkspaceService
from penstock.base.clock import Clock
from penstock.base.errors import NotFound, PenstockError, QueueFull, Unavailable
from penstock.base.fair_queue import FairQueue, QueueLimits
from penstock.base.ttl_cache import TtlCache
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.saved.service import FunnelService
from penstock.shares.model import Share
from penstock.shares.report import read_report
from penstock.shares.schema import SharedReportRecord
from penstock.shares.service import not_shared, read_selection
from penstock.warehouse.work import Work, working_on

log = structlog.get_logger()

MAX_AGE_S = 60
"""Time in seconds for which everybody gets the same answer."""

_LIMITS = QueueLimits(slots=2, slots_per_key=1, waiting=200, waiting_per_key=50)
"""Limits of computations. The shares of a workspace use one of its queries at a time."""

_MAX_QUERY_S = 30
"""Maximum time of one query, in seconds, if the workspace allows more."""

_Key = tuple[str, tuple[str, ...], int]
"""A share, the properties whose values it shows, and a minute."""


class SharedReports:
    """Computes each shared report at most once a minute, also after an error."""

    def __init__(
        self,
        runner: FunnelQueryRunner,
        funnels: FunnelService,
        limits: WorkspaceService,
        clock: Clock,
    ) -> None:
        self._runner, self._funnels, self._limits = runner, funnels, limits
        self._clock = clock
        self._queue = FairQueue("shared reports", _LIMITS)
        self._answers: TtlCache[_Key, SharedReportRecord | PenstockError] = TtlCache(MAX_AGE_S)
        self._pending: dict[_Key, asyncio.Future[SharedReportRecord | PenstockError | None]] = {}

    async def read(self, share: Share) -> SharedReportRecord:
        """Return the report. Does not block the event loop.

        A computation continues after its reader has left, so that opening and leaving does not
        start one after another. Raises NotFound if the funnel was deleted, and Unavailable if the
        report cannot be computed, or if too many other reports are being computed.
        """
        contents = await to_thread.run_sync(self._limits.shared_contents, share.workspace_id)
        minute = self._clock.elapsed_ms() // (MAX_AGE_S * 1000)
        key = (share.id, contents.properties, minute)
        answer = self._answers.get(key)
        if answer is None:
            with suppress(QueueFull):
                answer = await asyncio.shield(self._pending.get(key) or self._start(key, share))
        if isinstance(answer, SharedReportRecord):
            return answer
        if isinstance(answer, NotFound):
            raise not_shared()
        raise Unavailable(
            "This report cannot be shown at the moment. Try again in a minute, and ask the person "
            "who sent you the link if that does not help.",
            code="share_not_available",
            retry_after_s=MAX_AGE_S,
        )

    def _start(
        self, key: _Key, share: Share
    ) -> "asyncio.Future[SharedReportRecord | PenstockError | None]":
        compute = partial(self._compute, share, key[1])
        future = asyncio.ensure_future(
            self._queue.run(share.workspace_id, self._answers.load, key, compute)
        )
        self._pending[key] = future
        future.add_done_callback(partial(self._finish, key))
        return future

    def _finish(self, key: _Key, future: "asyncio.Future[object]") -> None:
        del self._pending[key]
        if not future.cancelled():
            future.exception()  # Retrieve it, so that asyncio does not log it.

    def _compute(self, share: Share, shown: tuple[str, ...]) -> SharedReportRecord | PenstockError:
        limits = self._limits.engine_limits(share.workspace_id)
        limits["max_execution_time"] = min(limits["max_execution_time"], _MAX_QUERY_S)
        try:
            with working_on(Work(limits, owner=share.workspace_id)):
                return read_report(
                    self._runner,
                    share.workspace_id,
                    self._funnels.get(share.workspace_id, share.funnel_id),
                    read_selection(share.parameters),
                    shown,
                    share.name,
                )
        except PenstockError as error:
            error.__traceback__ = None
            log.info("share_not_answered", share_id=share.id, code=error.code)
            return error
