"""Renders statements for a cluster of ClickHouse servers.

All migrations and statements are written for one server. For a cluster, statements that change
tables or stop queries run `ON CLUSTER`, tables are replicated, and large tables are sharded behind
a `Distributed` table under the name that statements read.

    events, clicks, catalogue   `<name>_local` on each shard; `<name>` reads all shards
    exchanged                   the same, but not replicated, and only for minutes
    all others                  complete on every node, such as visitor_aliases, so that a shard
                                can join its events with them

The events of a unit can be on any shard: attempts are matched by a property, and merges change the
visitor of stored events. So shards filter and project the events for a report. Either the node that
runs the report collects and folds them, or every shard sends them to the shards of their units
through the table `exchanged`, and each shard folds its units.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Any, NamedTuple

from penstock.base.patterns import Match, Pattern
from penstock.base.wording import listed

SHARDED = {
    "events": "sipHash64(event_id)",
    "clicks": "sipHash64(click_id)",
    "catalogue": "rand()",
}
"""Sharding key of each sharded table. Equal rows always go to the same shard, so that the shard
recognises a repeated shipment. Sums in the catalogue can be on any shard.
"""

EXCHANGED = {
    "unit": "UInt64",
    "ts": "Int64",
    "event_id": "String",
    "mask": "UInt64",
    "visitor": "UInt64",
    "coarse": "UInt8",
    "seq": "UInt64",
    "number_sent": "UInt8",
    "key_1": "UInt64",
    "key_2": "UInt64",
    "key_3": "UInt64",
    "text_1": "String",
    "text_2": "String",
    "text_3": "String",
    "met": "String",
    "compared": "String",
    "passes": "UInt8",
}
"""Columns of `exchanged` and their types: those of `funnels.statements.events.matched_events`."""

_TABLES = "|".join(SHARDED)
_ENGINE = Pattern(r"\bENGINE = (\w*)MergeTree(?:\(([^()]*)\))?")
_CREATE = Pattern(r"\bCREATE TABLE IF NOT EXISTS (\w+)")
_VIEW = Pattern(r"\bCREATE MATERIALIZED VIEW IF NOT EXISTS (\w+) TO (\w+)")
_VIEW_CHANGE = Pattern(r"\bMODIFY QUERY\b")
_CHANGE = Pattern(r"\b(ALTER|TRUNCATE) TABLE (\w+)( DROP PARTITION\b)?")
_KILL = Pattern(r"\bKILL QUERY\b")
_FROM = Pattern(rf"\bFROM ({_TABLES})\b")
_STATE = Pattern(r"\bFROM system\.(?:parts|processes)\b")
_NODES = Pattern(r"\bFROM system\.(parts|processes|mutations)\b")
_WINDOW = Pattern(r"\bnon_replicated_deduplication_window = (\d+)")
_INSERT = Pattern(r"\bINSERT INTO catalogue\b")
_READ = Pattern(r"\bFROM (events|exchanged|visitor_aliases|visitor_traits)\b")
# Matches the name of the local table in the catalogue view's SELECT.
_REBUILT = Pattern(rf"\b({_TABLES})_local AS ")
_CHECK = "SELECT DISTINCT shardNum(), shardCount() FROM {function}(`{name}`, view(SELECT 1))"
_OF_RESPONDING = """
SETTINGS skip_unavailable_shards = 1, connections_with_failover_max_tries = 1,
    handshake_timeout_ms = 500
"""
"""Settings for statements about the parts and queries of the servers that respond.
Statements about rows never skip a shard.
"""
# Rows live for minutes. Merging them would be wasted work, and many parts do no harm. Buffers grow
# as needed, because the columns of several inserts are written at once.
_EXCHANGE_TABLE = f"""
(exchange UInt64, {", ".join(f"{name} {kind}" for name, kind in EXCHANGED.items())})
ENGINE = MergeTree PARTITION BY exchange ORDER BY tuple()
TTL toDateTime(bitShiftRight(exchange, 32))
SETTINGS ttl_only_drop_parts = 1, merge_with_ttl_timeout = 30, min_parts_to_merge_at_once = 100000,
    parts_to_delay_insert = 100000, parts_to_throw_insert = 100000, min_bytes_for_wide_part = 0,
    min_columns_to_activate_adaptive_write_buffer = 1, min_free_disk_ratio_to_perform_insert = 0.1
"""
_SILENT_S = 300
_DEDUPLICATED_S = 30 * 86_400


class Cluster:
    """A cluster of ClickHouse servers. name: its name in the servers' configuration."""

    settings = {  # noqa: RUF012 - never changed
        "distributed_foreground_insert": 1,  # An insert ends once every shard has its rows.
        "distributed_product_mode": "global",
        "distributed_ddl_output_mode": "none",
        "skip_unavailable_shards": 0,  # A result without some shards would be wrong.
        # Reads go to the replica that received the writes, so they see all shipped events.
        "load_balancing": "in_order",
        # A replica that lags for a second or longer is read only if all replicas lag.
        "max_replica_delay_for_distributed_queries": 1,
        "prefer_localhost_replica": 0,
        "handshake_timeout_ms": 1000,  # A server tries three times to connect to a shard.
    }
    """Settings sent with every statement."""

    check_settings = {  # noqa: RUF012 - never changed
        "skip_unavailable_shards": 1,
        "connections_with_failover_max_tries": 1,
        "receive_timeout": 1,
    }
    """Settings for both checks. They limit the wait for a server to a second."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._on_cluster = f"ON CLUSTER `{name}`"
        self.check_shards, self.check_servers = (
            _CHECK.format(name=name, function=function)
            for function in ("cluster", "clusterAllReplicas")
        )
        """Statements that return a row for each shard, or each server, that responds: its number,
        and the number of all of them.
        """

    def silence_limit(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return settings that let a query fail if a shard is silent for longer than the query may
        run.

        Without them, the query would stay on the server for minutes after its client has left. A
        shard that responds reports its progress several times a second.
        """
        allowed_s = settings.get("max_execution_time")
        return {"receive_timeout": min(_SILENT_S, ceil(allowed_s) + 1)} if allowed_s else {}

    def render(self, statement: str) -> str:
        """Rewrite a statement for one server into a statement for the cluster."""
        text = _CHANGE.sub(self._change, statement)
        text = _KILL.sub(lambda _: f"KILL QUERY {self._on_cluster}", text)
        if _STATE.search(text):
            text += _OF_RESPONDING
        text = _NODES.sub(
            lambda match: f"FROM clusterAllReplicas(`{self.name}`, system.{match[1]})", text
        )
        if created := _CREATE.search(text):
            return self._create_table(text, created[1])
        if _VIEW.search(text):
            return self._create_view(text)
        if _VIEW_CHANGE.search(text):
            return _read_shard(text)
        return _REBUILT.sub(lambda match: f"{match[1]} AS ", text) if _INSERT.search(text) else text

    def _change(self, match: Match) -> str:
        if match[3] and match[2] not in (*SHARDED, "exchanged_local"):
            # The other copies drop the partition as well, also if their server is down now.
            return match[0]
        return f"{match[1]} TABLE {shard_table(match[2])} {self._on_cluster}{match[3] or ''}"

    def distributed_tables(self) -> list[str]:
        """Return statements that recreate the `Distributed` tables with their shards' columns."""
        return [
            f"CREATE OR REPLACE TABLE {table} {self._on_cluster} AS {shard_table(table)} "
            f"ENGINE = Distributed(`{self.name}`, currentDatabase(), {shard_table(table)}, {key})"
            for table, key in SHARDED.items()
        ]

    def exchange_tables(self) -> list[str]:
        """Return statements that create the table `exchanged` on every server, or empty it.

        exchange: the exchange that a row belongs to. Its upper 32 bits are a time in seconds, after
        which the engine drops the row. mask: 0 for a marker (`funnels.statements.shared_fold`).
        """
        key = "if(mask = 0, unit, intHash64(if(unit = 0, visitor, unit)))"
        return [
            f"CREATE OR REPLACE TABLE exchanged_local {self._on_cluster} {_EXCHANGE_TABLE}",
            f"CREATE OR REPLACE TABLE exchanged {self._on_cluster} AS exchanged_local "
            f"ENGINE = Distributed(`{self.name}`, currentDatabase(), exchanged_local, {key})",
        ]

    def _create_table(self, text: str, table: str) -> str:
        path, replica = (
            ("{uuid}/{shard}", "{replica}")
            if table in SHARDED
            else ("{uuid}/all", "{shard}-{replica}")
        )
        text = _CREATE.sub(
            lambda _: f"CREATE TABLE IF NOT EXISTS {shard_table(table)} {self._on_cluster}", text
        )
        text = _ENGINE.sub(
            lambda match: (
                f"ENGINE = Replicated{match[1] or ''}MergeTree"
                f"('/clickhouse/tables/{path}', '{replica}'"
                f"{f', {match[2]}' if match[2] else ''})"
            ),
            text,
        )
        return _WINDOW.sub(
            lambda match: (
                f"replicated_deduplication_window_seconds = {_DEDUPLICATED_S}, "
                f"replicated_deduplication_window = {match[1]}"
            ),
            text,
        )

    def _create_view(self, text: str) -> str:
        text = _VIEW.sub(
            lambda match: (
                f"CREATE MATERIALIZED VIEW IF NOT EXISTS {match[1]} {self._on_cluster} "
                f"TO {shard_table(match[2])}"
            ),
            text,
        )
        return _read_shard(text)


def _read_shard(text: str) -> str:
    """Let the query of a view read the tables of the server that it runs on."""
    return _FROM.sub(lambda match: f"FROM {shard_table(match[1])} AS {match[1]}", text)


def shard_table(table: str) -> str:
    """Return a table's name on a single server. Sharded tables have the suffix `_local` there."""
    return f"{table}_local" if table in SHARDED else table


class Shards(NamedTuple):
    """The shards of a cluster, which has more than one.

    cluster: its name. database: Penstock's database. number: how many shards it has.
    """

    cluster: str
    database: str
    number: int

    def read(self, sql: str) -> str:
        """Return a relation with the rows of a statement that each shard runs on its own tables."""

        def own_table(match: Match) -> str:
            name = match[1]
            table = name if name.startswith("visitor_") else f"{name}_local"
            return f"FROM `{self.database}`.{table} AS {name}"

        return f"cluster(`{self.cluster}`, view({_READ.sub(own_table, sql)}))"


class Responses(NamedTuple):
    """The numbers, from 1, of the shards or servers that respond. total: the number of all."""

    numbers: frozenset[int]
    total: int

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> "Responses":
        """Read the result of a check."""
        pairs = [(number, count) for number, count in rows]
        return cls(
            frozenset(number for number, _ in pairs), max((count for _, count in pairs), default=0)
        )

    @property
    def silent(self) -> list[int]:
        return [number for number in range(1, self.total + 1) if number not in self.numbers]


def describe_silent_shards(shards: Responses) -> str | None:
    """Return a sentence that names the shards that do not respond; None if all respond."""
    return _silence("shard", [str(number) for number in shards.silent])


def describe_silent_replicas(servers: Responses, shards: int) -> str | None:
    """Return a sentence that names the replicas that do not respond; None if all respond.

    servers: the servers in the order of the cluster's configuration. shards: number of shards. If
    they have different numbers of replicas, the sentence only numbers the servers.
    """
    replicas, rest = divmod(servers.total, shards)
    if rest:
        return _silence("server", [str(number) for number in servers.silent])
    names = [
        f"{(number - 1) % replicas + 1} of shard {(number - 1) // replicas + 1}"
        for number in servers.silent
    ]
    return _silence("replica", names)


def _silence(noun: str, names: Sequence[str]) -> str | None:
    if not names:
        return None
    subject, verb = (noun, "does") if len(names) == 1 else (f"{noun}s", "do")
    return f"{subject.capitalize()} {listed(names)} of the event store {verb} not respond."
