"""Both stores for a command: one process per data folder, one clear line when a store fails."""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlsplit

from penstock.cli.descriptors import raise_descriptor_limit
from penstock.cli.options import WRONG_USE, fail
from penstock.settings import Settings

if TYPE_CHECKING:
    from penstock.app import Services
    from penstock.stores import SchemaVersions, Stores


class InUse(Exception):
    """Another process uses the data folder. process: its ID."""

    def __init__(self, folder: Path, process: str) -> None:
        super().__init__(
            f"{folder} is in use by another Penstock (process {process}); stop it first"
        )


@contextmanager
def open_services(settings: Settings) -> "Iterator[Services]":
    """Every service over open, migrated stores; the caller closes them.

    Ends the command with one line when the data folder or a store cannot be used.
    """
    from penstock.app import build_services
    from penstock.links.redirect.geoip import GeoipFileError
    from penstock.metadb.secret_box import SecretBox, WrongSecretKey, seal_all

    with migrated_stores(settings) as (stores, _):
        try:
            seal_all(stores.database, SecretBox.of(settings))
            services = build_services(settings, stores=stores)
        except GeoipFileError as error:
            fail(f"PENSTOCK_GEOIP: {error}", WRONG_USE)
        except WrongSecretKey as error:
            fail(f"PENSTOCK_SECRET_KEYS or PENSTOCK_SECRET_KEY_FILE: {error}", WRONG_USE)
        yield services


@contextmanager
def migrated_stores(settings: Settings) -> "Iterator[tuple[Stores, SchemaVersions]]":
    """Both stores, upgraded to this program's schemas, and those versions; the caller closes them.

    Ends the command as `open_services` does.
    """
    from penstock.stores import migrate

    with opened_stores(settings) as stores:
        with one_line_for_errors(settings):
            versions = migrate(stores)
        yield stores, versions


@contextmanager
def opened_stores(settings: Settings) -> "Iterator[Stores]":
    """Both stores as they are, of whatever schema; the caller closes them.

    Ends the command as `open_services` does.
    """
    from penstock.backup.service import RESTORING
    from penstock.stores import open_stores

    if settings.warehouse_url is None:
        raise_descriptor_limit()
    with ExitStack() as folder:
        with one_line_for_errors(settings):
            folder.enter_context(data_folder_lock(settings.data))
            if (settings.data / RESTORING).exists():
                fail(f"{settings.data} is only partly restored; run penstock restore again")
            stores = open_stores(settings)
        yield stores


@contextmanager
def one_line_for_errors(settings: Settings) -> Iterator[None]:
    """End the command with one line when the data folder or a store cannot be used."""
    from penstock.base.errors import StoreUnavailable
    from penstock.base.schema_version import NewerSchema
    from penstock.metadb.database import InvalidUrl
    from penstock.warehouse.errors import WAREHOUSE_UNAVAILABLE, QueryFailed

    try:
        yield
    except (InUse, NewerSchema) as error:
        fail(str(error))
    except OSError as error:
        fail(f"cannot use the data folder {settings.data}: {error.strerror or error}")
    except InvalidUrl:
        fail(
            "PENSTOCK_DATABASE_URL is not a database URL; "
            "write it as postgresql://user:password@host/name",
            WRONG_USE,
        )
    except StoreUnavailable as error:
        if error.code != WAREHOUSE_UNAVAILABLE:
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


def _make_private(folder: Path) -> None:
    """Make the data folder and everything in it readable for this user only, from now on.

    A folder from before is tightened with all its files, once.
    """
    os.umask(0o077)
    folder.mkdir(parents=True, exist_ok=True)
    if stat.S_IMODE(folder.stat().st_mode) == 0o700:
        return
    for path in folder.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o700 if path.is_dir() else 0o600)
    folder.chmod(0o700)  # last: a start that is interrupted before begins anew


@contextmanager
def data_folder_lock(folder: Path) -> Iterator[None]:
    """Lock the data folder, creating it if needed. The system unlocks it when a process dies.

    `InUse` when another process holds it.

    The embedded engine allows no second process either, but says so less clearly.
    """
    from penstock.backup.service import LOCK

    _make_private(folder)
    with (folder / LOCK).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise InUse(folder, lock.read().strip() or "unknown") from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
