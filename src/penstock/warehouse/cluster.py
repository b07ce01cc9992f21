"""Renders statements for a cluster of ClickHouse servers.

All migrations and statements are written for one server. For a cluster, statements that change
tables or stop queries run `ON CLUSTER`, tables are replicated, and large tables are sharded behind
a `Distributed` table under the name that statements read.

    events, clicks, catalogue   `<name>_local` on each shard; `<name>` reads all shards
    all others                  complete on every node, such as visitor_aliases, so that a shard
                                can join its events with them

Shards filter and project the events for a report; the node that runs the report folds them, because
the events of a unit can be on any shard: attempts are matched by a property, and merges change the
visitor of stored events.
"""

from penstock.base.patterns import Pattern

SHARDED = {
    "events": "sipHash64(event_id)",
    "clicks": "sipHash64(click_id)",
    "catalogue": "rand()",
}
"""Sharding key of each sharded table. The same row always goes to the same shard, so that the shard
recognises a repeated shipment. Sums in the catalogue can be on any shard.
"""

_TABLES = "|".join(SHARDED)
_ENGINE = Pattern(r"\bENGINE = (\w*)MergeTree(?:\(([^()]*)\))?")
_CREATE = Pattern(r"\bCREATE TABLE IF NOT EXISTS (\w+)")
_VIEW = Pattern(r"\bCREATE MATERIALIZED VIEW IF NOT EXISTS (\w+) TO (\w+)")
_CHANGE = Pattern(r"\b(ALTER|TRUNCATE) TABLE (\w+)")
_KILL = Pattern(r"\bKILL QUERY\b")
_FROM = Pattern(rf"\bFROM ({_TABLES})\b")
_NODES = Pattern(r"\bFROM system\.(parts|processes|mutations)\b")
_WINDOW = Pattern(r"\bnon_replicated_deduplication_window = (\d+)")
_INSERT = Pattern(r"\bINSERT INTO\b")
_REBUILT = Pattern(rf"\b({_TABLES})_local AS ")  # Matches the table in the catalogue view's SELECT.
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
        "prefer_localhost_replica": 0,
    }
    """Settings sent with every statement."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._on_cluster = f"ON CLUSTER `{name}`"

    def render(self, statement: str) -> str:
        """Rewrite a statement for one server into a statement for the cluster."""
        text = _CHANGE.sub(
            lambda match: f"{match[1]} TABLE {shard_table(match[2])} {self._on_cluster}", statement
        )
        text = _KILL.sub(lambda _: f"KILL QUERY {self._on_cluster}", text)
        text = _NODES.sub(
            lambda match: f"FROM clusterAllReplicas(`{self.name}`, system.{match[1]})", text
        )
        if created := _CREATE.search(text):
            return self._create_table(text, created[1])
        if _VIEW.search(text):
            return self._create_view(text)
        return _REBUILT.sub(lambda match: f"{match[1]} AS ", text) if _INSERT.search(text) else text

    def distributed_tables(self) -> list[str]:
        """Return statements that recreate the `Distributed` tables with their shards' columns."""
        return [
            f"CREATE OR REPLACE TABLE {table} {self._on_cluster} AS {shard_table(table)} "
            f"ENGINE = Distributed(`{self.name}`, currentDatabase(), {shard_table(table)}, {key})"
            for table, key in SHARDED.items()
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
        return _FROM.sub(lambda match: f"FROM {shard_table(match[1])} AS {match[1]}", text)


def shard_table(table: str) -> str:
    """Return a table's name on a single server. Sharded tables have the suffix `_local` there."""
    return f"{table}_local" if table in SHARDED else table
