"""Flags shared by commands, reading settings, and failing with a message."""

import os
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, NoReturn

import structlog
import typer
from pydantic import ValidationError

from penstock.base.patterns import Pattern
from penstock.cli.removed_settings import removed_settings
from penstock.http.schema import faults_of
from penstock.settings import SERVICE_LINK_SCHEMES, Settings

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

_OTHER_NAMES = {
    "BASE_URL": "PUBLIC_URL",
    "EXTERNAL_URL": "PUBLIC_URL",
    "CLICKHOUSE_URL": "WAREHOUSE_URL",
    "POSTGRES_URL": "DATABASE_URL",
    "DB_URL": "DATABASE_URL",
    "DATA_DIR": "DATA",
}
"""Names that other services give to our settings, too different to be found by their spelling."""
_SERVICE_LINK = Pattern(
    r"PENSTOCK_([A-Z0-9_]+_)?(SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)"
    r"|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)

URL_VARIABLE, API_KEY_VARIABLE = "PENSTOCK_URL", "PENSTOCK_API_KEY"
"""Variables of commands that talk to a running service."""


def read_settings(limits: Mapping[str, float] | None = None, **flags: Any) -> Settings:
    """The settings of this process: flags override `PENSTOCK_*`, which override defaults.

    limits: other values for fields of `Limits`, from tests.
    """
    try:
        settings = Settings(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        fail(
            " ".join(
                # A fault of several settings has no field; its message names them.
                f"PENSTOCK_{fault.field.upper()}: {fault.message}" if fault.field else fault.message
                for fault in faults_of(error)
            ),
            WRONG_USE,
        )
    return settings.with_limits(**limits or {})


def warn_of_unknown_settings(settings: Settings) -> None:
    """Log the name of each `PENSTOCK_*` variable that is not a setting, without its value.

    All variables of earlier versions are one warning.

    Such a variable never stops a start: Kubernetes sets several for a Service named `penstock`.
    """
    names = [f"PENSTOCK_{name.upper()}" for name in Settings.model_fields]
    known = {*names, URL_VARIABLE, API_KEY_VARIABLE}
    ours = sorted(name for name in os.environ if name.upper().startswith("PENSTOCK_"))
    links = [name for name in ours if _is_service_link(name)]
    unknown = [name for name in ours if name.upper() not in known and name not in links]
    in_force = removed_settings(settings) if unknown else {}
    if removed := {name: in_force[name] for name in unknown if name in in_force}:
        log.warning(
            "removed_settings",
            in_force=removed,
            message="These settings no longer exist and have no effect. The values in force: "
            + ", ".join(f"{name} is {value}" for name, value in removed.items()),
        )
    for name in unknown:
        if name not in removed:
            nearest = nearest_name(name.upper(), names)
            log.warning(
                "unknown_setting",
                name=name,
                nearest=nearest,
                message=f"{name} is not a setting and has no effect."
                + (f" Did you mean {nearest}?" if nearest else ""),
            )
    if links:
        log.warning(
            "kubernetes_service_links",
            names=links,
            message="Kubernetes sets these variables for a Service whose name begins with "
            "penstock. They have no effect; enableServiceLinks: false removes them.",
        )


def nearest_name(name: str, settings: Sequence[str]) -> str | None:
    """The setting that a wrong name probably means."""
    if other := _OTHER_NAMES.get(name.removeprefix("PENSTOCK_")):
        return f"PENSTOCK_{other}"
    return next(iter(get_close_matches(name, settings, n=1, cutoff=0.8)), None)


def _is_service_link(name: str) -> bool:
    return bool(_SERVICE_LINK.fullmatch(name)) or (
        name.endswith("_PORT") and os.environ[name].startswith(SERVICE_LINK_SCHEMES)
    )
