"""Measures a report over two shards: whole, on the queried server, and with a shared fold.

    .venv/bin/python -m bench.shared_fold [STEP_EVENTS]

Starts two ClickHouse servers, stores the benchmark's events in them, and counts the same funnel in
both ways, which must return the same rows. Prints a row for each way, from `system.query_log`:

    MiB first, MiB other   peak memory of a server: the sum over its queries that run at once
    MiB received           what the queried server received from the other one, and the part of it
                           that is not events
    CPU s                  of both servers
"""

import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.clickhouse_server import CLUSTER_RIGHTS, DATABASE, ClickHouseServer, Ports, free_ports
from tests.funnels.reports import shaped
from tests.sharded import ShardedWarehouse

from bench.data import WEBSITE_ID, Dataset, insert
from bench.funnels import PARAMS, funnel
from penstock.funnels.queries.engine import ENGINE_SETTINGS
from penstock.funnels.queries.profiles import read_profile
from penstock.funnels.queries.shared_fold import SharedFolds
from penstock.funnels.statements import shared_fold
from penstock.funnels.statements.report import build_export
from penstock.warehouse import migrations
from penstock.warehouse.connections import Result

_RIGHTS = (*CLUSTER_RIGHTS, "GRANT READ ON FILE", "GRANT CREATE TEMPORARY TABLE ON *.*")
_NOW = "SELECT toUnixTimestamp64Micro(now64(6))"
_QUERIES = """
SELECT query_kind, is_initial_query, memory_usage / 1048576,
    ProfileEvents['OSCPUVirtualTimeMicroseconds'] / 1e6,
    ProfileEvents['NetworkReceiveBytes'] / 1048576
FROM system.query_log
WHERE type = 'QueryFinish' AND query_kind IN ('Select', 'Insert')
    AND event_time_microseconds >= fromUnixTimestamp64Micro({since})
    AND NOT has(databases, 'system') AND query NOT LIKE 'SELECT toUnixTimestamp64Micro%'
FORMAT TSV
"""


class LoggingServer(ClickHouseServer):
    """A server that logs its queries."""

    def _config_with(self, more: str) -> str:
        log = "<query_log><database>system</database><table>query_log</table></query_log>"
        return super()._config_with(more + log)

    def queries_since(self, since: int) -> list[list[str]]:
        self.execute("SYSTEM FLUSH LOGS")
        lines = self.execute(_QUERIES.format(since=since)).splitlines()
        return [line.split("\t") for line in lines]


@contextmanager
def started(folder: Path, step_events: int) -> Iterator[tuple[list[LoggingServer], Any]]:
    """Start two servers with the benchmark's events, without merges or the catalogue."""
    ports: tuple[Ports, ...] = (free_ports(), free_ports())
    servers = [LoggingServer(folder / str(own.tcp), _RIGHTS, own, cluster=ports) for own in ports]
    whole = ShardedWarehouse(folder, servers)
    migrations.migrate(whole)
    for server in servers:
        server.execute(f"DROP VIEW {DATABASE}.catalogue_feed")
        server.execute(f"SYSTEM STOP MERGES {DATABASE}.events_local")
    insert(whole, Dataset(6, step_events, min(1_000_000, step_events)), WEBSITE_ID, folder)
    try:
        yield servers, whole
    finally:
        whole.close_all()
        for server in servers:
            server.stop()


def measure(servers: Sequence[LoggingServer], way: str, job: Callable[[], Result]) -> Result:
    since = int(servers[0].execute(_NOW))
    result = job()
    memory, cpu_s, received, other = [], 0.0, 0.0, 0.0
    for server in servers:
        at_once = defaultdict[str, float](
            float
        )  # The sending of events ends before the fold starts.
        for kind, is_initial, mib, seconds, received_mib in server.queries_since(since):
            at_once[kind] += float(mib)
            cpu_s += float(seconds)
            if server is servers[0] and kind == "Select" and is_initial == "1":
                other += float(received_mib)
            if server is servers[0]:
                received += float(received_mib)
        memory.append(max(at_once.values()))
    first, second = memory
    print(f"| {way} | {first:.0f} | {second:.0f} | {received:.1f} | {other:.1f} | {cpu_s:.1f} |")
    return result


def main(step_events: int) -> None:
    shared_fold.WORTH_SHARING = 0
    with tempfile.TemporaryDirectory() as folder, started(Path(folder), step_events) as running:
        servers, warehouse = running
        profile, definition = read_profile(warehouse, PARAMS), funnel()
        statement = build_export(definition, PARAMS, profile)
        settings = {**ENGINE_SETTINGS, **statement.settings, "max_execution_time": 600}
        folds = SharedFolds(warehouse)
        print(f"{profile.events:,} events")
        print("| way | MiB first | MiB other | MiB received | of which results | CPU s |")
        print("|---|---:|---:|---:|---:|---:|")
        for _ in range(2):
            whole = measure(
                servers,
                "whole",
                lambda: warehouse.query(statement.sql, statement.parameters, settings),
            )
            shared = measure(servers, "shared", lambda: folds.query(statement, settings))
            same = shaped(definition, PARAMS, *whole) == shaped(definition, PARAMS, *shared)
            assert same
            assert folds.is_sharing


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4_000_000)
