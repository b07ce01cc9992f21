"""Flags that commands share, and a function that ends a command with a message."""

from pathlib import Path
from typing import Annotated, NoReturn

import typer

Host = Annotated[
    str | None,
    typer.Option(
        help="Address to listen on. (PENSTOCK_HOST, default 127.0.0.1)", show_default=False
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        help="Port to listen on; 0 chooses a free port. (PENSTOCK_PORT, default 8000)",
        show_default=False,
    ),
]

FAILED = 1
WRONG_USE = 2


def fail(message: str, code: int = FAILED) -> NoReturn:
    """End the command with one line on stderr. code: `FAILED`, or `WRONG_USE` for wrong usage."""
    warn(message)
    raise typer.Exit(code)


def warn(message: str) -> None:
    """Print one line on stderr."""
    typer.echo(f"penstock: {message}", err=True)


def folder_of(text: str) -> Path:
    """Parse `--data`. Rejects an empty value, such as from an unset variable in a script."""
    if not text.strip():
        fail("--data: Must not be empty; write . for the current folder.", WRONG_USE)
    return Path(text)


Data = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the embedded stores. (PENSTOCK_DATA, default: in the user's data folder)",
        show_default=False,
        parser=folder_of,
        metavar="PATH",
    ),
]

EndpointUrl = Annotated[
    str | None,
    typer.Option(
        "--endpoint-url",
        envvar="AWS_ENDPOINT_URL",
        help="URL of an S3-compatible service, for s3://bucket/prefix. Default: Amazon S3.",
        show_default=False,
    ),
]

URL_VARIABLE, API_KEY_VARIABLE = "PENSTOCK_URL", "PENSTOCK_API_KEY"
"""Environment variables for commands that talk to a running service."""
CONFIG_VARIABLE = "PENSTOCK_CONFIG"
CONFIG_FILE = Path("penstock.toml")

Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        envvar=CONFIG_VARIABLE,
        help="File with settings. (PENSTOCK_CONFIG, default penstock.toml, if it exists)",
        show_default=False,
        show_envvar=False,
    ),
]
