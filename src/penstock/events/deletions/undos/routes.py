"""HTTP route that undoes an import."""

from penstock.accounts.callers import CHECKS_WEBSITE
from penstock.accounts.model import Caller
from penstock.events.deletions.undos.model import Undo
from penstock.events.deletions.undos.schema import UndoQuery, UndoRecord
from penstock.events.deletions.undos.service import ImportUndoService
from penstock.http.handlers import route


@route(
    "POST",
    "/api/imports/{import_id:str}/undo",
    "Undo an import",
    status=200,
    opt={CHECKS_WEBSITE: True},
    tag="imports",
)
def undo_import(
    caller: Caller, import_undos: ImportUndoService, import_id: str, query: UndoQuery
) -> UndoRecord:
    """Start a deletion that removes everything that an import stored.

    Its events and dedupe keys are removed, so the file can be imported again. A visitor, a link, a
    merge or a trait stays if anything else stated it too. Requests are safe to repeat.
    """
    if query.dry_run:
        counts = import_undos.preview(caller, import_id)
        return UndoRecord.from_undo(Undo(import_id, counts, None))
    return UndoRecord.from_undo(import_undos.undo(caller, import_id))


ROUTES = (undo_import,)
