"""A prototype of two shards that share the fold of a report. It is not part of the product.

    .venv/bin/python -m bench.shared_fold [STEP_EVENTS]

Starts two ClickHouse servers, stores the benchmark's events in them, and counts the same funnel in
several ways. Each way must return the same rows as today's statement. Prints the bytes that the
queried server received, and the CPU time of each server.

    today       the queried server gathers the matching events and folds all units
    exchanges   the engine's own distributed plans (`make_distributed_plan`)
    by unit     each shard sends its matching events to the shard of their unit, which folds them
    changes     finds the units that a shipment changed by a column `shipment`, and folds only those
"""

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import sysconf
from pathlib import Path
from typing import Any, NamedTuple

from tests.clickhouse_server import CLUSTER, CLUSTER_RIGHTS, DATABASE, ClickHouseServer, free_ports
from tests.sharded import ShardedWarehouse

from bench.data import STARTED_MS, WEBSITE_ID, Dataset, insert
from bench.funnels import PARAMS, funnel
from penstock.funnels.queries.engine import ENGINE_SETTINGS
from penstock.funnels.queries.profiles import read_profile
from penstock.funnels.statements import figures
from penstock.funnels.statements.cohorts import entry_values
from penstock.funnels.statements.counted_units import counted_units
from penstock.funnels.statements.events import matched_events
from penstock.funnels.statements.query import Plan
from penstock.funnels.statements.relations import compose
from penstock.funnels.statements.report import report_relations
from penstock.warehouse import migrations
from penstock.warehouse.client import Warehouse
from penstock.warehouse.errors import QueryFailed

Rows = Sequence[Sequence[Any]]

_RIGHTS = (*CLUSTER_RIGHTS, "GRANT READ ON FILE", "GRANT CREATE TEMPORARY TABLE ON *.*")
_TICKS = sysconf("SC_CLK_TCK")
_SHIPMENTS = 1_000
_RECEIVED = "SELECT sum(value) FROM system.events WHERE event = 'NetworkReceiveBytes'"
_ALL = "SELECT * FROM ranked ORDER BY is_total DESC, rank"
_UNITS = "SELECT count(), sum(cityHash64(unit, keys, reached, entry_ts, done_ts)) FROM counted"
_LOCAL = {**ENGINE_SETTINGS, "distributed_foreground_insert": 1, "prefer_localhost_replica": 1}


class Usage(NamedTuple):
    """Resources used by a query. cpu_s: CPU time of each server in seconds, the queried server
    first.
    """

    received_mib: float
    cpu_s: list[float]


class Shards:
    """Two servers with Penstock's tables. Queries are sent to the first server."""

    def __init__(self, servers: Sequence[ClickHouseServer], whole: ShardedWarehouse) -> None:
        self.servers, self.whole = servers, whole
        self.each = [Warehouse(data=Path(), url=server.url) for server in servers]

    def execute(self, statement: str) -> None:
        """Run a statement on each server, as the administrator."""
        for server in self.servers:
            server.execute(statement)

    def measure(self, job: Callable[[], Rows]) -> tuple[Rows, Usage]:
        received, cpu_s = self._received(), [_cpu_s(server) for server in self.servers]
        rows = job()
        used = [_cpu_s(server) - before for server, before in zip(self.servers, cpu_s, strict=True)]
        return rows, Usage((self._received() - received) / 2**20, used)

    def _received(self) -> int:
        return int(self.servers[0].execute(_RECEIVED))


def _cpu_s(server: ClickHouseServer) -> float:
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


@contextmanager
def started(folder: Path, step_events: int) -> Iterator[Shards]:
    """Start two servers with the benchmark's events, without merges or the catalogue."""
    ports = (free_ports(), free_ports())
    servers = [
        ClickHouseServer(folder / str(own.tcp), _RIGHTS, own, cluster=ports) for own in ports
    ]
    whole = ShardedWarehouse(folder, servers)
    migrations.migrate(whole)
    shards = Shards(servers, whole)
    shards.execute(f"DROP VIEW {DATABASE}.catalogue_feed")
    shards.execute("SYSTEM STOP MERGES")
    block_events = min(1_000_000, step_events)
    insert(whole, Dataset(6, step_events, block_events), WEBSITE_ID, folder)
    try:
        yield shards
    finally:
        for each in shards.each:
            each.close()
        whole.close_all()
        for server in servers:
            server.stop()


class Funnel:
    """The benchmark's funnel over all events, in several ways."""

    def __init__(self, shards: Shards) -> None:
        self.shards, self.profile = shards, read_profile(shards.whole, PARAMS)

    def plan(self) -> Plan:
        return Plan(funnel(), PARAMS, self.profile)

    def _ask(
        self,
        plan: Plan,
        relations: Mapping[str, str],
        tail: str = _ALL,
        settings: Mapping[str, Any] | None = None,
    ) -> Rows:
        statement = compose(plan, relations, tail)
        all_settings = {**ENGINE_SETTINGS, **statement.settings, **(settings or {})}
        return self.shards.whole.query(statement.sql, statement.parameters, all_settings)[1]

    def today(self, settings: Mapping[str, Any] | None = None) -> Rows:
        plan = self.plan()
        return self._ask(plan, report_relations(plan), settings=settings)

    def by_unit(self) -> Rows:
        """Exchange the matching events, fold on each shard, and add up the cohorts of both."""
        plan = self.plan()
        relations = report_relations(plan)
        parts = [name for name in ("folded", "simple", "unitless") if name in relations]
        own = {**relations, "matched": "SELECT * FROM exchanged_local"}
        del own["grouped"], own["ranked"]
        columns = figures.columns(plan)
        rows = " UNION ALL ".join(f"SELECT keys, {columns} FROM {part}" for part in parts)
        cohorts = compose(plan, own, rows)
        local = relations["matched"].replace("FROM events", "FROM events_local AS events")
        parameters = plan.binder.values
        self._fill("exchanged", local, parameters, "unit")
        self._fill("cohorts", cohorts.sql, parameters, None)
        for name in relations.keys() - {"entry_values", "grouped", "ranked"}:
            del relations[name]
        shared = {"folded": "SELECT * FROM cohorts"}
        shared |= {name: "SELECT * FROM cohorts WHERE 0" for name in parts if name != "folded"}
        return self._ask(plan, {**shared, **relations})

    def _fill(
        self, table: str, select: str, parameters: Mapping[str, Any], key: str | None
    ) -> None:
        """Store each server's rows: locally, or in the shards selected by a key."""
        for each in self.shards.each:
            each.query(
                f"CREATE OR REPLACE TABLE {table}_local ENGINE = Memory EMPTY AS {select}",
                parameters,
                _LOCAL,
            )
            each.command(
                f"CREATE OR REPLACE TABLE {table} AS {table}_local "
                f"ENGINE = Distributed({CLUSTER}, currentDatabase(), {table}_local, {key or 1})"
            )
        target = table if key else f"{table}_local"
        for each in self.shards.each:
            each.query(f"INSERT INTO {target} {select}", parameters, _LOCAL)

    def changed(self) -> Rows:
        """Return the units with events from the last shipment."""
        plan = self.plan()
        matched = matched_events(plan, where=f"events.shipment >= {_SHIPMENTS - 1}")
        return self._ask(plan, {"matched": matched}, "SELECT DISTINCT unit FROM matched")

    def units(self, where: str = "1", units: str = "") -> Rows:
        """Return the number and checksum of counted units.

        where: a condition on events. units: a condition on units.
        """
        plan = self.plan()
        relations = counted_units(plan)
        relations["matched"] = f"SELECT * FROM ({matched_events(plan, where=where)}) {units}"
        relations["entry_values"] = entry_values(plan)
        return self._ask(plan, relations, _UNITS)


def _number_shipments(shards: Shards) -> None:
    """Number a thousand shipments by time, as if events had been shipped immediately."""
    table = f"{DATABASE}.events_local"
    span_ms = 60 * 86_400_000 // _SHIPMENTS
    number = f"intDiv(toUnixTimestamp64Milli(occurred_at) - {STARTED_MS}, {span_ms})"
    shards.execute("SYSTEM START MERGES")
    shards.execute(
        f"ALTER TABLE {table} UPDATE shipment = least({number}, {_SHIPMENTS - 1}) WHERE 1 "
        "SETTINGS mutations_sync = 2"
    )


def _bytes_of_column(shards: Shards) -> str:
    size = (
        "SELECT sumIf(data_compressed_bytes, name = 'shipment'), sum(data_compressed_bytes) "
        f"FROM system.columns WHERE database = '{DATABASE}' AND table = 'events_local'"
    )
    return shards.servers[0].execute(size)


def _equality(rows: Rows, others: Rows) -> str:
    """Compare rows as text, because a NaN median differs from itself."""
    return "equal" if repr(rows) == repr(others) else "different"


def _show(way: str, usage: Usage, note: str = "") -> None:
    own, other = usage.cpu_s
    print(f"| {way} | {usage.received_mib:.1f} | {own:.1f} | {other:.1f} | {note} |", flush=True)


def main(step_events: int) -> None:
    with tempfile.TemporaryDirectory() as folder, started(Path(folder), step_events) as shards:
        ask = Funnel(shards)
        print(f"{ask.profile.events:,} events")
        print("| way | MiB received | CPU s of the queried server | of the other | result |")
        print("|---|---:|---:|---:|---|")
        today, usage = shards.measure(ask.today)
        _show("today", usage, f"{len(today):,} rows")
        exchanges = {"make_distributed_plan": 1, "distributed_plan_fallback_to_local_execution": 0}
        try:
            rows, usage = shards.measure(lambda: ask.today(exchanges))
            _show("exchanges", usage, _equality(rows, today))
        except QueryFailed as error:
            print(f"| exchanges | | | | {str(error)[:400]} |", flush=True)
        rows, usage = shards.measure(ask.by_unit)
        _show("by unit", usage, _equality(rows, today))
        _number_shipments(shards)
        print(f"bytes of the column, and of all columns: {_bytes_of_column(shards)}")
        every, usage = shards.measure(ask.units)
        _show("all units", usage, str(every))
        changed, usage = shards.measure(ask.changed)
        _show("changes: which units", usage, f"{len(changed):,} units")
        units = ",".join(str(unit) for (unit,) in changed)
        new, usage = shards.measure(lambda: ask.units(units=f"WHERE unit IN ({units})"))
        _show("changes: their fold", usage, str(new))
        old = ask.units(f"events.shipment < {_SHIPMENTS - 1}", f"WHERE unit NOT IN ({units})")
        added = [a + b for a, b in zip(new[0], old[0], strict=True)]
        is_equal = [number % 2**64 for number in added] == list(every[0])
        print(f"old and changed units together: {'equal' if is_equal else 'different'}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4_000_000)
