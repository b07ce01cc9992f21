"""Makes the forecasts of saved funnels once a day, one after the other, on whichever node is first.

It rests much longer than it works, so that it takes little from requests.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from time import monotonic

import structlog

from penstock.accounts.workspace.service import WorkspaceService
from penstock.base.errors import PenstockError, StoreUnavailable
from penstock.base.ids import WorkspaceId
from penstock.base.worker import Worker, WorkerStopped
from penstock.core import Core
from penstock.funnels.forecasts import store
from penstock.funnels.forecasts.model import Turn
from penstock.funnels.forecasts.schema import ForecastRecord
from penstock.funnels.forecasts.service import DAY_MS, LISTED_DAYS, forecasts_of
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.parameters import Selection
from penstock.funnels.queries.resolve import SavedFunnel
from penstock.funnels.statements import figures
from penstock.funnels.statements.report import build
from penstock.warehouse.work import Stopped, Work, working_on

log = structlog.get_logger()

_PERIOD_S = 600.0
_FIRST_AFTER_S = 900.0
_REST = 9
"""Seconds of rest after each second of work."""
_AGAIN_MS = DAY_MS - 2 * 3_600_000
_LEASE_MS = 3_600_000
_MAX_ATTEMPTS = 3
"""Number of attempts in a row after which a forecast waits for the next day."""


class ForecastWorker:
    """Makes the forecasts that a list of funnels and a digest show. Workspaces take turns."""

    def __init__(self, core: Core, runner: FunnelQueryRunner, limits: WorkspaceService) -> None:
        self._database, self._clock = core.database, core.clock
        self._warehouse, self._runner, self._limits = core.warehouse, runner, limits
        self._work: Work | None = None  # controls the running statements
        self._last_workspace_id = ""
        self.worker = Worker(
            "forecasts",
            self._step,
            core.clock,
            period_s=_PERIOD_S,
            first_after_s=_FIRST_AFTER_S,
            interrupt=self._stop_forecast,
            stalled_after_s=None,
        )

    def _stop_forecast(self) -> None:
        """Stop the running statement. The forecast is made after the next start."""
        if (work := self._work) is not None:
            self._warehouse.stop(work)

    def _step(self) -> float | None:
        """Make the forecast that is most overdue. Returns the seconds of rest."""
        now_ms, began_s = self._clock(), monotonic()
        with self._database.write() as db:
            turn = store.take_turn(db, now_ms, now_ms + _LEASE_MS, self._last_workspace_id)
        if turn is None:
            return None
        self._last_workspace_id = turn.workspace_id
        try:
            if turn.attempts < _MAX_ATTEMPTS:
                self._make(turn)
            else:
                log.warning("forecast_left_out", funnel_id=turn.funnel_id)
                self._end(turn, due_at=now_ms + _AGAIN_MS, attempts=0)
        except Stopped:
            self._end(turn, due_at=now_ms, attempts=turn.attempts)
            raise WorkerStopped from None
        except StoreUnavailable:
            raise
        except PenstockError as error:
            # Its lease says when the next attempt is.
            log.info("forecast_not_made", funnel_id=turn.funnel_id, error=type(error).__name__)
        return max(1.0, _REST * (monotonic() - began_s))

    def _make(self, turn: Turn) -> None:
        with self._limit(turn.workspace_id):
            forecast, evaluated_ms = self._forecast(turn)
        content = None if forecast is None else forecast.model_dump_json(by_alias=True)
        self._end(
            turn,
            due_at=evaluated_ms + _AGAIN_MS,
            attempts=0,
            evaluated_at=evaluated_ms,
            content=content,
        )

    @contextmanager
    def _limit(self, workspace_id: WorkspaceId) -> Iterator[None]:
        """Limit statements to those of the workspace, and to one thread, to leave the others to
        people.
        """
        limits = self._limits.engine_limits(workspace_id)
        self._work = Work({"max_threads": 1, **limits}, owner=workspace_id)
        try:
            with working_on(self._work):
                yield
        finally:
            self._work = None

    def _forecast(self, turn: Turn) -> tuple[ForecastRecord | None, int]:
        """Return the forecast of the list's period, and the time of its evaluation."""
        now_ms = self._clock()
        context = self._runner.prepare(
            turn.workspace_id,
            SavedFunnel(turn.funnel_id, turn.revision),
            Selection(None, now_ms - LISTED_DAYS * DAY_MS, now_ms),
        )
        forecasts = forecasts_of(self._runner, context)
        if forecasts.record is None:  # There is no window.
            return None, context.params.evaluated_at_ms
        context = forecasts.context
        result = self._runner.fetch(context, partial(build, context.definition, context.params))
        totals = [row for row in result.rows if row["is_total"]]
        if not totals:
            return None, context.params.evaluated_at_ms
        row = {**totals[0], **figures.read(context.definition, totals[0])}
        return forecasts.of_report(row)[-1], context.params.evaluated_at_ms

    def _end(self, turn: Turn, **values: int | str | None) -> None:
        with self._database.write() as db:
            store.end_turn(db, turn, **values)
