"""Counting attempts."""

import pytest

from penstock.base.errors import RateLimited, RatePolicy
from penstock.http.rate_limiter import RateLimiter


def is_refused(attempts: RateLimiter, key: str, now_ms: int) -> bool:
    try:
        attempts.count((key,), now_ms)
    except RateLimited:
        return True
    return False


def test_the_window_opens_with_the_first_attempt_and_ends_to_the_millisecond():
    attempts = RateLimiter(RatePolicy("login", quota=2, window_s=10))
    times_ms = (5_000, 9_000, 14_999, 15_000, 15_001, 15_002)
    assert [now_ms for now_ms in times_ms if is_refused(attempts, "a", now_ms)] == [
        14_999,
        15_002,
    ]


def test_the_wait_is_rounded_up_to_whole_seconds():
    attempts = RateLimiter(RatePolicy("login", quota=1, window_s=10))
    attempts.count(("a",), 0)
    with pytest.raises(RateLimited) as error:
        attempts.count(("a",), 8_999)
    assert error.value.retry_after_s == 2


def test_the_number_of_counters_is_bounded_and_the_newest_stay():
    attempts = RateLimiter(RatePolicy("login", quota=1, window_s=10))
    for number in range(120_000):
        attempts.count((str(number),), 0)
    assert len(attempts._counters) <= 50_000
    assert is_refused(attempts, "119999", 1)
