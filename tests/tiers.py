"""Chooses the tests of a run: `make quick`, `make test` or `make test-full`.

A test belongs to the cheapest tier that can find its fault. Its marks and fixtures say which:

| tier | includes |
|---|---|
| quick | tests of code and of the application without the event store |
| test | also tests that use the event store, start a service, a browser or a database |
| full | also tests marked `full`, and repetitions on PostgreSQL |

A run that only names tests, such as `make test ARGS=tests/links` or plain `pytest`, is a full one.
"""

import os
from collections.abc import Callable, Iterable
from enum import StrEnum
from itertools import islice

import pytest
from hypothesis import is_hypothesis_test

from tests.programs import PROGRAMS


class Tier(StrEnum):
    """A kind of run. Each includes the tests of those before it."""

    QUICK = "quick"
    TEST = "test"
    FULL = "full"


TIER = Tier(os.environ.get("PENSTOCK_TIER", Tier.FULL))
"""The tier of this run."""

_ALL_DATABASES = os.environ.get("PENSTOCK_DATABASES") == "all"

_NOT_QUICK = {*PROGRAMS, "warehouse"}
"""Fixtures of tests that `make quick` leaves out."""


def choose(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Remove the tests that do not belong to this run's tier from `items`."""
    left_out = set[pytest.Item]()
    for item in items:
        _check_reasons(item)
        if not _belongs(item):
            left_out.add(item)
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def is_for_full_tier(marks: Iterable[pytest.Mark | pytest.MarkDecorator]) -> bool:
    """Whether a case with these marks runs only in `make test-full`."""
    return any(mark.name == "full" for mark in marks)


def _belongs(item: pytest.Item) -> bool:
    if _repeats_on_postgres(item):
        return False
    if TIER is Tier.FULL:
        return True
    return not is_for_full_tier(item.iter_markers()) and (TIER is Tier.TEST or _is_quick(item))


def _check_reasons(item: pytest.Item) -> None:
    for mark in item.iter_markers():
        if mark.name in ("slow", "full") and not (mark.args and isinstance(mark.args[0], str)):
            raise pytest.UsageError(f"{item.nodeid}: pytest.mark.{mark.name} needs a reason")


def _runs_on_postgres(item: pytest.Item) -> bool:
    return (
        isinstance(item, pytest.Function)
        and hasattr(item, "callspec")
        and item.callspec.params.get("database_url") == "postgresql"
    )


def _repeats_on_postgres(item: pytest.Item) -> bool:
    """Whether the test would run on both databases although it does not cover their differences.

    `every_database` marks tests of differences: locks, conflicts, searches, order, unusual
    characters, large numbers, deletions. In addition, `tests/fuzz/test_api.py` calls every
    operation on PostgreSQL in each run.
    """
    if _ALL_DATABASES or not _runs_on_postgres(item):
        return False
    return item.get_closest_marker("every_database") is None


def _is_quick(item: pytest.Item) -> bool:
    assert isinstance(item, pytest.Function)
    return not (
        item.get_closest_marker("slow")
        or is_hypothesis_test(item.function)
        or _runs_on_postgres(item)
        or _NOT_QUICK.intersection(item.fixturenames)
    )


def arrange_for_workers(items: list[pytest.Item], workers: int) -> None:
    """Move tests that take long or share expensive fixtures to the start of a worker's share.

    `--dist worksteal` gives each worker a share of the list and runs it from the start. A worker
    that has finished takes tests from the end of the longest remaining share, where short tests
    should be. The first share starts with browser tests, the others with slow tests in turn.
    """
    browser, others = _split(items, lambda item: item.nodeid.startswith("tests/browser/"))
    slow, short = _split(others, lambda item: item.get_closest_marker("slow") is not None)
    firsts = [browser, *(slow[at :: workers - 1] for at in range(workers - 1))]
    share, rest = len(items) // workers, iter(short)
    items[:] = [
        item for first in firsts for item in (*first, *islice(rest, max(0, share - len(first))))
    ]
    items.extend(rest)


def _split(
    items: Iterable[pytest.Item], condition: Callable[[pytest.Item], bool]
) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the items that meet the condition, and the others."""
    chosen, others = list[pytest.Item](), list[pytest.Item]()
    for item in items:
        (chosen if condition(item) else others).append(item)
    return chosen, others
