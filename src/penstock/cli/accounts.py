"""`penstock reset-password` and `penstock reset-second-factor`: help people who are locked out.

Both commands open only the metadata DB, so they also work while the service runs.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.base.clock import system_clock
from penstock.cli.configuration import start_command
from penstock.cli.options import WRONG_USE, Config, Data, fail
from penstock.settings import Settings

if TYPE_CHECKING:
    from penstock.metadb.database import Database

Email = Annotated[str, typer.Argument(help="Email address of the account.")]


def reset_password(email: Email, data: Data = None, config: Config = None) -> None:
    """Print a link to set a new password. It works once, for one hour."""
    from penstock.accounts.password_resets.service import operator_reset_url

    settings = start_command(config, data=data)
    with _metadata_database(settings) as database:
        url = operator_reset_url(database, settings, email, system_clock())
    if url is None:
        fail(f"{email} has no account")
    print(f"Give this link only to {email}. It works once, for one hour:\n\n  {url}\n")


def reset_second_factor(email: Email, data: Data = None, config: Config = None) -> None:
    """Turn off the second factor of a person who has lost it."""
    from penstock.accounts.second_factor.service import operator_reset

    with _metadata_database(start_command(config, data=data)) as database:
        was_on = operator_reset(database, email, system_clock())
    if not was_on:
        fail(f"{email} has no account with a second factor")
    print(f"The second factor of {email} is off: the password is now enough to log in.")


@contextmanager
def _metadata_database(settings: Settings) -> "Iterator[Database]":
    """Open the metadata DB. Ends the command if it is missing or has a different schema version."""
    from penstock.base.errors import StoreUnavailable
    from penstock.metadb.database import InvalidUrl
    from penstock.stores import open_database

    os.umask(0o077)
    try:
        database = open_database(settings)
        if database.is_sqlite and not (file := Path(database.url.database or "")).exists():
            folder = settings.data if settings.database_url is None else file.parent
            fail(f"{folder} contains no Penstock data")
        if not database.is_up_to_date():
            fail("the metadata database has another version; run penstock migrate first")
        yield database
        database.close()
    except InvalidUrl as error:
        fail(str(error), WRONG_USE)
    except StoreUnavailable as error:
        fail(f"cannot use the metadata database: {error.reason}")
