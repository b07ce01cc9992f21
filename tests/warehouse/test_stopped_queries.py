"""A stopped query leaves no rows for the next one, and nobody waits for an overdue query."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from threading import Timer
from time import monotonic, process_time

import pytest

from penstock.warehouse.client import Warehouse
from penstock.warehouse.errors import TIMEOUT_EXCEEDED, QueryFailed
from penstock.warehouse.work import Stopped, Work, working_on
from tests.waiting import eventually

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


BUSY = """
SELECT sum(match(
    arrayStringConcat(arrayMap(i -> if(bitTest(sipHash64(number, i), 0), 'a', 'b'), range(4000))),
    '[ab]*a[ab]{900}c'))
FROM numbers(150) WHERE {n:UInt64} = 1"""
"""A statement of one block, which takes three seconds of CPU time. The engine cannot end it."""


@pytest.fixture
def impatient(warehouse: Warehouse) -> Iterator[Warehouse]:
    """A warehouse with one query per workspace, which leaves a statement after half a second."""
    if warehouse.folder is None:
        pytest.skip("a server ends its statements itself")
    small = Warehouse(data=warehouse.folder.parent, url=None, readers=2, patience_s=0.5)
    yield small
    eventually(lambda: small.overdue_statements == 0)
    small.close()


def run(warehouse: Warehouse, work: Work, sql: str = ONE_ROW) -> None:
    with working_on(work):
        warehouse.query(sql, {"n": 1})


def leave_busy_engine(warehouse: Warehouse, owner: str) -> None:
    """Stop a statement that the engine continues."""
    work, began_s = Work(owner=owner), process_time()
    with ThreadPoolExecutor() as threads:
        query = threads.submit(run, warehouse, work, BUSY)
        eventually(lambda: process_time() - began_s > 0.5)
        warehouse.stop(work)
        assert isinstance(query.exception(), Stopped)
    assert warehouse.overdue_statements == 1


@pytest.mark.slow("waits until the engine ends a statement of one block")
def test_a_statement_is_left_after_its_limit(impatient: Warehouse) -> None:
    with pytest.raises(QueryFailed) as failed:
        run(impatient, Work({"max_execution_time": 1}), BUSY)
    assert failed.value.code == TIMEOUT_EXCEEDED
    assert impatient.overdue_statements == 1


@pytest.mark.slow("waits until the engine ends a statement of one block")
def test_an_overdue_statement_frees_its_reader_for_others_and_not_for_its_owner(
    impatient: Warehouse,
) -> None:
    leave_busy_engine(impatient, "a")
    run(impatient, Work(owner="b"))
    run(impatient, Work(owner="c"))
    assert impatient.overdue_statements == 1
    run(impatient, Work(owner="a"))  # waits
    assert impatient.overdue_statements == 0


@pytest.mark.slow("waits until the engine ends a statement of one block")
def test_a_warehouse_closes_while_the_engine_is_busy(impatient: Warehouse) -> None:
    leave_busy_engine(impatient, "a")
    impatient.close()
    assert impatient.is_left_open
    assert impatient.overdue_statements == 1


def test_a_stop_ends_all_that_only_this_work_waits_for() -> None:
    """Shared work may itself wait for other shared work, for which others may wait too."""
    first, second, shared, statement = (Work() for _ in range(4))
    for waiting, awaited in ((first, shared), (second, shared), (shared, statement)):
        assert waiting.begin_wait(awaited)
    assert first.stop() == [first]
    assert second.stop() == [second, shared, statement]
