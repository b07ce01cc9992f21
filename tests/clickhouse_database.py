"""New databases for tests, on an installed ClickHouse server or cluster.

`PENSTOCK_TEST_CLICKHOUSE_URL` contains the server and its user, who must be allowed to create
databases. `PENSTOCK_TEST_CLICKHOUSE_CLUSTER` is the name of its cluster. For a private certificate
authority, set `SSL_CERT_FILE`, which OpenSSL reads.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

from penstock.warehouse.client import Warehouse
from penstock.warehouse.cluster import Cluster

URL = os.environ.get("PENSTOCK_TEST_CLICKHOUSE_URL")
_CLUSTER = os.environ.get("PENSTOCK_TEST_CLICKHOUSE_CLUSTER")

_COPIED = ("visitor_aliases", "visitor_traits")


@contextmanager
def new_database(data: Path, on_cluster: str = "") -> Iterator[str]:
    """Yield the URL of a new database, and drop the database on exit.

    on_cluster: clause for the statements that create and drop the database.
    """
    assert URL, "PENSTOCK_TEST_CLICKHOUSE_URL is not set"
    name = f"penstock_test_{uuid4().hex}"
    server = Warehouse(data=data, url=URL)
    server.command(f"CREATE DATABASE {name}{on_cluster}")
    try:
        yield urlsplit(URL)._replace(path=f"/{name}").geturl()
    finally:
        server.command(f"DROP DATABASE {name}{on_cluster} SYNC")
        server.close()


class ClusterWarehouse(Warehouse):
    """A warehouse on an installed cluster. It stays open for later tests until `close_all`."""

    def insert_json_rows(self, table: str, rows: bytes, columns: Sequence[str], token: str) -> bool:
        """Like the service's method, but returns only after merges and traits have reached every
        server.
        """
        inserted = super().insert_json_rows(table, rows, columns, token)
        if table in _COPIED:
            assert self.cluster is not None
            self.command(f"SYSTEM SYNC REPLICA ON CLUSTER `{self.cluster.name}` {table}")
        return inserted

    def close(self) -> None:
        """Do nothing: `close_all` closes the warehouse."""

    def close_all(self) -> None:
        super().close()


@contextmanager
def cluster_warehouse(data: Path) -> Iterator[ClusterWarehouse]:
    """An event store in a new database of the cluster, without tables."""
    assert _CLUSTER, "PENSTOCK_TEST_CLICKHOUSE_CLUSTER is not set"
    with new_database(data, f" ON CLUSTER `{_CLUSTER}`") as url:
        warehouse = ClusterWarehouse(data=data, url=url, cluster=Cluster(_CLUSTER))
        yield warehouse
        warehouse.close_all()
