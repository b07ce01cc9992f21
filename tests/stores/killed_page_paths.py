"""Converts the paths of stored events in small steps, and is killed after some statements.

    python -m tests.stores.killed_page_paths STATEMENTS DATA

STATEMENTS: number of the migration's statements after which the process is killed. Exits with 0 if
the migration has fewer statements.
"""

import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from penstock.settings import Settings
from penstock.stores import migrate, open_stores
from penstock.warehouse.client import Warehouse

page_paths = import_module("penstock.warehouse.migrations.0008_page_paths")


def main(statements: str, data: str) -> None:
    left = int(statements)
    page_paths._GROUP_BYTES, page_paths._SLICE_ROWS, page_paths._PAGE_PATHS = 60, 3, 2
    upgrade, command = page_paths.upgrade, Warehouse.command

    def killed_command(self: Warehouse, *arguments: Any, **more: Any) -> None:
        nonlocal left
        command(self, *arguments, **more)
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    def upgrade_and_die(warehouse: Warehouse) -> None:
        Warehouse.command = killed_command  # type: ignore[method-assign]
        upgrade(warehouse)
        Warehouse.command = command  # type: ignore[method-assign]

    page_paths.upgrade = upgrade_and_die
    migrate(open_stores(Settings(data=Path(data))))


if __name__ == "__main__":
    main(*sys.argv[1:])
