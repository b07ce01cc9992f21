"""An event store over HTTP: statements, inserts, stops and broken responses."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from threading import Event, Thread
from time import monotonic
from typing import Any
from uuid import uuid4

import pytest

from penstock.base.errors import StoreUnavailable, Unavailable
from penstock.funnels.outcomes import rows as rows_module
from penstock.funnels.outcomes.rows import OutcomeRows
from penstock.warehouse import connections
from penstock.warehouse import server as server_module
from penstock.warehouse.client import Warehouse
from penstock.warehouse.errors import QueryFailed
from penstock.warehouse.work import Stopped, Work, working_on
from tests.clickhouse_server import ClickHouseServer
from tests.proxy import FaultyProxy
from tests.recording_warehouse import BURNING, ENDLESS, MUCH_MEMORY, TWO_SECONDS
from tests.serving import environment
from tests.waiting import PATIENCE_S, eventually

ALIAS = ["scope_id", "visitor_id", "canonical_id", "version"]
UNKNOWN_TABLE, THROWN, UNREADABLE = 60, 395, 26


def alias(scope: str, visitor: str) -> bytes:
    row = f'{{"scope_id":"{scope}","visitor_id":"{visitor}","canonical_id":"c","version":1}}'
    return row.encode()


def stored(warehouse: Warehouse, scope: str) -> int:
    statement = "SELECT count() FROM visitor_aliases WHERE scope_id = {scope:String}"
    [[rows]] = warehouse.query(statement, {"scope": scope})[1]
    return int(rows)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("String", "tab\t, quote ', backslash \\, {x:String}, line\n, zero\0, \u00e9\u4e2d"),
        ("Array(String)", ["a'b", "", "c\td\\", "\u00e9"]),
        ("Array(String)", ["long"] * 20_000),
        ("Array(String)", ["\u4e2d'\\" * 50] * 5_000),
        ("Array(UInt64)", [0, 2**64 - 1]),
        ("Array(UInt64)", [*range(2**64 - 7_000, 2**64)]),
        ("Int64", -(2**63)),
        ("Float64", 0.1),
        ("Nullable(String)", None),
        ("Bool", True),
    ],
    ids=[
        "text",
        "texts",
        "form",
        "fields",
        "keys",
        "many keys",
        "integer",
        "float",
        "null",
        "boolean",
    ],
)
def test_parameters_arrive_unchanged(over_http: Warehouse, kind: str, value: Any) -> None:
    assert over_http.query(f"SELECT {{value:{kind}}} AS value", {"value": value}) == (
        ("value",),
        [(value,)],
    )


def test_a_token_is_stored_once(over_http: Warehouse) -> None:
    scope, other = uuid4().hex, uuid4().hex
    for token, rows in [(scope, 1), (scope, 1), (other, 2)]:
        over_http.insert_json_rows("visitor_aliases", alias(scope, "v"), ALIAS, token)
        assert stored(over_http, scope) == rows


def test_an_insert_that_is_refused_stores_nothing(over_http: Warehouse) -> None:
    scope = uuid4().hex
    rows = alias(scope, "v") + b'\n{"scope_id":'
    with pytest.raises(QueryFailed) as raised:
        over_http.insert_json_rows("visitor_aliases", rows, ALIAS, scope)
    assert raised.value.code == UNREADABLE
    assert stored(over_http, scope) == 0


def test_a_refused_statement_has_the_code_of_the_engine(over_http: Warehouse) -> None:
    with pytest.raises(QueryFailed) as raised:
        over_http.query("SELECT * FROM nowhere")
    assert raised.value.code == UNKNOWN_TABLE
    with pytest.raises(QueryFailed) as raised:
        over_http.command("ALTER TABLE nowhere DELETE WHERE 1")
    assert raised.value.code == UNKNOWN_TABLE


@pytest.mark.parametrize(
    ("limits", "statement", "code"),
    [
        ({"max_execution_time": 0.2}, TWO_SECONDS, "query_timeout"),
        ({"max_memory_usage": 10_000_000}, MUCH_MEMORY, "query_too_large"),
    ],
)
def test_the_error_names_the_exceeded_limit(
    over_http: Warehouse, limits: dict[str, float], statement: str, code: str
) -> None:
    with working_on(Work(limits)), pytest.raises(Unavailable) as raised:
        over_http.fetch_rows(statement, {})
    assert raised.value.code == code


@pytest.mark.parametrize("statement", [ENDLESS, BURNING], ids=["waiting", "reading"])
def test_a_stopped_query_ends_in_the_server(over_http: Warehouse, statement: str) -> None:
    work = Work()

    def run() -> None:
        with working_on(work):
            over_http.query(statement)

    with ThreadPoolExecutor() as threads:
        running = threads.submit(run)
        eventually(lambda: over_http.progress(work).rows_to_read > 0)
        over_http.stop(work)
        with pytest.raises(Stopped):
            running.result()
    assert over_http.progress(work).rows_to_read == 0


@pytest.mark.parametrize("is_stream", [False, True], ids=["query", "stream"])
@pytest.mark.parametrize("statement", [ENDLESS, BURNING], ids=["waiting", "reading"])
def test_a_query_ends_when_its_client_disconnects(
    own_http: Warehouse,
    behind_proxy: Warehouse,
    proxy: FaultyProxy,
    statement: str,
    is_stream: bool,
) -> None:
    work = Work({"max_execution_time": 100})

    def run() -> None:
        with working_on(work):
            if not is_stream:
                behind_proxy.query(statement)
            with behind_proxy.stream_blocks(statement, {}, {}) as blocks:
                list(blocks)

    with ThreadPoolExecutor() as threads:
        running = threads.submit(run)
        eventually(lambda: own_http.progress(work).rows_to_read > 0)
        proxy.close()
        with pytest.raises(StoreUnavailable):
            running.result()
    eventually(lambda: own_http.progress(work).rows_to_read == 0, within_s=10)


@pytest.mark.usefixtures("warehouse")
def test_each_reader_runs_a_query_at_the_same_time(over_http: Warehouse) -> None:
    work = [Work(owner=str(number)) for number in range(12)]

    def run(each: Work) -> None:
        with working_on(each):
            over_http.query(ENDLESS)

    with ThreadPoolExecutor(len(work)) as threads:
        running = [threads.submit(run, each) for each in work]
        try:
            eventually(lambda: all(over_http.progress(each).rows_to_read for each in work))
        finally:
            for each in work:
                over_http.stop(each)
        for each in running:
            with pytest.raises(Stopped):
                each.result()


def test_a_stream_has_every_row_and_reports_a_late_error(over_http: Warehouse) -> None:
    numbers = "SELECT number, {text:String} AS text FROM numbers({rows:UInt64})"
    for rows in (0, 1, 200_000):
        parameters = {"rows": rows, "text": "it's"}
        with over_http.stream_blocks(numbers, parameters, {"max_block_size": 10_000}) as blocks:
            received = [row for _, block in blocks for row in block]
        assert received == [(number, "it's") for number in range(rows)]
    failing = "SELECT throwIf(number = 150000) FROM numbers(200000)"
    with (
        pytest.raises(QueryFailed) as raised,
        over_http.stream_blocks(failing, {}, {"max_threads": 1}) as blocks,
    ):
        list(blocks)
    assert raised.value.code == THROWN


def test_an_abandoned_stream_frees_its_reader(over_http: Warehouse) -> None:
    for _ in range(3):
        with over_http.stream_blocks("SELECT number FROM numbers(1000000)", {}, {}) as blocks:
            next(blocks)
    assert over_http.query("SELECT 1")[1] == [(1,)]


@pytest.mark.parametrize("is_stream", [False, True], ids=["query", "stream"])
@pytest.mark.slow("cuts a response at many positions")
@pytest.mark.parametrize(
    "step", [10, pytest.param(1, marks=pytest.mark.full("cuts a response at each position"))]
)
def test_a_truncated_response_is_never_taken_for_complete(
    behind_proxy: Warehouse, proxy: FaultyProxy, is_stream: bool, step: int
) -> None:
    statement = "SELECT number, toString(sipHash64(number)) FROM numbers(3000)"

    def rows() -> list[Any]:
        if not is_stream:
            return list(behind_proxy.query(statement)[1])
        with behind_proxy.stream_blocks(statement, {}, {"max_block_size": 500}) as blocks:
            return [row for _, block in blocks for row in block]

    whole, random, cut = rows(), Random(), 0
    heads = range(220, 330, step)  # The last headers and the first bytes of the rows are here.
    for after in (*heads, 1_000, *(random.randrange(60_000) for _ in range(30 // step))):
        proxy.cut_answers(after)
        try:
            received = rows()
        except StoreUnavailable:
            cut += 1
        else:
            assert received == whole, after
        proxy.cut_answers(None)
    assert cut > len(heads)
    assert rows() == whole


def test_an_insert_whose_response_is_lost_is_stored_once(
    own_http: Warehouse, behind_proxy: Warehouse, proxy: FaultyProxy
) -> None:
    scope = uuid4().hex
    proxy.cut_answers(0)
    with pytest.raises(StoreUnavailable):
        behind_proxy.insert_json_rows("visitor_aliases", alias(scope, "v"), ALIAS, scope)
    assert stored(own_http, scope) == 1
    proxy.cut_answers(None)
    behind_proxy.insert_json_rows("visitor_aliases", alias(scope, "v"), ALIAS, scope)
    assert stored(own_http, scope) == 1


def test_a_server_that_hangs_holds_no_query_longer_than_its_limit(
    behind_proxy: Warehouse, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "_MARGIN_S", 0.2)
    assert behind_proxy.query("SELECT 1")[1] == [(1,)]
    proxy.freeze()
    began_s = monotonic()
    with working_on(Work({"max_execution_time": 0.5})), pytest.raises(StoreUnavailable) as raised:
        behind_proxy.query("SELECT 1")
    assert monotonic() - began_s < PATIENCE_S
    assert raised.value.retry_after_s
    proxy.thaw()
    assert behind_proxy.query("SELECT 1")[1] == [(1,)]


def test_a_build_on_a_server_that_hangs_is_given_up(
    clickhouse: ClickHouseServer,
    proxy: FaultyProxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "_WATCH_S", 1)
    monkeypatch.setattr(rows_module, "_STOP_S", 0.5)
    warehouse = Warehouse(data=tmp_path, url=clickhouse.url_behind(proxy.port))
    rows, build, stopped = OutcomeRows(warehouse), Work(), Event()

    def stop() -> None:
        rows.stop(build)
        stopped.set()

    proxy.freeze()
    with build.run_in_engine():
        Thread(target=stop, daemon=True).start()
        assert stopped.wait(PATIENCE_S)
    assert rows.has_stopped_merges, "the worker resumes them"
    proxy.thaw()
    rows.resume_merges()
    assert not rows.has_stopped_merges
    warehouse.close()


def test_the_client_waits_for_a_slow_response_while_the_server_reports_progress(
    clickhouse: ClickHouseServer,
) -> None:
    client = server_module.Server(clickhouse.url, 1, {}).connect(1)
    client._backend.progress_interval = "100"
    assert client.query(TWO_SECONDS).result_rows == [(0,)]


def test_the_reason_names_the_address_of_the_server_but_the_response_does_not(
    behind_proxy: Warehouse, proxy: FaultyProxy
) -> None:
    proxy.close()
    with pytest.raises(StoreUnavailable) as raised:
        behind_proxy.query("SELECT 1")
    assert "127.0.0.1" in raised.value.reason
    assert "127.0.0.1" not in raised.value.detail
    assert not behind_proxy.answers()
    assert not behind_proxy.accepts_inserts()


_QUERY = """
import sys
from pathlib import Path

from penstock.warehouse.client import Warehouse

Warehouse(data=Path(sys.argv[1]), url=sys.argv[2]).query(sys.argv[3])
"""


def test_a_query_of_a_killed_node_ends_within_two_seconds(
    clickhouse: ClickHouseServer, tmp_path: Path
) -> None:
    def queries() -> int:
        count = (
            "SELECT count() FROM system.processes WHERE user = 'penstock' AND query LIKE '%% 7%'"
        )
        return int(clickhouse.execute(count))

    node = subprocess.Popen(
        [sys.executable, "-c", _QUERY, tmp_path, clickhouse.url, BURNING], env=environment()
    )
    eventually(queries)
    node.kill()
    node.wait()
    killed_s = monotonic()
    eventually(lambda: not queries())
    assert monotonic() - killed_s < 2
