"""Writes the rows of a workspace to files."""

from calendar import timegm
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import IO, Any

from sqlalchemy import Connection

from penstock.accounts.audit import service as audit
from penstock.accounts.audit.model import Action
from penstock.accounts.keys.service import wrong_website_of_key
from penstock.accounts.model import Caller, Website
from penstock.accounts.websites.service import WebsiteService
from penstock.base.errors import Conflict, NotFound
from penstock.base.ids import ExportId, WorkspaceId, new_id
from penstock.base.paging import Listing, Page
from penstock.base.row_files import Cell, Row, join_files, write_rows
from penstock.base.temporary_files import temporary_file
from penstock.core import Core
from penstock.events.deletions.model import RemainingExport
from penstock.exports import model, store
from penstock.exports.model import Export
from penstock.exports.schema import (
    DayQuery,
    DayRecord,
    DaysQuery,
    DaysRecord,
    ExportIn,
    IdentitiesQuery,
)
from penstock.identity.profiles import service as profiles
from penstock.metadb.workspaces import hold_workspace
from penstock.settings import DAY_S
from penstock.warehouse.client import WaitUntilShipped
from penstock.warehouse.errors import QueryFailed, explain_failure
from penstock.warehouse.queries import load
from penstock.warehouse.work import check_stopped

MAX_DESTINATIONS = 200
"""Maximum number of destinations that a workspace remembers."""
_OF_A_DAY = ("by_second", "of_day")
"""Names of the statements about a day, after the name of their table."""
_SLICE_ROWS = 50_000
"""Number of rows that the engine sorts at once."""
_MAX_S = 3600
"""Time limit of a statement in seconds. It may take longer than a report."""
_ENGINE_SETTINGS = {
    "max_execution_time": _MAX_S,
    "max_threads": 2,
    "output_format_parquet_row_group_size": 100_000,
    "output_format_parquet_string_as_string": 1,
    "output_format_json_quote_64bit_integers": 0,
    "date_time_output_format": "iso",
}
_IDENTITY_COLUMNS = {
    "scope_id": Cell.TEXT,
    "visitor_id": Cell.TEXT,
    "canonical_id": Cell.TEXT,
    "user_id": Cell.TEXT,
    "merged_at": Cell.TIME,
    "traits": Cell.JSON,
    "trait_times": Cell.JSON,
}


def remaining_exports(
    connection: Connection, workspace_id: WorkspaceId, until_ms: Sequence[int]
) -> list[list[RemainingExport]]:
    """Return, for each time, the exports that had started by then and were not replaced since,
    newest first.
    """
    exports = store.all_exports(connection, workspace_id)
    return [model.remaining_exports(exports, each_ms) for each_ms in until_ms]


class ExportService:
    """Exports rows. Methods block: call them from a worker thread.

    They raise `Unauthorized` for another workspace's website, and `Unavailable` if the event store
    does not respond or exceeds a limit.
    """

    def __init__(
        self, core: Core, websites: WebsiteService, *, wait_until_shipped: WaitUntilShipped
    ) -> None:
        self._database, self._warehouse, self._clock = core.database, core.warehouse, core.clock
        self._websites, self._settings = websites, core.settings
        self._wait_until_shipped = wait_until_shipped

    def begin(self, caller: Caller, new: ExportIn) -> Export:
        """Record that a client begins an export, so that deletions can name it.

        Raises `Conflict` for a new destination if the workspace has `MAX_DESTINATIONS`, and
        `OutOfDisk` if the disk is low.
        """
        self._settings.disk_space.require("exports")
        now_ms = self._clock()
        export = Export(
            id=ExportId(new_id("exp", now_ms)),
            workspace_id=caller.workspace_id,
            destination=new.destination,
            destination_id=new.destination_id or new.destination,
            file_format=new.format,
            exported_by=caller.name,
            started_at_ms=now_ms,
        )
        with self._database.write() as db:
            hold_workspace(db, caller.workspace_id)
            earlier = store.exports_to(db, caller.workspace_id, export.destination_id)
            if not earlier:
                _require_room(db, caller.workspace_id)
            _join_interrupted(db, [each for each in earlier if each.finished_at_ms is None])
            store.add(db, export)
        return export

    def finish(self, workspace_id: WorkspaceId, export_id: str) -> Export:
        """Record that all files of an export are complete. Repeating it changes nothing.

        Removes the records of earlier exports to its destination, because it replaced their files.
        """
        with self._database.write() as db:
            export = _locked_export(db, workspace_id, export_id)
            if export.finished_at_ms is None:
                export = replace(export, finished_at_ms=self._clock())
                store.save(db, export)
                earlier = store.exports_to(db, workspace_id, export.destination_id)
                replaced = [e.id for e in earlier if e.started_at_ms < export.started_at_ms]
                store.remove(db, workspace_id, replaced)
        return export

    def forget(self, caller: Caller, export_id: str) -> None:
        """Forget the destination of an export, with all exports to it."""
        with self._database.write() as db:
            export = _locked_export(db, caller.workspace_id, export_id)
            exports = store.exports_to(db, caller.workspace_id, export.destination_id)
            store.remove(db, caller.workspace_id, [each.id for each in exports])
            target = f"{export_id} {export.destination}"
            audit.record(db, caller, Action.EXPORT_FORGOTTEN, target, self._clock())

    def page(self, workspace_id: WorkspaceId, page: Page) -> Listing[Export]:
        """List exports, newest first."""
        with self._database.read() as db:
            return store.page(db, workspace_id, page)

    def days(self, caller: Caller, query: DaysQuery) -> DaysRecord:
        """Return the days of a table, with all rows that were acknowledged before the call.

        Raises `NotFound` for the ID of an unknown export.
        """
        website = self._websites.stored_website(caller.workspace_id, query.website_id)
        self._wait_until_shipped(self._settings.limits.fresh_wait_s)
        statement = load("penstock.exports", f"{query.table}_days")
        try:
            names, rows = self._warehouse.query(
                statement, {"website": website.id}, {"max_execution_time": _MAX_S}
            )
        except QueryFailed as error:
            raise explain_failure(error) from error
        days = [DayRecord(**dict(zip(names, row, strict=True))) for row in rows]
        if query.export_id is not None:
            self._note_days(caller.workspace_id, query.export_id, [day.day for day in days])
        return DaysRecord(data=days)

    def _note_days(self, workspace_id: WorkspaceId, export_id: str, days: Sequence[str]) -> None:
        """Extend the period of an export by days that it is going to read, in ascending order."""
        with self._database.write() as db:
            export = _locked_export(db, workspace_id, export_id)
            if days:
                first, last = export.first_day or days[0], export.last_day or days[-1]
                first, last = min(first, days[0]), max(last, days[-1])
                store.save(db, replace(export, first_day=first, last_day=last))

    def day(self, caller: Caller, query: DayQuery) -> IO[bytes]:
        """Write the rows of a day to a temporary file. The caller closes the file.

        The engine sorts one slice of the day after the other, so a large day needs little memory.
        """
        website = self._websites.stored_website(caller.workspace_id, query.website_id)
        self._wait_until_shipped(self._settings.limits.fresh_wait_s)
        from_ms = timegm(query.day.timetuple()) * 1000
        to_ms = from_ms + DAY_S * 1000
        sql = {name: load("penstock.exports", f"{query.table}_{name}") for name in _OF_A_DAY}

        def write(start_ms: int, end_ms: int) -> IO[bytes]:
            self._settings.disk_space.require("exports")
            return self._warehouse.write_file(
                sql["of_day"],
                {"website": website.id, "from": start_ms, "to": end_ms},
                _ENGINE_SETTINGS,
                query.format,
            )

        try:
            _, counts = self._warehouse.query(
                sql["by_second"],
                {"website": website.id, "from": from_ms, "to": to_ms},
                {"max_execution_time": _MAX_S},
            )
            slices = list(pairwise([from_ms, *_edges(counts), to_ms]))
            return join_files((write(*each) for each in slices), len(slices), query.format)
        except QueryFailed as error:
            raise explain_failure(error) from error

    def identities(self, caller: Caller, query: IdentitiesQuery) -> IO[bytes]:
        """Write every visitor that has a user or was merged to a temporary file.

        Includes visitors of websites that share visitors with this website. Raises `Unauthorized`
        if the key is for one of these websites only. The caller closes the file.
        """
        website = self._websites.stored_website(caller.workspace_id, query.website_id)
        sharing = self._websites.websites_sharing_visitors(website)
        if caller.website_id is not None and len(sharing) > 1:
            raise wrong_website_of_key(caller.website_id)
        with temporary_file() as file:
            write_rows(_IDENTITY_COLUMNS, self._identities(website), query.format, file)
        return file

    def _identities(self, website: Website) -> Iterator[Sequence[Row]]:
        after: str | None = ""
        while after is not None:
            check_stopped()
            with self._database.read() as db:
                identities, after = profiles.identities_page(db, website.scope_id, after)
            yield [{"scope_id": website.scope_id, **identity._asdict()} for identity in identities]


def _locked_export(connection: Connection, workspace_id: WorkspaceId, export_id: str) -> Export:
    """Read and lock an export. Raises `NotFound`."""
    export = store.find(connection, workspace_id, export_id, hold=True)
    if export is None:
        raise NotFound("There is no such export in this workspace.")
    return export


def _require_room(connection: Connection, workspace_id: WorkspaceId) -> None:
    if store.number_of_destinations(connection, workspace_id) >= MAX_DESTINATIONS:
        raise Conflict(
            f"The workspace has exports to {MAX_DESTINATIONS} destinations, the most it can have. "
            "Delete the files of one, and then forget it: DELETE /api/exports/{export_id}.",
            code="too_many_destinations",
        )


def _join_interrupted(connection: Connection, exports: Sequence[Export]) -> None:
    """Replace interrupted exports to one destination, oldest first, by one record.

    It keeps the earliest start, because the files of each can remain.
    """
    if len(exports) < 2:
        return
    oldest, *others = exports
    days = [day for each in exports for day in (each.first_day, each.last_day) if day]
    if days:
        oldest = replace(oldest, first_day=min(days), last_day=max(days))
    store.save(connection, oldest)
    store.remove(connection, oldest.workspace_id, [each.id for each in others])


def _edges(counts: Iterable[Sequence[Any]]) -> Iterator[int]:
    """Yield the times that separate slices of a day, in milliseconds.

    counts: seconds with their number of rows, in ascending order.
    """
    rows = 0
    for second, count in counts:
        if rows and rows + count > _SLICE_ROWS:
            yield second * 1000
            rows = 0
        rows += count
