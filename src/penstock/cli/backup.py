"""`penstock backup`, `penstock restore` and `penstock verify`."""

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.base.clock import parse_time, system_clock
from penstock.base.wording import count_of, utc_time
from penstock.cli.configuration import start_command
from penstock.cli.options import FAILED, Config, Data
from penstock.cli.progress import every_few_seconds, still_running
from penstock.cli.stores import one_line_for_errors, opened_stores
from penstock.settings import Settings

if TYPE_CHECKING:
    from penstock.backup.model import Finding, Manifest
    from penstock.stores import Stores


def backup(
    folder: Annotated[Path, typer.Argument(help="New or empty folder for the backup.")],
    base: Annotated[
        Path | None,
        typer.Option(
            help="An earlier backup on the same disk; unchanged files are not copied again."
        ),
    ] = None,
    data: Data = None,
    config: Config = None,
) -> None:
    """Back up both stores, whether or not the service is running."""
    from penstock.backup.service import back_up
    from penstock.cli.data_folder import InUse, data_folder_lock, require_data_folder

    settings = start_command(config, data=data)
    with one_line_for_errors(settings), ExitStack() as stack:
        require_data_folder(settings.data)
        try:
            stack.enter_context(data_folder_lock(settings.data))
            is_running = False
        except InUse:
            is_running = True
        with every_few_seconds(still_running("Backing up")):
            copied = back_up(settings, folder, base, system_clock, is_running=is_running)
    shared = f", {_megabytes(copied.linked_bytes)} of them shared with the base" if base else ""
    print(
        f"Backup of {_events(copied.manifest)} to {folder}: {_megabytes(copied.bytes)}{shared}. "
        f"Event delivery paused for {copied.paused_s:.2f} s during the backup."
    )


def restore(
    folder: Annotated[Path, typer.Argument(help="Folder of a backup.")],
    data: Data = None,
    config: Config = None,
) -> None:
    """Restore a backup into a new or empty data folder. Start the service afterwards."""
    from penstock.backup.service import restorable_manifest
    from penstock.backup.service import restore as restore_backup
    from penstock.cli.data_folder import data_folder_lock

    settings = start_command(config, data=data)
    with one_line_for_errors(settings):
        manifest = restorable_manifest(settings, folder)
        with data_folder_lock(settings.data), every_few_seconds(still_running("Restoring")):
            restore_backup(settings, folder, manifest)
    print(
        f"Restored {_events(manifest)} as of {utc_time(parse_time(manifest.created_at))} "
        f"into {settings.data}."
    )


def verify(
    folder: Annotated[
        Path | None,
        typer.Argument(help="Folder of a backup; without it, the data folder is verified."),
    ] = None,
    outcomes: Annotated[
        bool,
        typer.Option(
            "--outcomes",
            help="Also compare stored outcomes with events, and rebuild those that differ.",
        ),
    ] = False,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss",
            help="Record events that the event store has lost. Reports will permanently show a "
            "gap.",
        ),
    ] = False,
    data: Data = None,
    config: Config = None,
) -> None:
    """Verify the files of a backup, or the stores of a data folder that no service uses.

    Exits with 1 if there is a problem.
    """
    from penstock.backup.verification import verify_backup, verify_stores
    from penstock.cli.data_folder import require_data_folder

    settings = start_command(config, data=data)
    with one_line_for_errors(settings), every_few_seconds(still_running("Verifying")):
        if folder is not None:
            is_sound = _print(verify_backup(folder))
        else:
            require_data_folder(settings.data)
            with opened_stores(settings) as stores:
                is_sound = _print(verify_stores(stores, accept_loss=accept_loss))
                if outcomes:
                    is_sound = _print(_outcomes(settings, stores)) and is_sound
                stores.close()
    if not is_sound:
        raise typer.Exit(FAILED)


def _print(findings: "Iterable[Finding]") -> bool:
    """Print each finding as soon as its check ends. Returns False if any finding is a problem."""
    is_sound = True
    for finding in findings:
        status = "PROBLEM" if finding.problem else "ok"
        print(f"{status:<8}{finding.check}: {finding.text}", flush=True)
        is_sound = is_sound and not finding.problem
    return is_sound


def _outcomes(settings: Settings, stores: "Stores") -> "Iterable[Finding]":
    from penstock.app import build_services
    from penstock.backup.model import Finding

    texts = {True: "as the events say", False: "differ, built again", None: "not compared"}
    verified = build_services(settings, stores=stores).outcome_worker.verify()
    return (
        Finding(f"stored outcomes of {funnel_id}", texts[agrees], agrees is False)
        for funnel_id, agrees in verified
    )


def _events(manifest: "Manifest") -> str:
    return count_of(manifest.stored_rows.get("events", 0), "event")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
