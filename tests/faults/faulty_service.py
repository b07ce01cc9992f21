"""A service with one fault: `python -m tests.faults.faulty_service FAULT NUMBER serve ...`.

FAULT: a name in `KILLS` or `MORE_KILLS` (the process dies by SIGKILL when it passes that point for
the NUMBERth time), `dies_of_batches` (it dies when an import stores more than NUMBER lines at
once), `dies_of_row` (it dies when the engine reads an event with the name `bad NUMBER`),
`engine_refuses` (the first NUMBER inserts fail) or `clock_jumps` (the clock jumps by hours
at every NUMBERth reading).
"""

import importlib
import os
import signal
import sys
import time
from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Any

from penstock.base import clock
from penstock.warehouse.client import Warehouse
from penstock.warehouse.errors import QueryFailed

_DELETION = "penstock.events.deletions.warehouse_deletion"
_IMPORTS = "penstock.events.imports.worker"
KILLS = {
    # name: (module, attribute, moment)
    "intake_before_commit": ("penstock.events.intake", "store_items", "after"),
    "intake_after_commit": ("penstock.events.intake", "Intake._commit_together", "after"),
    "shipment_cut": ("penstock.events.outbox.store", "Outbox.cut", "after"),
    "shipment_before_insert": ("penstock.warehouse.client", "Warehouse.insert_json_rows", "before"),
    "shipment_after_insert": ("penstock.warehouse.client", "Warehouse.insert_json_rows", "after"),
    "shipment_before_removal": ("penstock.events.outbox.store", "_remove", "after"),
    "import_before_batch": (_IMPORTS, "ImportWorker._store_batch", "before"),
    "import_after_batch": ("penstock.events.intake", "Intake.submit_from_thread", "after"),
    "import_after_save": (_IMPORTS, "ImportWorker._save", "after"),
    "import_before_removal": ("penstock.events.imports.files", "ImportFiles.remove", "before"),
    "deletion_after_request": (
        "penstock.events.deletions.service",
        "DeletionService._begin",
        "after",
    ),
    "deletion_after_merges": (_DELETION, "WarehouseDeletion.remove_merges", "after"),
    "deletion_before_removal": (_DELETION, "WarehouseDeletion.begin_removal", "before"),
    "deletion_after_removal": (_DELETION, "WarehouseDeletion.begin_removal", "after"),
    "deletion_in_catalogue": (_DELETION, "WarehouseDeletion.await_mutations", "after"),
    "deletion_after_catalogue": (
        "penstock.events.deletions.worker",
        "rebuild_catalogue",
        "after",
    ),
    "deletion_after_keys": ("penstock.events.repeats.store", "clear", "after"),
    "clicks_after_commit": ("penstock.links.clicks.buffer", "ClickBuffer._flush_file", "after"),
    "clicks_before_commit": ("penstock.links.clicks.store", "mark_file_stored", "after"),
    "backup_frozen": ("penstock.backup.fence", "freeze", "after"),
    "backup_before_freeze": ("penstock.backup.fence", "freeze", "before"),
}
"""Points on the path of the data at which the process can be killed, in the order of the path."""

MORE_KILLS = {
    "dry_run_before_slice": (
        "penstock.events.imports.dry_runs.worker",
        "DryRunWorker._read_slice",
        "before",
    ),
    "undo_after_request": (
        "penstock.events.deletions.undos.service",
        "ImportUndoService.undo",
        "after",
    ),
    "undo_in_identities": ("penstock.identity.service", "undo_some", "after"),
    "undo_after_identities": (
        "penstock.events.deletions.worker",
        "DeletionWorker._undo_identities",
        "after",
    ),
    "undo_after_keys": ("penstock.events.repeats.store", "remove", "after"),
    "key_move_before_commit": ("penstock.events.repeats.earlier.store", "remove_by_id", "after"),
    "key_move_after_commit": (
        "penstock.events.repeats.earlier.mover",
        "EarlierKeyMover._step",
        "after",
    ),
}
"""Points that the data of the tests in this folder does not pass."""


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _replace(module: str, attribute: str, change: Callable[[Any], Any]) -> None:
    owner = importlib.import_module(module)
    *parents, name = attribute.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    setattr(owner, name, change(getattr(owner, name)))


def kill_at(boundary: str, number: int) -> None:
    module, attribute, phase = (KILLS | MORE_KILLS)[boundary]
    passes = count(1)

    def change(original: Callable[..., Any]) -> Callable[..., Any]:
        def killed(*arguments: Any, **named: Any) -> Any:
            is_last = next(passes) == number
            if is_last and phase == "before":
                die()
            result = original(*arguments, **named)
            if is_last:
                die()
            return result

        return killed

    _replace(module, attribute, change)


def die_of_batches(number: int) -> None:
    from penstock.events.intake import Intake

    submit = Intake.submit_from_thread

    def submitted(intake: Intake, items: Any) -> Any:
        if len(items) > number:
            die()
        return submit(intake, items)

    Intake.submit_from_thread = submitted  # type: ignore[method-assign]


def die_of_row(number: int) -> None:
    insert = Warehouse.insert_json_rows

    def inserted(warehouse: Warehouse, table: str, rows: bytes, *more: Any) -> bool:
        if f'"bad {number}"'.encode() in rows:
            die()
        return insert(warehouse, table, rows, *more)

    Warehouse.insert_json_rows = inserted  # type: ignore[method-assign]


def refuse(number: int) -> None:
    insert, calls = Warehouse.insert_json_rows, count(1)

    def refused(*arguments: Any, **named: Any) -> bool:
        if next(calls) <= number:
            raise QueryFailed("the test refuses this insert", 241)
        return insert(*arguments, **named)

    Warehouse.insert_json_rows = refused  # type: ignore[method-assign]


def jump(number: int) -> None:
    """Jump forward by hours or back again, always within a day."""
    readings = count(1)

    def time_ns() -> int:
        hours = (0, 7, -5)[next(readings) // number % 3]
        return time.time_ns() + hours * 3_600_000_000_000

    clock.time = SimpleNamespace(time_ns=time_ns)  # type: ignore[assignment]


def main() -> None:
    fault, number = sys.argv[1], int(sys.argv[2])
    del sys.argv[1:3]
    if fault == "engine_refuses":
        refuse(number)
    elif fault == "clock_jumps":
        jump(number)
    elif fault == "dies_of_batches":
        die_of_batches(number)
    elif fault == "dies_of_row":
        die_of_row(number)
    else:
        kill_at(fault, number)

    from tests import limited

    limited.run()


if __name__ == "__main__":
    main()
