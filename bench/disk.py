"""Measures the bytes per event on disk, for imported events."""

from pathlib import Path

from bench.intake import import_rate
from bench.model import Bench, Cell, Column, Table
from bench.service import penstock, sign_up
from bench.timing import in_new_process, wait_until_idle
from penstock.warehouse.client import Warehouse

_EVENTS = 200_000
_METADATA = "metadata DB"


def run(bench: Bench) -> list[Table]:
    data, events = bench.folder / "disk", bench.events(_EVENTS)
    bench.progress(f"importing {events:,} events")
    with penstock(data) as service:
        import_rate(service.url, sign_up(service.url), events, 0)
        wait_until_idle(service.pid)
    sizes = in_new_process(table_sizes, data)
    # This includes files that remain after a stop, such as the write-ahead log.
    metadata = sum(file.stat().st_size for file in data.glob("penstock.sqlite3*"))
    rows: list[list[Cell]] = [[_METADATA, metadata / events, None]]
    rows += [[f"event store: `{name}`", size / events, rows_] for name, rows_, size in sizes]
    total = metadata + sum(size for _, _, size in sizes)
    rows.append(["all", total / events, None])
    columns = (Column("store"), Column("bytes per event", 1), Column("rows", 0))
    notes = (
        f"After an import of {events:,} events with seven properties of their own, once all of "
        "them are in the event store and its parts are merged."
    )
    return [Table("Bytes per event", columns, rows, notes)]


def table_sizes(data: Path) -> list[tuple[str, int, int]]:
    """Return the name, rows and bytes of the tables that have rows, after merging their parts."""
    warehouse = Warehouse(data=data, url=None)
    for table in ("events", "catalogue", "visitor_aliases"):
        warehouse.command(f"OPTIMIZE TABLE {table} FINAL")
    sizes = [(str(name), int(rows), int(size)) for name, rows, size in warehouse.table_sizes()]
    warehouse.close()
    return [size for size in sizes if size[1]]
