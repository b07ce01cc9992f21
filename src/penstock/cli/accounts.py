"""`penstock reset-password` and `penstock reset-second-factor`: help people who are locked out.

Both commands open only the metadata DB, so they also work while the service runs.
"""

from typing import Annotated

import typer

from penstock.base.clock import system_clock
from penstock.cli.configuration import start_command
from penstock.cli.options import Config, Data, fail
from penstock.cli.stores import metadata_database

Email = Annotated[str, typer.Argument(help="Email address of the account.")]


def reset_password(email: Email, data: Data = None, config: Config = None) -> None:
    """Print a link to set a new password. It works once, for one hour."""
    from penstock.accounts.password_resets.service import operator_reset_url

    settings = start_command(config, data=data)
    with metadata_database(settings) as database:
        url = operator_reset_url(database, settings, email, system_clock())
    if url is None:
        fail(f"{email} has no account")
    print(f"Give this link only to {email}. It works once, for one hour:\n\n  {url}\n")


def reset_second_factor(email: Email, data: Data = None, config: Config = None) -> None:
    """Turn off the second factor of a person who has lost it."""
    from penstock.accounts.second_factor.service import operator_reset

    with metadata_database(start_command(config, data=data)) as database:
        was_on = operator_reset(database, email, system_clock())
    if not was_on:
        fail(f"{email} has no account with a second factor")
    print(f"The second factor of {email} is off: the password is now enough to log in.")
