"""Opens both stores for a command. If a store fails or is in use, the command ends with one
line.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlsplit

import structlog

from penstock.cli.descriptors import raise_descriptor_limit
from penstock.cli.options import WRONG_USE, fail
from penstock.cli.progress import every_few_seconds
from penstock.settings import Settings

if TYPE_CHECKING:
    from penstock.app import Services
    from penstock.metadb.database import Database
    from penstock.stores import SchemaVersions, Stores

log = structlog.get_logger()

_CHECK_S = 3.0
"""Maximum time for the check of SQLite's file for damage at the start, in seconds. `penstock
verify` has no limit.
"""


@contextmanager
def open_services(settings: Settings) -> "Iterator[Services]":
    """Build every service over open, migrated stores. The caller closes the stores.

    Ends the command with one line if the data folder or a store cannot be used.
    """
    from penstock.app import build_services
    from penstock.links.redirect.geoip import GeoipFileError
    from penstock.metadb.secret_box import SecretBox, WrongSecretKey, seal_all

    with migrated_stores(settings) as (stores, _):
        with one_line_for_errors(settings):
            _refuse_lost_entries(stores)
        try:
            seal_all(stores.database, SecretBox.from_settings(settings))
            services = build_services(settings, stores=stores)
        except GeoipFileError as error:
            fail(f"PENSTOCK_GEOIP: {error}", WRONG_USE)
        except WrongSecretKey as error:
            fail(f"PENSTOCK_SECRET_KEYS or PENSTOCK_SECRET_KEY_FILE: {error}", WRONG_USE)
        yield services


def _refuse_lost_entries(stores: "Stores") -> None:
    """End the command if the newest entries of the metadata database are missing."""
    from penstock.events.losses.newest_shipments import lost_entries, newest_shipments

    newest = newest_shipments(*stores)
    if newest.is_database_behind:
        fail(lost_entries(stores.database, newest))
    if newest.is_event_store_behind:
        log.error("event_store_behind", shipment=newest.event_store, expected=newest.database)


@contextmanager
def migrated_stores(settings: Settings) -> "Iterator[tuple[Stores, SchemaVersions]]":
    """Open and upgrade both stores. Yields them and their schema versions; the caller closes them.

    Ends the command like `open_services`.
    """
    from penstock.stores import migrate

    with opened_stores(settings) as stores:
        with one_line_for_errors(settings), every_few_seconds(_still("stores_migrating")):
            versions = migrate(stores)
        yield stores, versions


@contextmanager
def opened_stores(settings: Settings) -> "Iterator[Stores]":
    """Open both stores without upgrading their schemas. The caller closes them.

    Ends the command like `open_services`.
    """
    from penstock.backup.service import RESTORING
    from penstock.cli.data_folder import data_folder_lock
    from penstock.stores import open_stores

    if settings.warehouse_url is None:
        raise_descriptor_limit()
    with ExitStack() as folder:
        with one_line_for_errors(settings):
            folder.enter_context(data_folder_lock(settings.data))
            if (settings.data / RESTORING).exists():
                fail(f"{settings.data} is only partly restored; run penstock restore again")
            with every_few_seconds(_still("stores_opening")):
                stores = open_stores(settings)
            if not stores.database.quick_check(_CHECK_S):
                log.info("metadata_database_check_not_finished", seconds=_CHECK_S)
        yield stores


def _still(event: str) -> Callable[[int], None]:
    return lambda seconds: log.info(event, seconds=seconds)


@contextmanager
def metadata_database(settings: Settings) -> "Iterator[Database]":
    """Open the metadata DB, even while the service runs.

    Ends the command if it is missing or has a different schema version.
    """
    from penstock.stores import open_database

    os.umask(0o077)
    with one_line_for_errors(settings), closing(open_database(settings)) as database:
        if database.is_sqlite and not (file := Path(database.url.database or "")).exists():
            folder = settings.data if settings.database_url is None else file.parent
            fail(f"{folder} contains no Penstock data")
        if not database.is_up_to_date():
            fail("the metadata database has another version; run penstock migrate first")
        yield database


@contextmanager
def one_line_for_errors(settings: Settings) -> Iterator[None]:
    """End the command with one line if the data folder or a store cannot be used, or a backup or
    restore fails.
    """
    from penstock.backup.model import BackupFailed
    from penstock.base.errors import StoreUnavailable
    from penstock.base.schema_version import NewerSchema
    from penstock.cli.data_folder import UnusableFolder
    from penstock.metadb.database import InvalidUrl
    from penstock.warehouse.errors import (
        WAREHOUSE_DAMAGED,
        WAREHOUSE_UNAVAILABLE,
        NotEnoughDisk,
        QueryFailed,
    )

    try:
        yield
    except (UnusableFolder, NewerSchema, NotEnoughDisk, BackupFailed) as error:
        fail(str(error))
    except OSError as error:
        fail(f"cannot use the data folder {settings.data}: {error.strerror or error}")
    except InvalidUrl as error:
        fail(str(error), WRONG_USE)
    except StoreUnavailable as error:
        if error.code not in (WAREHOUSE_DAMAGED, WAREHOUSE_UNAVAILABLE):
            fail(f"cannot use the metadata database: {error.reason}")
        _fail_without_warehouse(settings, error.reason)
    except QueryFailed as error:
        _fail_without_warehouse(settings, str(error))


def _fail_without_warehouse(settings: Settings, reason: str) -> NoReturn:
    if settings.warehouse_url:
        host = urlsplit(settings.warehouse_url).hostname
        _, code, refusal = reason.partition("Code: ")
        if code:
            fail(f"ClickHouse at {host} refuses: {(code + refusal).splitlines()[0]}")
        fail(f"no ClickHouse answers at {host}; check PENSTOCK_WAREHOUSE_URL")
    fail(f"cannot use the event store: {reason.splitlines()[0]}")
