"""`penstock imports`: lists, cancels and undoes imports.

`list` and `cancel` open only the metadata DB, so they also work while the service is stopped, for
example because an import keeps it from running. `undo` asks the running service.
"""

import time
from typing import Annotated

import typer

from penstock.base.clock import iso, parse_time, system_clock
from penstock.base.wording import count_of, utc_time
from penstock.cli.client import LOCAL, ApiKey, Record, Url, record_of, service_client
from penstock.cli.configuration import start_command
from penstock.cli.options import Config, Data, fail
from penstock.cli.progress import every_few_seconds, still_running
from penstock.cli.stores import metadata_database

_POLL_S = 0.5

imports = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="List and cancel unfinished imports, also while the service is stopped; undo imports.",
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


@imports.command("undo")
def undo_import(
    import_id: Annotated[
        str, typer.Argument(help="ID of the import, from its page or GET /api/imports.")
    ],
    is_dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be removed.")
    ] = False,
    url: Url = LOCAL,
    api_key: ApiKey = "",
) -> None:
    """Remove everything that an import stored, and wait until it is removed.

    Its file can be imported again at once. Safe to repeat.
    """
    path = f"/api/imports/{import_id}/undo"
    with service_client(
        url, api_key, owns="import", advice="run the same command again to continue"
    ) as client:
        if is_dry_run:
            answer = record_of(client.post(path, params={"dryRun": "true"}))
            _print_removed(answer["removes"], "would be removed")
            return
        answer = record_of(client.post(path))
        if answer["removes"] is None:
            print("The import was undone before.")
        else:
            _print_removed(answer["removes"], "are being removed")
        deletion = answer["deletion"]
        with every_few_seconds(still_running("Removing")):
            while deletion["state"] != "done":
                time.sleep(_POLL_S)
                deletion = record_of(client.get(f"/api/deletions/{deletion['id']}"))
    print(f"The import {import_id} is undone: {count_of(deletion['eventsRemoved'], 'event')}.")


def _print_removed(removes: Record, verb: str) -> None:
    print(f"{count_of(removes['events'], 'event')} {verb}.")
    if removes["firstEventAt"]:
        first, last = (
            utc_time(parse_time(removes[name])) for name in ("firstEventAt", "lastEventAt")
        )
        print(f"They occurred from {first} to {last}.")
    print(
        f"Nothing else has named {count_of(removes['visitors'], 'visitor')} and "
        f"{count_of(removes['userLinks'], 'user')}, nor linked "
        f"{count_of(removes['merges'], 'merged visitor')}. Traits are stated of "
        f"{count_of(removes['usersWithTraits'], 'user')}."
    )
    if removes["duplicateLines"]:
        lines = count_of(removes["duplicateLines"], "line")
        print(
            f"Dropped as duplicates of this import: {lines} of other files. Their events will be "
            "missing until you import these files again:"
        )
    for each in removes["duplicates"]:
        name = each["fileName"] or "without a name"
        print(f"  {name} ({each['importId']}): {count_of(each['lines'], 'line')}")
