"""The tables of a cluster in one process of the engine: a statement reads two shards and merges.

The statements are those that `penstock.warehouse.cluster` renders. One process has no Keeper, no
replicas and no DDL on a cluster, so these parts are taken out again. What stays is a table over two
shards, each with the rows that the sharding key gives it: the engine plans and runs the shard part
of a statement for each, and merges the partial results, as it does for a cluster of real servers,
except that nothing goes over a network.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from penstock.warehouse.client import Warehouse
from penstock.warehouse.cluster import SHARDED, Cluster, local

_KEYS = {**SHARDED, "catalogue": "sipHash64(name, property)"}  # rand() would change with each query

_NOT_EMBEDDED = (
    (re.compile(r" ON CLUSTER `\w+`"), ""),
    (re.compile(r"clusterAllReplicas\(`\w+`, (system\.\w+)\)"), r"\1"),
    (re.compile(r"Replicated(\w*)MergeTree\('[^']*', '[^']*'(?:, )?"), r"\1MergeTree("),
    (re.compile(r"\breplicated_deduplication_window_seconds = \d+, "), ""),
    (re.compile(r"\breplicated_deduplication_window\b"), "non_replicated_deduplication_window"),
    # The tables over all shards cannot be written to here; the rows of both shards lie together.
    (re.compile(rf"\bINSERT INTO ({'|'.join(SHARDED)})\b"), r"INSERT INTO \1_local"),
)


class LocalShards(Cluster):
    """Two shards in one database."""

    settings = {**Cluster.settings, "prefer_localhost_replica": 1}  # noqa: RUF012 - never changed

    def render(self, statement: str) -> str:
        text = super().render(statement)
        for pattern, replacement in _NOT_EMBEDDED:
            text = pattern.sub(replacement, text)
        return text

    def distributed_tables(self) -> list[str]:
        """Each shard is asked for the view, which is other rows on each."""
        return [
            statement
            for table, key in _KEYS.items()
            for statement in (
                f"CREATE OR REPLACE VIEW {table}_share AS SELECT *, _part, _block_number FROM "
                f"{local(table)} WHERE {key} % 2 + 1 = shardNum()",
                f"DROP TABLE IF EXISTS {table}",
                f"CREATE TABLE {table} AS "
                f"remote('127.0.0.1,127.0.0.1', currentDatabase(), {table}_share)",
            )
        ]


class ShardedWarehouse(Warehouse):
    """A warehouse whose large tables lie in two shards; it outlives those that use it."""

    def __init__(self, data: Path, server_url: str) -> None:
        """server_url: of `tests.clickhouse_server`. The database is emptied."""
        whole = Warehouse(data=data, url=server_url)
        whole.command("DROP DATABASE IF EXISTS shards")
        whole.command("CREATE DATABASE shards")
        whole.close()
        super().__init__(data=data, url=f"{server_url}/shards", cluster=LocalShards("shards"))

    def insert_json_rows(self, table: str, rows: bytes, columns: Sequence[str], token: str) -> bool:
        return super().insert_json_rows(local(table), rows, columns, token)

    def close(self) -> None:
        """Does nothing: it ends with its server."""
