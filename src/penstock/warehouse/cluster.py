"""Statements as a cluster of ClickHouse servers runs them.

The migrations and the statements of the rooms are written for one server. For a cluster, each is
rendered here: what changes tables or stops queries runs `ON CLUSTER`, tables are replicated, and
the large ones lie in shards behind a `Distributed` table that has the name which statements read.

    events, clicks, catalogue   `<name>_local` on each shard; `<name>` reads all shards
    all others                  whole on every node, such as visitor_aliases, so that a shard can
                                join its events with them

A report filters and projects events on the shards and folds them on the node that it asks, because
the events of a unit lie anywhere: attempts are matched by a property, and merges change the visitor
of events that are stored already.
"""

from penstock.base.patterns import Pattern

SHARDED = {
    "events": "sipHash64(event_id)",
    "clicks": "sipHash64(click_id)",
    "catalogue": "rand()",
}
"""Sharding key of each table that lies in shards. The same row always goes to the same shard, so
that a repeated shipment is recognised there; sums of the catalogue may lie anywhere."""

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
_REBUILT = Pattern(rf"\b({_TABLES})_local AS ")  # the view's own statement, over all shards
_DEDUPLICATED_S = 30 * 86_400


class Cluster:
    """A cluster by its name in the servers' configuration."""

    settings = {  # noqa: RUF012 - never changed
        "distributed_foreground_insert": 1,  # an insert is answered when every shard has its rows
        "distributed_product_mode": "global",
        "distributed_ddl_output_mode": "none",
        "skip_unavailable_shards": 0,  # part of the events is no answer
        # Reads go to the replica that was written to, so that they see what was shipped.
        "load_balancing": "in_order",
        "prefer_localhost_replica": 0,
    }
    """Of every statement."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._on_cluster = f"ON CLUSTER `{name}`"

    def render(self, statement: str) -> str:
        """A statement of one server as the cluster runs it."""
        text = _CHANGE.sub(
            lambda match: f"{match[1]} TABLE {local(match[2])} {self._on_cluster}", statement
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
        """Statements that make the tables over all shards as the tables on the shards are now."""
        return [
            f"CREATE OR REPLACE TABLE {table} {self._on_cluster} AS {local(table)} "
            f"ENGINE = Distributed(`{self.name}`, currentDatabase(), {local(table)}, {key})"
            for table, key in SHARDED.items()
        ]

    def _create_table(self, text: str, table: str) -> str:
        path, replica = (
            ("{uuid}/{shard}", "{replica}")
            if table in SHARDED
            else ("{uuid}/all", "{shard}-{replica}")
        )
        text = _CREATE.sub(
            lambda _: f"CREATE TABLE IF NOT EXISTS {local(table)} {self._on_cluster}", text
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
                f"TO {local(match[2])}"
            ),
            text,
        )
        return _FROM.sub(lambda match: f"FROM {local(match[1])} AS {match[1]}", text)


def local(table: str) -> str:
    """The name of a table on its shard."""
    return f"{table}_local" if table in SHARDED else table
