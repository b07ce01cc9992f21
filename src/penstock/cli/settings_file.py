"""`penstock init` and `penstock config`: write a settings file, and show the settings in force."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer
from pydantic import SecretStr, ValidationError

from penstock.cli.configuration import read_configuration
from penstock.cli.options import CONFIG_FILE, WRONG_USE, Config, Data, Host, Port, fail
from penstock.cli.pages import page_path
from penstock.http.schema import faults_of
from penstock.settings import GROUPS, Settings
from penstock.settings.service import default_data_folder

HIDDEN = "***"
_QUESTIONS = {
    "public_url": "URL under which browsers reach the service (empty: only this machine)",
    "data": "Folder of the embedded stores",
    "database_url": "PostgreSQL URL of the metadata database (empty: SQLite in the data folder)",
    "smtp_url": "Mail server, such as smtp://user:password@host:587 (empty: no emails)",
    "mail_from": "Sender of emails",
}
_SECRETS = {"database_url", "smtp_url"}


def init(
    file: Annotated[Path, typer.Option("--config", help="File to write.")] = CONFIG_FILE,
    host: Host = None,
    port: Port = None,
    public_url: Annotated[
        str | None, typer.Option(help="URL under which browsers reach the service.")
    ] = None,
    data: Data = None,
    database_url: Annotated[
        str | None, typer.Option(help="URL of the metadata database.", show_default=False)
    ] = None,
    smtp_url: Annotated[
        str | None, typer.Option(help="URL of the mail server.", show_default=False)
    ] = None,
    mail_from: Annotated[
        str | None, typer.Option(help="Sender of emails.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a settings file. On a terminal, asks for each setting that no flag sets."""
    if file.exists() and not force:
        fail(f"{file} exists; --force replaces it", WRONG_USE)
    flags = {
        "host": host,
        "port": port,
        "public_url": public_url,
        "data": data and str(data.absolute()),
        "database_url": database_url,
        "smtp_url": smtp_url,
        "mail_from": mail_from,
    }
    values: dict[str, Any] = {name: value for name, value in flags.items() if value is not None}
    if sys.stdin.isatty():
        values |= _answers(values)
    values.setdefault("data", str(default_data_folder()))
    _require_valid(values)
    _write(file, values)
    flag = "" if file == CONFIG_FILE else f" --config {file}"
    print(f"Wrote {file}. Check it with: penstock doctor{flag}\nStart with: penstock serve{flag}")


def _answers(given: dict[str, Any]) -> dict[str, Any]:
    """Ask for the settings that no flag has set. An empty answer keeps the default."""
    answers = dict[str, Any]()
    for name, question in _QUESTIONS.items():
        has_mail = "smtp_url" in given or "smtp_url" in answers
        if name in given or (name == "mail_from" and not has_mail):
            continue
        default = Settings.model_fields[name].get_default(call_default_factory=True)
        answer = typer.prompt(question, default=str(default or ""), hide_input=name in _SECRETS)
        if answer:
            answers[name] = answer
    return answers


def _require_valid(values: dict[str, Any]) -> None:
    try:
        Settings(**values)
    except ValidationError as error:
        faults = faults_of(error)
        message = " ".join(f"{fault.field}: {fault.message}".removeprefix(": ") for fault in faults)
        fail(message, WRONG_USE)


def _write(file: Path, values: dict[str, Any]) -> None:
    """Write the file, readable only by this user, because it may contain passwords."""
    lines = [f"# Settings of Penstock; {page_path('settings.md')} lists all."]
    for group in GROUPS:
        for name, field in group.model_fields.items():
            if name in values:
                lines += ["", f"# {field.description}", toml_line(name, values[name])]
    try:
        file.unlink(missing_ok=True)
        file.touch(mode=0o600, exist_ok=False)
        file.write_text("\n".join(lines) + "\n", "utf-8")
    except OSError as error:
        fail(f"cannot write {file}: {error.strerror or error}")


def show_config(
    host: Host = None, port: Port = None, data: Data = None, config: Config = None
) -> None:
    """Print the settings in force and where each comes from, in the format of a settings file.

    Passwords and keys are hidden.
    """
    configuration = read_configuration(config, host=host, port=port, data=data)
    for event, fields in configuration.warnings():
        typer.echo(f"penstock: {fields.get('message', event)}", err=True)
    if configuration.file:
        print(f"# File: {configuration.file.absolute()}")
    for group in GROUPS:
        print(f"\n# {group.title}")
        for name in group.model_fields:
            value = getattr(configuration.settings, name)
            line = f"# {name} is not set" if value is None else toml_line(name, hide_secrets(value))
            print(f"{line:<50} # {configuration.sources[name]}")


def toml_line(name: str, value: Any) -> str:
    text = str(value) if isinstance(value, Path) else value
    return f"{name} = {json.dumps(text, ensure_ascii=False)}"


def hide_secrets(value: Any) -> Any:
    """Return the value with secrets and the credentials in URLs hidden."""
    if isinstance(value, SecretStr):
        return HIDDEN
    if not isinstance(value, str) or "://" not in value:
        return value
    try:
        parts = urlsplit(value)
        user, at, address = parts.netloc.rpartition("@")
        name, colon, _ = user.partition(":")
        netloc = f"{name}{colon and ':' + HIDDEN}{at}{address}"
        query = parts.query and HIDDEN  # drivers also accept a password there
        return parts._replace(netloc=netloc, query=query, fragment="").geturl()
    except ValueError:
        return HIDDEN
