"""`penstock links import` and `penstock links export`: managed links as CSV, over HTTP."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.base.wording import count_of
from penstock.cli.client import LOCAL, ApiKey, Record, Url, record_of, service_client
from penstock.cli.options import FAILED
from penstock.cli.pages import page_path
from penstock.cli.progress import every_few_seconds, still_running
from penstock.cli.simulate import links

_ROUTE = "/api/mobile/deferred-links/csv"


@links.command("import")
def import_links(
    file: Annotated[
        Path,
        typer.Argument(
            help=f"CSV file with a header; {page_path('links.md')} has the columns.",
            exists=True,
            dir_okay=False,
            readable=True,
        ),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change, without changing anything.")
    ] = False,
    url: Url = LOCAL,
    api_key: ApiKey = "",
) -> None:
    """Create and change links from a CSV file. A fault in any row rejects the whole file.

    Lists the faults of rows, and exits with 1 if there are any.
    """
    content = file.read_bytes()
    headers = {"Content-Type": "text/csv"}
    with (
        service_client(url, api_key, owns="links") as client,
        every_few_seconds(still_running("Importing links")),
    ):
        query = {"dryRun": "true"}
        upload = record_of(client.post(_ROUTE, params=query, content=content, headers=headers))
        if not upload["faults"] and not dry_run:
            upload = record_of(client.post(_ROUTE, content=content, headers=headers))
    _print(upload)


def _print(upload: Record) -> None:
    for fault in upload["faults"]:
        typer.echo(f"Row {fault['row']}, {fault['column']}: {fault['message']}", err=True)
    verb = "would be " if upload["dryRun"] else ""
    typer.echo(
        f"{count_of(upload['created'], 'link')} {verb}created, "
        f"{upload['updated']:,} {verb}updated, {upload['unchanged']:,} unchanged, "
        f"{count_of(upload['faulty'], 'row')} with errors."
    )
    if upload["faults"]:
        typer.echo("Nothing was changed.", err=True)
        raise typer.Exit(FAILED)


@links.command("export")
def export_links(
    file: Annotated[
        Path | None, typer.Argument(help="File to write; default: standard output.")
    ] = None,
    url: Url = LOCAL,
    api_key: ApiKey = "",
) -> None:
    """Write all links that are not archived as CSV, which can be imported again."""
    with (
        service_client(url, api_key, owns="links") as client,
        every_few_seconds(still_running("Exporting links")),
    ):
        answer = client.get(_ROUTE)
        if not answer.is_success:
            record_of(answer)
    if file is None:
        typer.echo(answer.content, nl=False)
    else:
        file.write_bytes(answer.content)
