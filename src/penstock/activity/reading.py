"""What both services of this room share: whose events are asked for, and asking the engine."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.accounts.model import Website
from penstock.accounts.service import AccountService
from penstock.base.ids import WorkspaceId
from penstock.warehouse.client import QueryFailed, Warehouse, explained
from penstock.warehouse.queries import load

WaitUntilShipped = Callable[[float], bool]
"""Waits for events acknowledged before the call, that many seconds; False when that was not enough."""


def websites_asked(accounts: AccountService, workspace_id: WorkspaceId, website_id: str | None) -> Sequence[Website]:
    """All of the workspace, or one; `Unauthorized` when that is not its own."""
    return accounts.websites(workspace_id) if website_id is None else [accounts.owned_website(workspace_id, website_id)]


def ask(warehouse: Warehouse, statement: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of a named statement; `Unavailable` when the engine does not answer within the limits."""
    try:
        names, rows = warehouse.query(load(statement), parameters)
    except QueryFailed as error:
        raise explained(error) from error
    return [dict(zip(names, row, strict=True)) for row in rows]
