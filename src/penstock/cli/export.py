"""`penstock export`: write the data of a workspace to a folder or bucket, over HTTP.

Repeating it is safe: it continues an interrupted export, and writes only the days that changed.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import httpx
import typer

from penstock.base.row_files import MEDIA_TYPES, RowFormat
from penstock.base.wording import count_of
from penstock.cli.client import (
    LOCAL,
    ApiKey,
    Record,
    Url,
    fail_unexpected,
    listed_records,
    problem_of,
    record_of,
    service_client,
)
from penstock.cli.export_schedule import exit_on_signals, interval_s, repeat
from penstock.cli.options import WRONG_USE, EndpointUrl, fail, warn
from penstock.cli.progress import Progress, every_few_seconds, progress, still_running
from penstock.exports.folder import LISTS, ExportFolder, Manifest, OmittedTable, open_export
from penstock.exports.storage import ExportFailed, Storage, storage_of

_LONG = httpx.Timeout(60, read=3700)
"""Seconds to wait for the service. A large day may take the engine an hour."""
_OF_ONE_FUNNEL = frozenset(
    (
        "too_many_units", "query_timeout", "query_too_large", "not_found", "goal_gone",
        "definition_too_costly", "definition_not_readable",
    )
)  # fmt: skip
"""Codes of errors that affect the outcomes of one funnel, and no other file."""
_OF_A_BUSY_ENGINE = frozenset(("query_timeout", "query_too_large"))
"""Codes among these whose error may not occur again a moment later."""
_VISITOR = ("visitor_id", "user_id", "website_id")
"""Columns of the visitors of a saved list."""


def export(
    destination: Annotated[
        str,
        typer.Argument(
            help="Folder or s3://bucket/prefix for the files: new, empty, or of an earlier export."
        ),
    ],
    file_format: Annotated[
        RowFormat, typer.Option("--format", help="Format of events, clicks and identities.")
    ] = RowFormat.PARQUET,
    every_s: Annotated[
        int | None,
        typer.Option(
            "--every",
            help="Repeat at this interval, such as 24h, until the process gets SIGTERM.",
            parser=interval_s,
            metavar="INTERVAL",
            show_default=False,
        ),
    ] = None,
    endpoint_url: EndpointUrl = None,
    url: Url = LOCAL,
    api_key: ApiKey = "",
) -> None:
    """Write all data of a workspace to files. Safe to repeat: unchanged days are not written again.

    The API key needs the permissions read and manage for all websites. The files contain personal
    data, but no passwords, keys or secrets. Credentials for S3 come from the environment variables
    and profiles of AWS.
    """
    os.umask(0o077)
    try:
        storage = storage_of(destination, endpoint_url)
    except ExportFailed as error:
        fail(str(error), WRONG_USE)

    def run() -> None:
        try:
            with (
                progress("days") as bar,
                service_client(
                    url, api_key, owns="data", advice="run the same command again to continue"
                ) as client,
            ):
                client.timeout = _LONG
                websites = list(listed_records(client, "/api/settings/websites"))
                website_ids = [site["id"] for site in websites]
                with open_export(storage, file_format, website_ids) as exported:
                    steps = _Run(client, exported, file_format, bar)
                    manifest = steps.export(storage.destination, websites)
        except ExportFailed as error:
            fail(str(error))
        _print_summary(storage, manifest, exported)

    if every_s is None:
        run()
    else:
        exit_on_signals()
        repeat(run, every_s)


@dataclass(frozen=True)
class _Run:
    """One run of an export. client: sends the requests. exported: receives the files."""

    client: httpx.Client
    exported: ExportFolder
    file_format: RowFormat
    bar: Progress

    def export(self, destination: str, websites: list[Record]) -> Manifest:
        export_id = record_of(
            self.client.post(
                "/api/exports",
                json={
                    "destination": destination[:500],
                    "destinationId": self.exported.id,
                    "format": self.file_format,
                },
            )
        )["id"]
        workspace = self._read("/api/settings/workspace")
        for table, paths in LISTS.items():
            rows = (row for path in paths for row in listed_records(self.client, path))
            self._write(f"{table}.ndjson", table, rows)
        internal_traffic = self._read("/api/settings/internal-traffic")
        settings = {**workspace, "internalTraffic": internal_traffic}
        self._write("workspace.ndjson", "workspace", [settings])
        for cohort in listed_records(self.client, "/api/cohorts"):
            if cohort["kind"] == "list":
                self._export_visitors(cohort)
        for site in _one_of_each_scope(websites):
            query = {"websiteId": site["id"]}
            with every_few_seconds(still_running("Exporting identities")):
                path = f"identities/{site['id']}.{self.file_format}"
                self._download(path, "identities", "identities", query, website_id=site["id"])
        for site in websites:
            for table in ("events", "clicks"):
                self._export_days(site, table, export_id)
        for funnel in listed_records(self.client, "/api/funnels"):
            self._export_outcomes(funnel)
        manifest = self.exported.finish(workspace["name"])
        record_of(self.client.post(f"/api/exports/{export_id}/finish"))
        return manifest

    def _read(self, path: str, query: Record | None = None) -> Record:
        return record_of(self.client.get(path, params=query))

    def _write(self, path: str, table: str, rows: Iterable[Record]) -> None:
        lines = (json.dumps(row).encode() + b"\n" for row in rows)
        self.exported.write(path, table, lines)

    def _export_visitors(self, cohort: Record) -> None:
        """Export the visitors of a saved list."""
        with every_few_seconds(still_running(f"Exporting visitors of {cohort['name']}")):
            rows: Any = self._read(f"/api/cohorts/{cohort['id']}/export", {"format": "json"})
            visitors = ({name: row[name] for name in _VISITOR} for row in rows)
            self._write(f"cohorts/{cohort['id']}.ndjson", "cohort-visitors", visitors)

    def _export_outcomes(self, funnel: Record) -> None:
        """Export the outcomes of a funnel, or warn why the export lacks them."""
        path = f"outcomes/{funnel['id']}.{self.file_format}"
        route = f"/api/funnels/{funnel['id']}/unit-table"
        for is_last in (False, True):
            with (
                every_few_seconds(still_running(f"Exporting outcomes of {funnel['name']}")),
                self.client.stream("GET", route, params={"format": self.file_format}) as answer,
            ):
                if answer.is_success:
                    self._save(answer, path, "outcomes", funnel_id=funnel["id"])
                    return
                answer.read()
            problem = problem_of(answer)
            if is_last or problem.get("code") not in _OF_A_BUSY_ENGINE:
                break
        if problem.get("code") not in _OF_ONE_FUNNEL:
            record_of(answer)
        reason = str(problem.get("detail"))
        warn(f"the export has no outcomes of the funnel {funnel['name']}: {reason}")
        omitted = OmittedTable("outcomes", funnel["id"], funnel["name"], reason)
        self.exported.omitted.append(omitted)

    def _export_days(self, site: Record, table: str, export_id: str) -> None:
        """Export the days of a table that have changed since the earlier run."""
        query = {"websiteId": site["id"], "table": table}
        with every_few_seconds(still_running(f"Looking for {table} of {site['name']}")):
            days = self._read("/api/exports/days", {**query, "exportId": export_id})["data"]
        for number, day in enumerate(days, start=1):
            path = f"{table}/{site['id']}/{day['day']}.{self.file_format}"
            if not self.exported.reuse(path, day["fingerprint"]):
                noted = {name: day[name] for name in ("day", "fingerprint")}
                own_query = {**query, "day": day["day"]}
                self._download(path, table, "day", own_query, website_id=site["id"], **noted)
            self.bar.update(f"{table} of {site['name']}", number, len(days))

    def _download(self, path: str, table: str, route: str, query: Record, **more: str) -> None:
        """Stream a response into a file. An error response ends the command."""
        query = {**query, "format": self.file_format}
        with self.client.stream("GET", f"/api/exports/{route}", params=query) as answer:
            if not answer.is_success:
                answer.read()
                record_of(answer)
            self._save(answer, path, table, **more)

    def _save(self, answer: httpx.Response, path: str, table: str, **more: str) -> None:
        """Save a response as a file. Ends the command if the response is not such a file."""
        media_type = answer.headers.get("Content-Type", "").partition(";")[0]
        if media_type != MEDIA_TYPES[self.file_format]:
            fail_unexpected(answer)
        self.exported.write(path, table, answer.iter_bytes(), **more)


def _one_of_each_scope(websites: list[Record]) -> list[Record]:
    """Return one website for each group that shares its visitors."""
    by_scope = {site["identityScope"] or site["id"]: site for site in reversed(websites)}
    return list(by_scope.values())[::-1]


def _print_summary(storage: Storage, manifest: Manifest, exported: ExportFolder) -> None:
    size = sum(file.bytes for file in manifest.files)
    print(
        f"{count_of(manifest.rows.get('events', 0), 'event')} in {storage}: "
        f"{count_of(len(manifest.files), 'file')}, {size / 1e6:,.1f} MB."
    )
    print(
        f"{count_of(exported.new_files, 'file')} written, "
        f"{count_of(exported.unchanged_days, 'unchanged day')} not written again.",
        flush=True,
    )
