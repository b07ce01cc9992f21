"""`penstock imports list` and `penstock imports cancel`: unfinished imports of all workspaces.

Both commands open only the metadata DB, so they also work while the service is stopped, for example
because an import keeps it from running.
"""

from typing import Annotated

import typer

from penstock.base.clock import iso, system_clock
from penstock.cli.configuration import start_command
from penstock.cli.options import Config, Data, fail
from penstock.cli.stores import metadata_database

imports = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="List and cancel unfinished imports, also while the service is stopped.",
)


@imports.command("list")
def list_imports(data: Data = None, config: Config = None) -> None:
    """List the unfinished imports of all workspaces, oldest first."""
    from penstock.events.imports.service import unfinished_imports

    with metadata_database(start_command(config, data=data)) as database:
        unfinished = unfinished_imports(database)
    for each in unfinished:
        target = f"{each.workspace} / {each.website}"
        file_name = each.file_name or "without a name"
        print(f"{each.id}  {each.state}  {iso(each.created_at_ms)}  {target}  {file_name}")
    if not unfinished:
        print("No unfinished imports.")


@imports.command("cancel")
def cancel_import(
    import_id: Annotated[str, typer.Argument(help="ID of the import; `list` prints it.")],
    data: Data = None,
    config: Config = None,
) -> None:
    """Cancel an import. Stored events are kept."""
    from penstock.events.imports.service import operator_cancel

    with metadata_database(start_command(config, data=data)) as database:
        is_cancelled = operator_cancel(database, import_id, system_clock())
    if not is_cancelled:
        fail(f"{import_id} is not an unfinished import; run penstock imports list")
    print(f"The import {import_id} is cancelled. Stored events are kept.")
