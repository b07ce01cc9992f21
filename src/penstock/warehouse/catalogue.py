"""Rebuilds the catalogue from the events, and waits for mutations."""

from collections.abc import Callable, Sequence

from penstock.warehouse.client import Warehouse
from penstock.warehouse.errors import QueryFailed
from penstock.warehouse.queries import load

_SQL = "penstock.warehouse"


def rebuild_catalogue(
    warehouse: Warehouse, website_ids: Sequence[str], pause: Callable[[], None]
) -> None:
    """Rebuild the catalogue of these websites from their events.

    The caller must block inserts while this runs.
    pause: see `await_mutations`.
    """
    parameters = {"websites": list(website_ids)}
    warehouse.command(load(_SQL, "delete_catalogue"), parameters)
    await_mutations(warehouse, "catalogue", pause)
    # Read the statement of the materialised view from the engine.
    _, [(view_statement,)] = warehouse.query(load(_SQL, "catalogue_definition"))
    warehouse.command(
        load(_SQL, "fill_catalogue").replace("(summing)", f"({view_statement})"), parameters
    )


def await_mutations(warehouse: Warehouse, table: str, pause: Callable[[], None]) -> None:
    """Wait until the engine has finished all mutations of a table.

    pause: called between polls; it may raise to stop waiting.

    Raises `QueryFailed` if a mutation has failed. The engine retries it and resumes mutations after
    a restart.
    """
    while True:
        _, [(mutations, reason)] = warehouse.query(load(_SQL, "open_mutations"), {"table": table})
        if not mutations:
            return
        if reason:
            raise QueryFailed(reason, 0)
        pause()
