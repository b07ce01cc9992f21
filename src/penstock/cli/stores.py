"""Opening both stores for a command: one process at a time on a data folder, and one clear line when a store cannot be had."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from penstock.cli.options import WRONG_USE, fail
from penstock.settings import Settings

if TYPE_CHECKING:
    from penstock.app import Services

_LOCK_FILE = "penstock.lock"


@contextmanager
def opened(settings: Settings) -> "Iterator[Services]":
    """Every service over open, migrated stores; the caller closes them. Ends the command when the folder or a store cannot be had."""
    from clickhouse_connect.driver.exceptions import ClickHouseError
    from sqlalchemy.exc import ArgumentError, SQLAlchemyError

    from penstock.app import build_services
    from penstock.links.geoip import GeoipUnreadable
    from penstock.warehouse.client import QueryFailed

    with ExitStack() as folder:
        try:
            folder.enter_context(_held(settings.data))
            services = build_services(settings)
        except GeoipUnreadable as error:
            fail(f"PENSTOCK_GEOIP: {error}", WRONG_USE)
        except OSError as error:
            fail(f"cannot use the data folder {settings.data}: {error.strerror or error}")
        except ArgumentError:
            fail("PENSTOCK_DATABASE_URL is no database URL; write it as postgresql://user:password@host/name", WRONG_USE)
        except SQLAlchemyError as error:
            fail(f"cannot use the metadata database: {str(error).splitlines()[0]}")
        except (ClickHouseError, QueryFailed) as error:
            if settings.warehouse_url:
                fail(f"no ClickHouse answers at {urlsplit(settings.warehouse_url).hostname}; check PENSTOCK_WAREHOUSE_URL")
            fail(f"cannot use the warehouse: {str(error).splitlines()[0]}")
        yield services


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold the data folder, made when missing. The system lets go of it when a process dies.

    The embedded engine allows no second process either, but says so less clearly.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOCK_FILE).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            fail(f"{folder} is in use by another Penstock (process {lock.read().strip() or 'unknown'}); stop it first")
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
