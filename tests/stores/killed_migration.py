"""Migrates both stores, and is killed during the migration.

    python -m tests.stores.killed_migration STORE VERSION MOMENT DATA

STORE: `database` or `warehouse`. MOMENT: `inside` means after the migration's statements, but
before they are committed or recorded; `after` means right after that.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config

from penstock.settings import Settings
from penstock.stores import migrate, open_stores
from penstock.warehouse import migrations
from penstock.warehouse.client import Warehouse


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_in_database(version: str, phase: str) -> None:
    upgrade = command.upgrade

    def killed_upgrade(config: Config, revision: str) -> None:
        upgrade(config, revision)
        if revision == version and phase == "inside":
            die()

    def migrate_no_warehouse(_: Warehouse) -> int:
        die()
        raise AssertionError

    command.upgrade = killed_upgrade
    if phase == "after":
        migrations.migrate = migrate_no_warehouse


def kill_in_warehouse(version: int, phase: str) -> None:
    run = Warehouse.command

    def killed_command(self: Warehouse, sql: str, parameters: Any = None) -> None:
        records = (
            sql.startswith("INSERT INTO schema_migrations") and parameters["version"] == version
        )
        if records and phase == "inside":
            die()
        run(self, sql, parameters)
        if records:
            die()

    Warehouse.command = killed_command  # type: ignore[method-assign]


def main(store: str, version: str, phase: str, data: str) -> None:
    if store == "database":
        kill_in_database(version, phase)
    else:
        kill_in_warehouse(int(version), phase)
    migrate(open_stores(Settings(data=Path(data))))
    raise AssertionError(f"the migration of the {store} to {version} was not killed")


if __name__ == "__main__":
    main(*sys.argv[1:])
