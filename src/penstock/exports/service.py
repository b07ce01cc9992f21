"""Writes the rows of a workspace to files."""

from calendar import timegm
from collections.abc import Iterator, Sequence
from tempfile import TemporaryFile
from typing import IO

from penstock.accounts.keys.service import wrong_website_of_key
from penstock.accounts.model import Caller, Website
from penstock.accounts.websites.service import WebsiteService
from penstock.base.row_files import Cell, Row, RowFormat, write_rows
from penstock.exports.schema import (
    DailyTable,
    DayQuery,
    DayRecord,
    DaysQuery,
    DaysRecord,
    IdentitiesQuery,
)
from penstock.identity.profiles import service as profiles
from penstock.metadb.database import Database
from penstock.settings import DAY_S, Settings
from penstock.warehouse.client import FileFormat, WaitUntilShipped, Warehouse
from penstock.warehouse.errors import QueryFailed, explain_failure
from penstock.warehouse.queries import load

_SQL = {
    DailyTable.EVENTS: ("events_days", "events_of_day"),
    DailyTable.CLICKS: ("clicks_days", "clicks_of_day"),
}
"""Names of the statements for the days of a table, and for the rows of a day."""
_ENGINE_FORMATS = {
    RowFormat.PARQUET: FileFormat.PARQUET,
    RowFormat.NDJSON: FileFormat.JSON_EACH_ROW,
}
_MAX_S = 3600
"""Time limit of a statement in seconds. It may take longer than a report."""
_ENGINE_SETTINGS = {
    "max_execution_time": _MAX_S,
    # A large day is sorted on disk.
    "max_bytes_before_external_sort": 200_000_000,
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
}


class ExportService:
    """Exports rows. Methods block: call them from a worker thread.

    They raise `Unauthorized` for another workspace's website, and `Unavailable` if the event store
    does not respond or exceeds a limit.
    """

    def __init__(
        self,
        database: Database,
        warehouse: Warehouse,
        websites: WebsiteService,
        settings: Settings,
        *,
        wait_until_shipped: WaitUntilShipped,
    ) -> None:
        self._database, self._warehouse, self._websites = database, warehouse, websites
        self._settings, self._wait_until_shipped = settings, wait_until_shipped

    def days(self, caller: Caller, query: DaysQuery) -> DaysRecord:
        """Return the days of a table, with all rows that were acknowledged before the call."""
        website = self._websites.stored_website(caller.workspace_id, query.website_id)
        self._wait_until_shipped(self._settings.limits.fresh_wait_s)
        statement = load("penstock.exports", _SQL[query.table][0])
        try:
            names, rows = self._warehouse.query(
                statement, {"website": website.id}, {"max_execution_time": _MAX_S}
            )
        except QueryFailed as error:
            raise explain_failure(error) from error
        return DaysRecord(data=[DayRecord(**dict(zip(names, row, strict=True))) for row in rows])

    def day(self, caller: Caller, query: DayQuery) -> IO[bytes]:
        """Write the rows of a day to a temporary file. The caller closes the file."""
        website = self._websites.stored_website(caller.workspace_id, query.website_id)
        from_ms = timegm(query.day.timetuple()) * 1000
        parameters = {"website": website.id, "from": from_ms, "to": from_ms + DAY_S * 1000}
        statement = load("penstock.exports", _SQL[query.table][1])
        try:
            return self._warehouse.write_file(
                statement, parameters, _ENGINE_SETTINGS, _ENGINE_FORMATS[query.format]
            )
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
        file = TemporaryFile()  # noqa: SIM115 - the caller closes it
        try:
            write_rows(_IDENTITY_COLUMNS, self._identities(website), query.format, file)
        except BaseException:
            file.close()
            raise
        file.seek(0)
        return file

    def _identities(self, website: Website) -> Iterator[Sequence[Row]]:
        after: str | None = ""
        while after is not None:
            with self._database.read() as db:
                identities, after = profiles.identities_page(db, website.scope_id, after)
            yield [{"scope_id": website.scope_id, **identity._asdict()} for identity in identities]
