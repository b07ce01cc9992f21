"""Counting attempts."""

import pytest

from penstock.base.errors import RateLimited, RatePolicy
from penstock.http.rate_limiter import RateLimiter


class ElapsedTime:
    """A clock whose time of day jumps as it likes."""

    ms = 0

    def __call__(self) -> int:
        raise AssertionError("limits must not depend on the time of day")

    def elapsed_ms(self) -> int:
        return self.ms


@pytest.fixture
def time() -> ElapsedTime:
    return ElapsedTime()


def is_refused(attempts: RateLimiter, key: str) -> bool:
    try:
        attempts.count((key,))
    except RateLimited:
        return True
    return False


def test_the_window_opens_with_the_first_attempt_and_ends_to_the_millisecond(time):
    attempts, refused = RateLimiter(RatePolicy("login", quota=2, window_s=10), time), []
    for time.ms in (5_000, 9_000, 14_999, 15_000, 15_001, 15_002):
        if is_refused(attempts, "a"):
            refused.append(time.ms)
    assert refused == [14_999, 15_002]


def test_the_wait_is_rounded_up_to_whole_seconds(time):
    attempts = RateLimiter(RatePolicy("login", quota=1, window_s=10), time)
    attempts.count(("a",))
    time.ms = 8_999
    with pytest.raises(RateLimited) as error:
        attempts.count(("a",))
    assert error.value.retry_after_s == 2


def test_the_number_of_counters_is_bounded_and_the_newest_stay(time):
    attempts = RateLimiter(RatePolicy("login", quota=1, window_s=10), time)
    for number in range(120_000):
        attempts.count((str(number),))
    assert len(attempts._counters) <= 50_000
    assert is_refused(attempts, "119999")
