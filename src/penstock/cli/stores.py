"""Both stores for a command: one process per data folder, one clear line when a store fails."""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlsplit

from penstock.cli.options import WRONG_USE, fail
from penstock.settings import Settings

if TYPE_CHECKING:
    from penstock.app import Services
    from penstock.stores import SchemaVersions, Stores

_LOCK_FILE = "penstock.lock"


@contextmanager
def open_services(settings: Settings) -> "Iterator[Services]":
    """Every service over open, migrated stores; the caller closes them.

    Ends the command with one line when the data folder or a store cannot be used.
    """
    from penstock.app import build_services
    from penstock.links.redirect.geoip import GeoipFileError
    from penstock.metadb.secret_box import WrongSecretKey

    with migrated_stores(settings) as (stores, _):
        try:
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
    from penstock.base.errors import StoreUnavailable
    from penstock.base.schema_version import NewerSchema
    from penstock.metadb.database import InvalidUrl
    from penstock.stores import migrate, open_stores
    from penstock.warehouse.client import WAREHOUSE_UNAVAILABLE, QueryFailed

    with ExitStack() as folder:
        try:
            folder.enter_context(_held(settings.data))
            stores = open_stores(settings)
            versions = migrate(stores)
        except NewerSchema as error:
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
        yield stores, versions


def _fail_without_warehouse(settings: Settings, reason: str) -> NoReturn:
    if settings.warehouse_url:
        host = urlsplit(settings.warehouse_url).hostname
        fail(f"no ClickHouse answers at {host}; check PENSTOCK_WAREHOUSE_URL")
    fail(f"cannot use the warehouse: {reason.splitlines()[0]}")


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
def _held(folder: Path) -> Iterator[None]:
    """Hold the data folder, made when missing. The system lets go of it when a process dies.

    The embedded engine allows no second process either, but says so less clearly.
    """
    _make_private(folder)
    with (folder / _LOCK_FILE).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            fail(
                f"{folder} is in use by another Penstock "
                f"(process {lock.read().strip() or 'unknown'}); stop it first"
            )
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
