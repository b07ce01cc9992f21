"""Measures the bytes per event on disk, for imported events, on both metadata databases."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
from tests.postgres import PostgresServer, program_folder

from bench.intake import import_rate
from bench.model import Bench, Cell, Column, Table
from bench.service import ROOT, penstock, sign_up
from bench.timing import in_new_process, wait_until_idle
from penstock.warehouse.client import Warehouse

_EVENTS = 200_000
_SHOWN_BYTES = 1
"""Tables with fewer bytes per event than this are added up in one row."""
_SQLITE_TABLES = """
SELECT coalesce(tbl_name, dbstat.name), sum(pgsize)
FROM dbstat LEFT JOIN sqlite_master ON sqlite_master.name = dbstat.name GROUP BY 1
"""
_SQLITE_FREE_PAGES = """
SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size
"""
_POSTGRESQL_TABLES = """
SELECT relname, pg_total_relation_size(relid) FROM pg_stat_user_tables
"""


def run(bench: Bench) -> list[Table]:
    events = bench.events(_EVENTS)
    rows: list[list[Cell]] = []
    totals = {}
    for name, url in _databases(bench):
        data = bench.folder / f"disk-{name}"
        bench.progress(f"importing {events:,} events with {name}")
        settings = {} if url is None else {"PENSTOCK_DATABASE_URL": url}
        with penstock(data, ROOT, **settings) as service:
            import_rate(service.url, sign_up(service.url), events, 0)
            wait_until_idle(service.pid)
        tables = _sqlite_tables(data) if url is None else _postgresql_tables(url)
        sizes = in_new_process(table_sizes, data)
        totals[name] = (sum(tables.values()), sum(size for _, _, size in sizes))
        shown = {table: size for table, size in tables.items() if size > events * _SHOWN_BYTES}
        rest = sum(tables.values()) - sum(shown.values())
        rows += [
            [f"{name}: `{table}`", size / events, None]
            for table, size in sorted(shown.items(), key=lambda row: -row[1])
        ]
        rows.append([f"{name}: all other tables", rest / events, None])
        rows.append([f"{name}: all", totals[name][0] / events, None])
    rows += [[f"event store: `{name}`", size / events, rows_] for name, rows_, size in sizes]
    rows += [
        [f"all, with {name}", (metadata + stored) / events, None]
        for name, (metadata, stored) in totals.items()
    ]
    columns = (Column("store"), Column("bytes per event", 1), Column("rows", 0))
    notes = (
        f"After an import of {events:,} events with seven properties of their own, once all of "
        "them are in the event store and its parts are merged. Tables include their indexes. "
        "Free pages are those that the database reuses, such as for the outbox."
    )
    return [Table("Bytes per event", columns, rows, notes)]


@contextmanager
def _server() -> Iterator[str | None]:
    """Run PostgreSQL, and yield the URL of an empty database; None if it is not installed."""
    folder = program_folder()
    if folder is None:
        yield None
        return
    server = PostgresServer(folder)
    try:
        yield server.fresh()
    finally:
        server.stop()


def _databases(bench: Bench) -> Iterator[tuple[str, str | None]]:
    """Yield the name and URL of each metadata database; the URL of SQLite is None."""
    yield "SQLite", None
    with _server() as url:
        if url is None:
            bench.failures.append("disk: PostgreSQL is not installed")
        else:
            yield "PostgreSQL", url


def _sqlite_tables(data: Path) -> dict[str, int]:
    """Return the bytes of each table with its indexes, and those of everything else in the file and
    of files that remain after a stop, such as the write-ahead log.
    """
    with closing(sqlite3.connect(data / "penstock.sqlite3")) as db:
        tables: dict[str, int] = dict(db.execute(_SQLITE_TABLES).fetchall())
        [[free]] = db.execute(
            "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size"
        )
    on_disk = sum(file.stat().st_size for file in data.glob("penstock.sqlite3*"))
    used = sum(tables.values())
    return tables | {"free pages": free, "other files": on_disk - used - free}


def _postgresql_tables(url: str) -> dict[str, int]:
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("VACUUM")
        return dict(db.execute(_POSTGRESQL_TABLES).fetchall())


def table_sizes(data: Path) -> list[tuple[str, int, int]]:
    """Return the name, rows and bytes of the tables that have rows, after merging their parts."""
    warehouse = Warehouse(data=data, url=None)
    for table in ("events", "catalogue", "visitor_aliases"):
        warehouse.command(f"OPTIMIZE TABLE {table} FINAL")
    sizes = [(str(name), int(rows), int(size)) for name, rows, size in warehouse.table_sizes()]
    warehouse.close()
    return [size for size in sizes if size[1]]
