"""What both services of this room share: whose events are asked for, and asking the engine."""

from collections.abc import Callable, Mapping
from typing import Any

from penstock.warehouse.client import QueryFailed, Warehouse, explained
from penstock.warehouse.queries import load

WaitUntilShipped = Callable[[float], bool]
"""Waits for events acknowledged before the call, that many seconds; False when that was not enough."""


def ask(warehouse: Warehouse, statement: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of a named statement; `Unavailable` when the engine does not answer within the limits."""
    try:
        names, rows = warehouse.query(load(statement), parameters)
    except QueryFailed as error:
        raise explained(error) from error
    return [dict(zip(names, row, strict=True)) for row in rows]
