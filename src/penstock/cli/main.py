"""`penstock`: serve, migrate and friends."""

from pathlib import Path
from typing import Annotated, Any

import typer

from penstock import __version__
from penstock.settings import Settings

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_show_locals=False)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"penstock {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)] = False,
) -> None:
    """Conversion funnels, managed mobile links and server events, self-hosted."""


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on. [env: PENSTOCK_HOST]")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on. [env: PENSTOCK_PORT]")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of the embedded stores. [env: PENSTOCK_DATA]")] = None,
) -> None:
    """Run the service until SIGTERM or Ctrl-C."""
    import uvicorn

    from penstock.app import build_app, build_services

    given: dict[str, Any] = {"host": host, "port": port, "data": data}
    settings = Settings(**{name: value for name, value in given.items() if value is not None})
    uvicorn.run(build_app(build_services(settings)), host=settings.host, port=settings.port, access_log=False)


if __name__ == "__main__":
    app()
