"""Flags shared by commands, reading settings, and failing with a message."""

import os
from pathlib import Path
from typing import Annotated, Any, NoReturn

import structlog
import typer
from pydantic import ValidationError

from penstock.http.schema import faults_of
from penstock.settings import Settings

log = structlog.get_logger()

Host = Annotated[
    str | None,
    typer.Option(
        help="Address to listen on. (PENSTOCK_HOST, default 127.0.0.1)", show_default=False
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        help="Port to listen on; 0 chooses a free one. (PENSTOCK_PORT, default 8000)",
        show_default=False,
    ),
]

FAILED = 1
WRONG_USE = 2


def fail(message: str, code: int = FAILED) -> NoReturn:
    """End the command with one line on stderr. code: `FAILED`, or `WRONG_USE` for wrong usage."""
    typer.echo(f"penstock: {message}", err=True)
    raise typer.Exit(code)


def folder_of(text: str) -> Path:
    """The value of `--data`. Empty, as an unset variable of a script, it would be this folder."""
    if not text.strip():
        fail("--data: Must not be empty; write . for the current folder.", WRONG_USE)
    return Path(text)


Data = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the embedded stores. (PENSTOCK_DATA, default penstock-data)",
        show_default=False,
        parser=folder_of,
        metavar="PATH",
    ),
]

URL_VARIABLE, API_KEY_VARIABLE = "PENSTOCK_URL", "PENSTOCK_API_KEY"
"""Variables of commands that talk to a running service."""


def read_settings(**flags: Any) -> Settings:
    """The settings of this process: flags override `PENSTOCK_*`, which override defaults."""
    try:
        return Settings(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        fail(
            " ".join(
                # A fault of several settings has no field; its message names them.
                f"PENSTOCK_{fault.field.upper()}: {fault.message}" if fault.field else fault.message
                for fault in faults_of(error)
            ),
            WRONG_USE,
        )


def warn_of_unknown_settings() -> None:
    """Log the name of each `PENSTOCK_*` variable that is no setting, without its value."""
    known = {f"PENSTOCK_{name.upper()}" for name in Settings.model_fields}
    known |= {URL_VARIABLE, API_KEY_VARIABLE}
    for name in sorted(os.environ):
        if name.upper().startswith("PENSTOCK_") and name.upper() not in known:
            log.warning("unknown_setting", name=name)
