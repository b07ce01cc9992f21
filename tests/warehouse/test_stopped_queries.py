"""A stopped query leaves no rows for the next one, which may belong to another workspace."""

from concurrent.futures import ThreadPoolExecutor
from random import Random
from threading import Timer
from time import monotonic

import pytest

from penstock.warehouse.client import Warehouse
from penstock.warehouse.work import Stopped, Work, working_on

MANY_ROWS = """
SELECT {n:UInt64} AS n FROM numbers(400000)
WHERE sipHash64(number) % 7 = 1 ORDER BY sipHash64(number) LIMIT 50"""
ONE_ROW = "SELECT {n:UInt64} AS n"


def rows_of_others(warehouse: Warehouse, seed: int, until_s: float) -> list[object]:
    """Run queries, stop half of the long ones, and return the results that were wrong."""
    random, strays = Random(seed), list[object]()
    while monotonic() < until_s:
        n, rows = random.randrange(10**9), random.choice([1, 50])
        work = Work(owner=f"workspace {seed % 3}")
        stop = Timer(random.random() * 0.06, warehouse.stop, [work])
        if rows > 1:
            stop.start()
        try:
            with working_on(work):
                result = warehouse.query(MANY_ROWS if rows > 1 else ONE_ROW, {"n": n})[1]
            if [tuple(row) for row in result] != [(n,)] * rows:
                strays.append((n, result))
        except Stopped:
            pass
        finally:
            stop.cancel()
    return strays


@pytest.mark.slow("stops queries at random moments for seconds")
@pytest.mark.parametrize("lasting_s", [1, pytest.param(4, marks=pytest.mark.full("more queries"))])
def test_no_query_gets_rows_of_a_stopped_query(warehouse: Warehouse, lasting_s: int) -> None:
    until_s = monotonic() + lasting_s
    with ThreadPoolExecutor() as threads:
        runs = [threads.submit(rows_of_others, warehouse, seed, until_s) for seed in range(8)]
        assert [run.result() for run in runs] == [[]] * 8
