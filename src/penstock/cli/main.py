"""The `penstock` command. Each subcommand has its own module, which is imported when it runs."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from penstock import __version__

_COMMANDS = {
    "serve": "serve:serve",
    "init": "settings_file:init",
    "config": "settings_file:show_config",
    "doctor": "doctor:doctor",
    "demo": "demo:demo",
    "import": "import_file:import_file",
    "imports": "imports:imports",
    "export": "export:export",
    "plan": "definitions_file:plan",
    "apply": "definitions_file:apply",
    "migrate": "migrate:migrate",
    "backup": "backup:backup",
    "restore": "backup:restore",
    "verify": "backup:verify",
    "reset-password": "accounts:reset_password",
    "reset-second-factor": "accounts:reset_second_factor",
    "check-receipt": "receipts:check_receipt",
    "rotate-receipt-key": "receipts:rotate_receipt_key",
    "links": "link_files:links",
    "mcp": "assistants:mcp",
}
"""Name of a command -> its module in `penstock.cli`, and its function or group there."""


class _Commands(Mapping[str, Any]):
    """The commands by name. Looking up a command imports its module; listing the names imports
    nothing.
    """

    def __getitem__(self, name: str) -> Any:
        module, attribute = _COMMANDS[name].split(":")
        entry = getattr(import_module(f"penstock.cli.{module}"), attribute)
        if not isinstance(entry, typer.Typer):
            single = typer.Typer(add_completion=False)
            single.command(name)(entry)
            entry = single
        command = get_command(entry)
        command.name = name
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


class _Group(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": _Commands()})

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_COMMANDS)


app = typer.Typer(cls=_Group, no_args_is_help=True, pretty_exceptions_show_locals=False)


def _show_version(enabled: bool) -> None:
    if enabled:
        typer.echo(f"penstock {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Conversion funnels, managed mobile links and server events, self-hosted."""


if __name__ == "__main__":
    app()
