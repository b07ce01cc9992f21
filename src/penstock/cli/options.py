"""Flags shared by commands, reading settings, and failing with a message."""

from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from pydantic import ValidationError

from penstock.http.schema import faults_of
from penstock.settings import Settings

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
Data = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the embedded stores. (PENSTOCK_DATA, default penstock-data)",
        show_default=False,
    ),
]

FAILED = 1
WRONG_USE = 2


def fail(message: str, code: int = FAILED) -> NoReturn:
    """End the command with one line on stderr. code: `FAILED`, or `WRONG_USE` for wrong usage."""
    typer.echo(f"penstock: {message}", err=True)
    raise typer.Exit(code)


def count_of(number: int, noun: str) -> str:
    """`1 event`, `1,200 events`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def read_settings(**flags: Any) -> Settings:
    """The settings of this process: flags override `PENSTOCK_*`, which override defaults."""
    try:
        return Settings(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        fail(
            " ".join(
                f"PENSTOCK_{fault.field.upper()}: {fault.message}" for fault in faults_of(error)
            ),
            WRONG_USE,
        )
