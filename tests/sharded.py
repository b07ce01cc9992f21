"""An event store on two shards, which are real servers that talk to each other over TCP.

The statements are rendered by `penstock.warehouse.cluster`. Without Keeper, there are no replicated
tables and no distributed DDL. Therefore `ON CLUSTER` statements run on one server after another,
and distributed tables copy the merges and traits of visitors to every server.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.warehouse.client import Warehouse
from penstock.warehouse.cluster import Cluster
from tests.clickhouse_server import CLUSTER, EVERYWHERE, ClickHouseServer

_ON_CLUSTER = f" ON CLUSTER `{CLUSTER}`"
_COPIES = {table: f"{table}_everywhere" for table in ("visitor_aliases", "visitor_traits")}

_WITHOUT_KEEPER = (
    (re.compile(re.escape(_ON_CLUSTER)), ""),
    (re.compile(r"Replicated(\w*)MergeTree\('[^']*', '[^']*'(?:, )?"), r"\1MergeTree("),
    (re.compile(r"\breplicated_deduplication_window_seconds = \d+, "), ""),
    (re.compile(r"\breplicated_deduplication_window\b"), "non_replicated_deduplication_window"),
    # The copies of merges and traits cannot be compared: each server numbers its inserts itself.
    (re.compile(r"table IN \('visitor_aliases', 'visitor_traits', 'schema_migrations'\)"), "0"),
)


class ClusterWithoutKeeper(Cluster):
    """The cluster from `tests.clickhouse_server.two_shards`."""

    def __init__(self) -> None:
        super().__init__(CLUSTER)

    def runs_everywhere(self, statement: str) -> bool:
        """Whether the statement must be run on each server in turn."""
        return _ON_CLUSTER in super().render(statement)

    def render(self, statement: str) -> str:
        text = super().render(statement)
        for pattern, replacement in _WITHOUT_KEEPER:
            text = pattern.sub(replacement, text)
        return text


class ShardedWarehouse(Warehouse):
    """A warehouse on two shards. It stays open for later tests until `close_all`."""

    def __init__(self, data: Path, servers: Sequence[ClickHouseServer], **options: Any) -> None:
        """servers: all servers of the cluster. The first server handles reads and inserts. options:
        passed to `Warehouse`.
        """
        first, *others = servers
        self._cluster = ClusterWithoutKeeper()
        super().__init__(data=data, url=first.url, cluster=self._cluster, **options)
        self._others = [Warehouse(data=data, url=other.url) for other in others]

    def command(
        self, sql: str, parameters: Mapping[str, Any] | None = None, *, at_once: bool = False
    ) -> None:
        if self._cluster.runs_everywhere(sql):
            for other in self._others:
                other.command(self._cluster.render(sql), parameters, at_once=at_once)
        super().command(sql, parameters, at_once=at_once)
        for table, copies in _COPIES.items():
            if f"CREATE TABLE IF NOT EXISTS {table}\n" in sql:
                self.command(
                    f"CREATE OR REPLACE TABLE {copies}{_ON_CLUSTER} AS {table} "
                    f"ENGINE = Distributed({EVERYWHERE}, currentDatabase(), {table})"
                )

    def insert_json_rows(self, table: str, rows: bytes, columns: Sequence[str], token: str) -> bool:
        return super().insert_json_rows(_COPIES.get(table, table), rows, columns, token)

    def close(self) -> None:
        """Do nothing: `close_all` closes the warehouse."""

    def close_all(self) -> None:
        for other in self._others:
            other.close()
        super().close()
