"""Background work. Each task runs in a supervised thread, independently of requests."""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from threading import Event, Lock, Thread
from typing import NamedTuple

import anyio
import structlog
from anyio import CapacityLimiter, to_thread

from penstock.base.clock import Clock
from penstock.base.errors import StoreUnavailable

log = structlog.get_logger()

Step = Callable[[], float | None]
"""A piece of work. Returns the seconds until the next step; None waits for a wake-up or the next
period.
"""

STALLED_AFTER_S = 300.0
"""Time in seconds after which a step that does not report progress counts as failing."""

_STOP_WITHIN_S = 60.0


class Backoff(NamedTuple):
    """Delays of a worker after failures. Each delay is twice the previous one, reduced at random by
    up to half.
    """

    first_s: float = 0.2
    longest_s: float = 15.0

    def delay_s(self, failures: int) -> float:
        """Return the seconds to wait. failures: number of consecutive failures, at least 1."""
        whole_s = min(self.longest_s, self.first_s * 2 ** min(failures - 1, 30))
        return random.uniform(whole_s / 2, whole_s)


@dataclass(frozen=True, slots=True)
class WorkerHealth:
    """State of a worker. error: type of the last error while the worker is failing, without its
    text.

    failing_for_ms: milliseconds since it began to fail; 0 if it is not failing.
    """

    name: str
    last_success_at_ms: int | None
    failing_since_ms: int | None = None
    error: str | None = None
    failing_for_ms: int = 0


class _Instant(NamedTuple):
    """One moment as a time of day, for display, and as elapsed milliseconds, for durations."""

    at_ms: int
    elapsed_ms: int


class WorkerStopped(Exception):
    """The service is stopping. The step ends early and runs again after the next start."""


def _vary(seconds: float) -> float:
    """Extend the time at random by up to a fifth, so that workers with equal periods do not run at
    the same time.
    """
    return seconds * random.uniform(1, 1.2)


class Worker:
    """A thread that repeats a step until it is stopped, even if the step raises errors.

    After an error it waits and tries again. It logs the first failure, each new kind of error after
    that, and the recovery.
    """

    def __init__(
        self,
        name: str,
        step: Step,
        clock: Clock,
        *,
        period_s: float | None = None,
        first_after_s: float = 0.0,
        last_step: Step | None = None,
        interrupt: Callable[[], None] | None = None,
        backoff: Backoff = Backoff(),  # noqa: B008 - immutable
        retry_on_wake: bool = False,
        stalled_after_s: float | None = STALLED_AFTER_S,
    ) -> None:
        """period_s: seconds between steps; None runs steps only after a wake-up.

        first_after_s: seconds from the start to the first step, unless woken earlier. Both times
        are extended by up to a fifth at random. last_step: runs once at an orderly stop.
        interrupt: ends what the current step waits for, when the worker stops. retry_on_wake:
        whether a wake-up ends the wait after a failure. stalled_after_s: seconds after which a step
        counts as stalled; None sets no limit.
        """
        self.name = name
        self._step, self._last_step, self._clock = step, last_step, clock
        self._interrupt = interrupt
        self._period_s, self._first_after_s = period_s, first_after_s
        self._backoff, self._retry_on_wake = backoff, retry_on_wake
        self._stalled_after_s = stalled_after_s
        self._wake, self._stopping = Event(), Event()
        self._thread: Thread | None = None
        # Guards the fields below, which the thread writes and health checks read.
        self._state = Lock()
        self._busy_since: _Instant | None = None
        self._last_success_at_ms: int | None = None
        self._failing_since: _Instant | None = None
        self._failures = 0  # number of consecutive failures
        self._errors: list[str] = []  # types of errors since the worker began to fail, latest last

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the worker during the context."""
        self.start()
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                # Use a separate limiter, because hanging requests may occupy every shared thread.
                await to_thread.run_sync(self.stop, limiter=CapacityLimiter(1))

    def start(self) -> None:
        """Start the thread."""
        self._stopping.clear()
        # It is a daemon thread: a step that never returns must not keep the process alive.
        self._thread = Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Run the next step now, because there is new work. Never blocks."""
        self._wake.set()

    def begin_stop(self) -> None:
        """Do not start another step. Never blocks.

        `stop` waits for the current step. A worker with a last step continues until then, because
        workers that stop earlier may still give it work.
        """
        if self._last_step is None:
            self._stopping.set()
            self._wake.set()

    def stop(self) -> None:
        """Let the current step finish, run the last step, and end the thread.

        Blocks for at most a minute after it has interrupted the step.
        """
        self._stopping.set()
        self._wake.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            if self._interrupt is not None:
                self._interrupt()
            thread.join(_STOP_WITHIN_S)
            if thread.is_alive():
                log.error("worker_not_stopped", worker=self.name)

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def pause(self, seconds: float) -> None:
        """Wait inside a step. Raises `WorkerStopped` if the service begins to stop during the
        wait.
        """
        self.report_progress()
        if self._stopping.wait(seconds):
            raise WorkerStopped

    def report_progress(self) -> None:
        """Report that a long step is still making progress, so that it does not count as
        stalled.
        """
        with self._state:
            self._busy_since = self._now()

    def health(self) -> WorkerHealth:
        now, thread = self._now(), self._thread
        with self._state:
            success_at_ms, busy = self._last_success_at_ms, self._busy_since
            failing, error = self._failing_since, self._errors[-1] if self._errors else None
        if (
            failing is None
            and thread is not None
            and not thread.is_alive()
            and not self.is_stopping
        ):
            failing, error = busy or _Instant(0, 0), "ThreadEnded"
        if (
            failing is None
            and busy is not None
            and self._stalled_after_s is not None
            and now.elapsed_ms - busy.elapsed_ms > self._stalled_after_s * 1000
        ):
            failing, error = busy, "Stalled"
        if failing is None:
            return WorkerHealth(self.name, success_at_ms)
        failing_for_ms = now.elapsed_ms - failing.elapsed_ms
        return WorkerHealth(self.name, success_at_ms, failing.at_ms, error, failing_for_ms)

    def _now(self) -> "_Instant":
        return _Instant(self._clock(), self._clock.elapsed_ms())

    def _run(self) -> None:
        self._wake.wait(_vary(self._first_after_s))
        while not self.is_stopping:
            self._wake.clear()
            try:
                wait_s = self._do(self._step)
            except WorkerStopped:
                break
            # includes SystemExit, because nothing else would restart the thread
            except BaseException as error:
                self._wait_after_failure(self._note_failure(error))
            else:
                self._wake.wait(self._pause_s(wait_s))
        if self._last_step is not None:
            try:
                self._do(self._last_step)
            except BaseException as error:
                self._note_failure(error)

    def _pause_s(self, wait_s: float | None) -> float | None:
        """Return the seconds until the next step; None waits for a wake-up. wait_s: the last step's
        result.
        """
        if wait_s is not None:
            return wait_s
        return None if self._period_s is None else _vary(self._period_s)

    def _do(self, step: Step) -> float | None:
        self.report_progress()
        try:
            wait_s = step()
        finally:
            with self._state:
                self._busy_since = None
        self._note_success()
        return wait_s

    def _wait_after_failure(self, seconds: float) -> None:
        signal = self._wake if self._retry_on_wake else self._stopping
        signal.wait(seconds)

    def _note_success(self) -> None:
        now = self._now()
        with self._state:
            since, failures = self._failing_since, self._failures
            self._last_success_at_ms = now.at_ms
            self._failing_since, self._failures = None, 0
            self._errors.clear()
        if since is not None:
            log.info(
                "worker_recovered",
                worker=self.name,
                failures=failures,
                failed_for_s=round((now.elapsed_ms - since.elapsed_ms) / 1000, 1),
            )

    def _note_failure(self, error: BaseException) -> float:
        """Record the failure. Returns the seconds to wait before the next attempt."""
        kind = type(error).__name__
        with self._state:
            self._failures += 1
            if self._failing_since is None:
                self._failing_since = self._now()
            is_new = kind not in self._errors
            if not is_new:
                self._errors.remove(kind)
            self._errors.append(kind)
            delay_s = self._backoff.delay_s(self._failures)
        if is_new:
            is_away = isinstance(error, StoreUnavailable)
            log.warning(
                "worker_failed",
                worker=self.name,
                error=error.reason if isinstance(error, StoreUnavailable) else str(error) or kind,
                retry_in_s=round(delay_s, 1),
                exc_info=None if is_away else error,
            )
        return delay_s
