"""The supervised worker: survives every error, shows its state, logs little, stops in order."""

import time
from collections.abc import Callable
from threading import Event
from typing import Any

import pytest
from structlog.testing import capture_logs

from penstock.base.errors import StoreUnavailable
from penstock.base.worker import Backoff, Worker
from tests.conftest import ShiftedClock
from tests.waiting import PATIENCE_S, eventually

QUICK = Backoff(first_s=0.01, longest_s=0.02)


class Steps:
    """A step that raises the next of its errors, if there is one."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.count = 0

    def __call__(self) -> None:
        self.count += 1
        if self.errors:
            raise self.errors.pop(0)


def run(worker: Worker, until: Callable[[], Any]) -> None:
    worker.start()
    try:
        eventually(until)
    finally:
        worker.stop()


@pytest.mark.parametrize(
    "error",
    [
        StoreUnavailable(),
        RuntimeError("bug"),
        SystemExit(),
        KeyboardInterrupt(),
        GeneratorExit(),
        MemoryError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_no_error_ends_a_worker(error: BaseException, clock: ShiftedClock) -> None:
    steps = Steps(error)
    worker = Worker("test", steps, clock, backoff=QUICK)
    run(worker, lambda: steps.count == 2 and worker.health().failing_since_ms is None)


def test_health_has_the_first_failure_and_the_last_error(clock: ShiftedClock) -> None:
    def fail() -> None:
        raise failure

    failure: Exception = StoreUnavailable()
    worker = Worker("test", fail, clock, backoff=QUICK)
    worker.start()
    first = eventually(lambda: worker.health().failing_since_ms)
    clock.advance(seconds=30)
    failure = ValueError("bug")
    health = eventually(lambda: (h := worker.health()).error == "ValueError" and h)
    assert (health.failing_since_ms, health.last_success_at_ms) == (first, None)
    worker.stop()


def test_the_log_has_one_line_for_each_kind_of_error_and_one_for_the_recovery(
    clock: ShiftedClock,
) -> None:
    steps = Steps(*(error for _ in range(10) for error in (StoreUnavailable(), ValueError("bug"))))
    with capture_logs() as lines:
        run(
            worker := Worker("test", steps, clock, backoff=QUICK),
            lambda: worker.health().last_success_at_ms,
        )
    events = [(line["event"], line["worker"]) for line in lines]
    assert events == [("worker_failed", "test")] * 2 + [("worker_recovered", "test")]
    assert lines[-1]["failures"] == 20


def test_a_period_repeats_the_step_and_a_step_may_choose_its_own_pause(clock: ShiftedClock) -> None:
    steps = Steps()
    run(Worker("test", steps, clock, period_s=0.01), lambda: steps.count > 3)
    pauses = iter([0.0, 0.0, 0.0, None])
    counts: list[int] = []

    def step() -> float | None:
        counts.append(1)
        return next(pauses, None)

    run(worker := Worker("test", step, clock), lambda: len(counts) == 4)
    assert worker.health().error is None


def test_without_a_period_it_waits_for_a_wake_up(clock: ShiftedClock) -> None:
    steps = Steps()
    worker = Worker("test", steps, clock)
    worker.start()
    eventually(lambda: steps.count == 1)
    time.sleep(0.05)
    assert steps.count == 1
    worker.wake()
    eventually(lambda: steps.count == 2)
    worker.stop()


def test_the_first_step_waits_for_its_time_or_a_wake_up(clock: ShiftedClock) -> None:
    for first_after_s in (0.05, 10 * PATIENCE_S):
        steps = Steps()
        worker = Worker("test", steps, clock, first_after_s=first_after_s)
        started_s = time.monotonic()
        worker.start()
        if first_after_s > PATIENCE_S:
            time.sleep(0.05)
            assert steps.count == 0
            worker.wake()
        eventually(lambda steps=steps: steps.count == 1)
        assert time.monotonic() - started_s >= 0.05
        worker.stop()


def test_workers_with_equal_times_do_not_run_at_the_same_moment(clock: ShiftedClock) -> None:
    began_s = list[float]()

    def step() -> None:
        began_s.append(time.monotonic())

    workers = [Worker("test", step, clock, first_after_s=0.3) for _ in range(10)]
    for worker in workers:
        worker.start()
    eventually(lambda: len(began_s) == len(workers))
    for worker in workers:
        worker.stop()
    assert max(began_s) - min(began_s) > 0.02


def test_a_stop_before_the_first_step_runs_only_the_last_one(clock: ShiftedClock) -> None:
    steps, last = Steps(), Steps()
    worker = Worker("test", steps, clock, first_after_s=10 * PATIENCE_S, last_step=last)
    worker.start()
    worker.stop()
    assert (steps.count, last.count) == (0, 1)


def test_workers_without_a_last_step_can_stop_together(clock: ShiftedClock) -> None:
    steps, last = Steps(), Steps()
    worker = Worker("test", steps, clock, period_s=0.01)
    other = Worker("other", steps, clock, period_s=10 * PATIENCE_S, last_step=last)
    for each in (worker, other):
        each.start()
    for each in (worker, other):
        each.begin_stop()
    assert (worker.is_stopping, other.is_stopping) == (True, False)
    assert last.count == 0
    for each in (worker, other):
        each.stop()
    assert last.count == 1


def test_a_wake_up_shortens_the_wait_after_a_failure_only_with_retry_on_wake(
    clock: ShiftedClock,
) -> None:
    for retry_on_wake in (False, True):
        steps = Steps(RuntimeError("bug"))
        worker = Worker("test", steps, clock, backoff=Backoff(60, 60), retry_on_wake=retry_on_wake)
        worker.start()
        eventually(lambda worker=worker: worker.health().error)
        worker.wake()
        if retry_on_wake:
            eventually(lambda steps=steps: steps.count == 2)
        else:
            time.sleep(0.05)
            assert steps.count == 1
        worker.stop()


def test_a_stop_runs_the_last_step_even_after_failures(clock: ShiftedClock) -> None:
    last = Steps()
    worker = Worker(
        "test", Steps(*[RuntimeError()] * 99), clock, last_step=last, backoff=Backoff(60, 60)
    )
    run(worker, lambda: worker.health().error)
    assert last.count == 1


def test_a_pause_inside_a_step_ends_at_the_stop(clock: ShiftedClock) -> None:
    started, finished = Event(), Event()

    def step() -> None:
        started.set()
        worker.pause(10 * PATIENCE_S)
        finished.set()

    worker = Worker("test", step, clock)
    worker.start()
    assert started.wait(PATIENCE_S)
    began_s = time.monotonic()
    worker.stop()
    assert time.monotonic() - began_s < PATIENCE_S
    assert not finished.is_set()


def test_a_step_without_progress_counts_as_failing(clock: ShiftedClock) -> None:
    started, may_end = Event(), Event()

    def step() -> None:
        started.set()
        may_end.wait(PATIENCE_S)

    worker = Worker("test", step, clock, stalled_after_s=300)
    worker.start()
    assert started.wait(PATIENCE_S)
    assert worker.health().error is None
    clock.advance(seconds=301)
    assert worker.health().error == "Stalled"
    worker.report_progress()
    assert worker.health().error is None
    may_end.set()
    worker.stop()


def test_delays_double_up_to_a_limit_with_jitter() -> None:
    backoff = Backoff(first_s=1, longest_s=8)
    for failures, whole_s in ((1, 1), (2, 2), (4, 8), (10_000, 8)):
        delays = {backoff.delay_s(failures) for _ in range(20)}
        assert all(whole_s / 2 <= delay_s <= whole_s for delay_s in delays)
        assert len(delays) > 1
