"""The settings of a process. Flags override the environment, which overrides the file, which
overrides defaults.
"""

import os
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import structlog
from pydantic import ValidationError

from penstock.base.patterns import Pattern
from penstock.cli.logs import configure_logs
from penstock.cli.options import (
    API_KEY_VARIABLE,
    CONFIG_FILE,
    CONFIG_VARIABLE,
    URL_VARIABLE,
    WRONG_USE,
    fail,
)
from penstock.cli.removed_settings import removed_settings
from penstock.http.schema import faults_of
from penstock.settings import SERVICE_LINK_SCHEMES, Settings
from penstock.settings.service import OLD_DATA_FOLDER, user_data_folder

log = structlog.get_logger()

_PREFIX = "PENSTOCK_"
_VARIABLES = tuple(f"{_PREFIX}{name.upper()}" for name in Settings.model_fields)
_PATHS = ("data", "secret_key_file", "geoip")

_OTHER_NAMES = {
    "BASE_URL": "PUBLIC_URL",
    "EXTERNAL_URL": "PUBLIC_URL",
    "CLICKHOUSE_URL": "WAREHOUSE_URL",
    "POSTGRES_URL": "DATABASE_URL",
    "DB_URL": "DATABASE_URL",
    "DATA_DIR": "DATA",
}
"""Names that other services use for our settings and that `get_close_matches` would not find."""
_SERVICE_LINK = Pattern(
    r"PENSTOCK_([A-Z0-9_]+_)?(SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)"
    r"|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)


class Source(StrEnum):
    """The source of a setting's value."""

    FLAG = "flag"
    ENVIRONMENT = "environment"
    FILE = "file"
    DEFAULT = "default"


class Configuration(NamedTuple):
    """The settings in force. sources: the source of each setting, by its name. file: the settings
    file.
    """

    settings: Settings
    sources: Mapping[str, Source]
    file: Path | None

    def warnings(self) -> list[tuple[str, dict[str, Any]]]:
        """Return names and fields of log messages about variables and folders that have no
        effect.
        """
        return [*_variable_warnings(self.settings), *self._folder_warnings()]

    def _folder_warnings(self) -> list[tuple[str, dict[str, Any]]]:
        old = OLD_DATA_FOLDER.absolute()
        if self.sources["data"] is not Source.DEFAULT or not old.is_dir():
            return []
        new = user_data_folder()
        if self.settings.data == old:
            message = (
                f"Uses {old}, the default of earlier versions, because {new} does not exist. "
                f"Set PENSTOCK_DATA to keep it, or move it to {new} while the service is stopped."
            )
        else:
            message = f"Uses {new}. {old}, the default of earlier versions, is not used."
        return [("old_data_folder", {"message": message})]


def start_command(
    config: Path | None, limits: Mapping[str, float] | None = None, **flags: Any
) -> Settings:
    """Read the settings, configure logs, and log warnings about settings.

    limits: replaces values of `Limits` by field name, for tests.
    """
    configuration = read_configuration(config, **flags)
    configure_logs(configuration.settings.log_level)
    for event, fields in configuration.warnings():
        log.warning(event, **fields)
    return configuration.settings.with_limits(**limits or {})


def read_configuration(config: Path | None, **flags: Any) -> Configuration:
    """Read the settings in force and their sources. A fault ends the command with one line.

    config: the settings file; by default `penstock.toml` in the current folder, if it exists.
    """
    file = config or (CONFIG_FILE if CONFIG_FILE.is_file() else None)
    in_file = {} if file is None else _read_file(file)
    in_environment = {
        name.upper().removeprefix(_PREFIX).lower()
        for name in os.environ
        if name.upper().startswith(_PREFIX) and not is_service_link(name)
    }
    given = {name: value for name, value in flags.items() if value is not None}
    from_file = {name: in_file[name] for name in in_file if name not in in_environment}
    sources = {
        name: Source.FLAG
        if name in given
        else Source.ENVIRONMENT
        if name in in_environment
        else Source.FILE
        if name in in_file
        else Source.DEFAULT
        for name in Settings.model_fields
    }
    try:
        settings = Settings(**from_file | given)
    except ValidationError as error:
        fail(
            " ".join(
                f"{_location(fault.field, sources, file)}: {fault.message}"
                if fault.field
                else fault.message  # a fault in several settings, whose names are in the message
                for fault in faults_of(error)
            ),
            WRONG_USE,
        )
    return Configuration(settings, sources, file)


def _location(name: str, sources: Mapping[str, Source], file: Path | None) -> str:
    in_file = sources.get(name) is Source.FILE
    return f"{file}: {name}" if in_file else f"{_PREFIX}{name.upper()}"


def _read_file(file: Path) -> dict[str, Any]:
    """Read the settings in a file. Relative paths are relative to its folder."""
    try:
        values = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        fail(f"cannot read {file}: {error.strerror or error}", WRONG_USE)
    except ValueError as error:  # not UTF-8, or not TOML
        fail(f"{file}: {error}", WRONG_USE)
    unknown = [_unknown_name(name) for name in values if name not in Settings.model_fields]
    if unknown:
        fail(f"{file}: {' '.join(unknown)}", WRONG_USE)
    for name in _PATHS:
        if isinstance(path := values.get(name), str) and path.strip():
            values[name] = str(file.parent / Path(path).expanduser())
    return values


def _unknown_name(name: str) -> str:
    variable = nearest_name(f"{_PREFIX}{name.upper()}")
    nearest = variable and variable.removeprefix(_PREFIX).lower()
    return f"{name} is not a setting." + (f" Did you mean {nearest}?" if nearest else "")


def _variable_warnings(settings: Settings) -> list[tuple[str, dict[str, Any]]]:
    """Return warnings about `PENSTOCK_*` variables that are not settings, without their values.

    They never prevent a start, because Kubernetes sets several for a Service named `penstock`.
    There is only one warning for all variables of earlier versions.
    """
    warnings = list[tuple[str, dict[str, Any]]]()
    known = {*_VARIABLES, URL_VARIABLE, API_KEY_VARIABLE, CONFIG_VARIABLE}
    ours = sorted(name for name in os.environ if name.upper().startswith(_PREFIX))
    links = [name for name in ours if is_service_link(name)]
    unknown = [name for name in ours if name.upper() not in known and name not in links]
    in_force = removed_settings(settings) if unknown else {}
    if removed := {name: in_force[name] for name in unknown if name in in_force}:
        message = (
            "These settings no longer exist and have no effect. The values in force: "
            + ", ".join(f"{name} is {value}" for name, value in removed.items())
        )
        warnings.append(("removed_settings", {"in_force": removed, "message": message}))
    for name in unknown:
        if name not in removed:
            nearest = nearest_name(name.upper())
            message = f"{name} is not a setting and has no effect." + (
                f" Did you mean {nearest}?" if nearest else ""
            )
            fields = {"name": name, "nearest": nearest, "message": message}
            warnings.append(("unknown_setting", fields))
    if links:
        message = (
            "Kubernetes sets these variables for a Service whose name begins with penstock. They "
            "have no effect; enableServiceLinks: false removes them."
        )
        warnings.append(("kubernetes_service_links", {"names": links, "message": message}))
    return warnings


def nearest_name(name: str) -> str | None:
    """Return the variable that a wrong name probably means."""
    if other := _OTHER_NAMES.get(name.removeprefix(_PREFIX)):
        return f"{_PREFIX}{other}"
    return next(iter(get_close_matches(name, _VARIABLES, n=1, cutoff=0.8)), None)


def is_service_link(name: str) -> bool:
    return bool(_SERVICE_LINK.fullmatch(name)) or (
        name.endswith("_PORT") and os.environ[name].startswith(SERVICE_LINK_SCHEMES)
    )
