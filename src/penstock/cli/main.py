"""The `penstock` command. Each subcommand has its own module, which imports heavy modules when it
runs.
"""

from typing import Annotated

import typer

from penstock import __version__
from penstock.cli.accounts import reset_password, reset_second_factor
from penstock.cli.backup import backup, restore, verify
from penstock.cli.demo import demo
from penstock.cli.doctor import doctor
from penstock.cli.import_file import import_file
from penstock.cli.link_files import export_links, import_links
from penstock.cli.migrate import migrate
from penstock.cli.serve import serve
from penstock.cli.settings_file import init, show_config
from penstock.cli.simulate import links

app = typer.Typer(no_args_is_help=True, pretty_exceptions_show_locals=False)


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


app.command()(serve)
app.command()(init)
app.command("config")(show_config)
app.command()(doctor)
app.command()(demo)
app.command("import")(import_file)
app.command()(migrate)
app.command()(backup)
app.command()(restore)
app.command()(verify)
app.command()(reset_password)
app.command()(reset_second_factor)
links.command("import")(import_links)
links.command("export")(export_links)
app.add_typer(links, name="links")


if __name__ == "__main__":
    app()
