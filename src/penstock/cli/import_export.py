"""`penstock import --from penstock`: import an export into a workspace, over HTTP.

Repeating it is safe: records that exist stay as they are, files that were imported are skipped, and
stored events are recognised as duplicates.
"""

import gzip
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import httpx

from penstock.base.checksums import sha256_of
from penstock.base.row_files import RowFormat
from penstock.base.wording import count_of
from penstock.cli.client import Record, listed_records, record_of, service_client
from penstock.cli.import_upload import upload, wait_for
from penstock.cli.options import FAILED, fail, warn
from penstock.cli.progress import Progress, every_few_seconds, progress, still_running
from penstock.events.imports.formats.ndjson import NDJSON
from penstock.exports.folder import (
    LISTS,
    ExportedFile,
    Manifest,
    download_export,
    read_manifest,
    read_rows,
    verify_files,
)
from penstock.exports.storage import Bucket, ExportFailed, storage_of

_FILE_BYTES = 256 * 1024 * 1024
"""Maximum size of an import before compression. A day is never split."""
_SHOWN_REJECTS = 5
_CREATED = ("import_mappings", "goals", "segments", "funnels")
"""Tables whose records are created as they are. Exports of earlier versions do not have all."""
_COHORT = '"$cohort'
"""The start of each field that names a saved cohort, in JSON."""
_HEAD = ("id", "revision", "createdAt", "updatedAt", "replacedRevision")
"""Fields of a record that a new record gets from the service."""
_NOT_SENT = ("website_id", "scope_id", "properties")
"""Columns of an event that are not copied unchanged to its line."""
_WEBSITE_KEY = ("name", "kind", "identityScope")
_NEW_LINK = (
    "name", "slug", "destinationPath", "fallbackUrl", "utmSource", "utmMedium", "utmCampaign",
    "expiresAt", "expiredUrl", "tags", "passQuery",
)  # fmt: skip


class _Totals(NamedTuple):
    """Line counts of all imports together."""

    accepted: int = 0
    duplicates: int = 0
    rejected: int = 0

    def plus(self, job: Record) -> "_Totals":
        return _Totals(*(count + job[name] for name, count in self._asdict().items()))


def import_export(source: str, endpoint_url: str | None, url: str, api_key: str) -> None:
    """Import an export. Ends the command with 1 if a line was rejected."""
    try:
        with (
            _local_export(source, endpoint_url) as (folder, manifest),
            progress() as bar,
            service_client(
                url, api_key, owns="data", advice="run the same command again to continue"
            ) as client,
        ):
            totals = _import(client, folder, manifest, bar)
    except ExportFailed as error:
        fail(str(error))
    print(
        f"{count_of(totals.accepted, 'event')} imported, "
        f"{count_of(totals.duplicates, 'duplicate')}, {count_of(totals.rejected, 'line')} rejected."
    )
    if totals.rejected:
        fail("the imports page lists the rejected lines and their reasons", FAILED)


@contextmanager
def _local_export(source: str, endpoint_url: str | None) -> Iterator[tuple[Path, Manifest]]:
    """Yield the verified folder of an export. An export in a bucket is downloaded first."""
    storage = storage_of(source, endpoint_url)
    with TemporaryDirectory(prefix="penstock-import-") as temporary:
        with progress("files") as bar:
            if isinstance(storage, Bucket):
                folder = Path(temporary)
                manifest = download_export(
                    storage, folder, lambda done, total: bar.update("Downloading", done, total)
                )
            else:
                folder, manifest = storage.root, read_manifest(storage)
            verify_files(folder, manifest, lambda done, total: bar.update("Verifying", done, total))
        yield folder, manifest


def _import(client: httpx.Client, folder: Path, manifest: Manifest, bar: Progress) -> _Totals:
    existing = list(listed_records(client, "/api/settings/websites"))
    if {site["id"] for site in existing} & {*manifest.websites}:
        raise ExportFailed(
            "the export is from this workspace, so its events would be stored twice; use a key of "
            "another workspace"
        )
    websites = _create_websites(client, folder, existing)
    for table in _CREATED:
        if (folder / f"{table}.ndjson").exists():
            [path] = LISTS[table]
            records = [each for each in _records(folder, table) if not _names_cohort(each)]
            _create_missing(client, path, table, "name", records)
    _create_links(client, folder, websites)
    _replace_internal_traffic(client, folder)
    totals = _Totals()
    # Links between visitors come last, so that each event is stored with its own visitor.
    for read_files in (_event_files, _identity_files):
        for old_id, new_id in websites.items():
            files = [file for file in manifest.files if file.website_id == old_id]
            for name, lines in read_files(folder, manifest, files):
                totals = totals.plus(_import_lines(client, new_id, name, lines, bar))
    # A saved list has only visitors that are stored.
    _create_cohorts(client, folder, websites)
    return totals


def _records(folder: Path, table: str) -> Iterator[Record]:
    """Yield the records of a definition file, oldest first."""
    lines = (folder / f"{table}.ndjson").read_text("utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    yield from sorted(records, key=lambda record: str(record["createdAt"]))


def _create_websites(client: httpx.Client, folder: Path, existing: list[Record]) -> dict[str, str]:
    """Create the websites that are missing. Returns their new IDs by ID in the export."""
    new_ids = {}
    for site in _records(folder, "websites"):
        same = next(
            (each for each in existing if all(each[name] == site[name] for name in _WEBSITE_KEY)),
            None,
        )
        if same is None:
            same = record_of(client.post("/api/settings/websites", json=_new_website(site)))
        else:
            existing.remove(same)
        new_ids[site["id"]] = same["id"]
    return new_ids


def _new_website(site: Record) -> Record:
    """Return the body that creates a website like this one. The new website does not require signed
    user IDs, because signing secrets are not exported.
    """
    is_app = site["kind"] == "mobile"
    return {
        name: value
        for name, value in site.items()
        if value is not None and name not in (*_HEAD, "requiresSignedIdentities")
        if is_app or name in _WEBSITE_KEY or name == "domain" or name.endswith("RetentionDays")
    }


def _create_missing(
    client: httpx.Client, path: str, table: str, key: str, records: Iterable[Record]
) -> list[Record]:
    """Create the records whose key does not exist yet, and print those that fail.

    Returns the new records.
    """
    existing = {record[key] for record in listed_records(client, path)}
    created = []
    for record in records:
        if record[key] in existing:
            continue
        body = {name: value for name, value in record.items() if name not in _HEAD}
        answer = client.post(path, json=body)
        if answer.is_success:
            created.append(answer.json())
            continue
        problem = answer.json()
        warn(f"{table} {record[key]}: not imported, {problem.get('detail', answer.status_code)}")
    return created


def _create_links(client: httpx.Client, folder: Path, websites: dict[str, str]) -> None:
    path, links = "/api/mobile/deferred-links", list(_records(folder, "links"))
    new = (
        {name: link[name] for name in _NEW_LINK if link.get(name) is not None}
        | {"websiteId": websites[link["websiteId"]]}
        for link in links
    )
    by_slug = {link["slug"]: link for link in links}
    for created in _create_missing(client, path, "links", "slug", new):
        states = {name: by_slug[created["slug"]][name] for name in ("isActive", "isArchived")}
        if any(created[name] is not value for name, value in states.items()):
            record_of(client.patch(path, json={"id": created["id"], **states}))


def _create_cohorts(client: httpx.Client, folder: Path, websites: dict[str, str]) -> None:
    """Create the saved cohorts that are missing, oldest first: a list may name an earlier one.

    Also create the funnels that name cohorts, each as soon as its cohorts exist.
    """
    funnels = {funnel["id"]: funnel for funnel in _records(folder, "funnels")}
    waiting = [funnel for funnel in funnels.values() if _names_cohort(funnel)]
    new_ids = {
        **websites,
        **_new_ids(client, "/api/funnels", funnels.values()),
        **_new_ids(client, "/api/segments", _records(folder, "segments")),
    }
    cohorts = list(_records(folder, "cohorts"))
    of_waiting = {funnel["id"] for funnel in waiting}
    for cohort in sorted(cohorts, key=lambda cohort: cohort["funnelId"] in of_waiting):
        if cohort["funnelId"] in of_waiting:
            _create_funnels(client, waiting, new_ids)
        [*existing] = _new_ids(client, "/api/cohorts", [cohort]).items()
        if not existing:
            funnel, name = funnels.get(cohort["funnelId"]), cohort["name"]
            if funnel is None or cohort["funnelId"] not in new_ids:
                warn(f"cohorts {name}: not imported, its funnel is not in the workspace")
                continue
            parameters = dict(cohort["parameters"])
            if parameters.pop("revision", str(funnel["revision"])) != str(funnel["revision"]):
                warn(f"cohorts {name}: not imported, it has an earlier revision of its funnel")
                continue
            body = {
                "name": name,
                "kind": cohort["kind"],
                "funnelId": new_ids[cohort["funnelId"]],
                "parameters": {key: _renamed(text, new_ids) for key, text in parameters.items()},
            }
            if cohort["kind"] == "list":
                visitors = _listed_visitors(folder, cohort, websites)
                if visitors is None:
                    warn(f"cohorts {name}: not imported, the export does not have its visitors")
                    continue
                body["visitors"] = visitors
            _create_missing(client, "/api/cohorts", "cohorts", "name", [body])
            [*existing] = _new_ids(client, "/api/cohorts", [cohort]).items()
        new_ids.update(existing)
    _create_funnels(client, waiting, new_ids)


def _names_cohort(record: Record) -> bool:
    """Whether a definition names a saved cohort."""
    return _COHORT in json.dumps(record)


def _create_funnels(client: httpx.Client, funnels: list[Record], new_ids: dict[str, str]) -> None:
    """Create the funnels that are missing, with the new IDs of the cohorts that they name."""
    renamed = [json.loads(_renamed(json.dumps(funnel), new_ids)) for funnel in funnels]
    _create_missing(client, "/api/funnels", "funnels", "name", renamed)
    new_ids.update(_new_ids(client, "/api/funnels", funnels))


def _new_ids(client: httpx.Client, path: str, records: Iterable[Record]) -> dict[str, str]:
    """Return the IDs of records in the workspace by their ID in the export. Names identify them."""
    by_name = {record["name"]: record["id"] for record in listed_records(client, path)}
    return {
        record["id"]: by_name[record["name"]] for record in records if record["name"] in by_name
    }


def _renamed(text: str, new_ids: dict[str, str]) -> str:
    """Replace IDs of the export in a query parameter, such as that of a website or a cohort."""
    for old_id, new_id in new_ids.items():
        text = text.replace(old_id, new_id)
    return text


def _listed_visitors(
    folder: Path, cohort: Record, websites: dict[str, str]
) -> dict[str, list[str]] | None:
    """Return the visitors of a saved list by the ID of their website in the workspace.

    None if an earlier version wrote the export, without the visitors of lists.
    """
    path, visitors = folder / "cohorts" / f"{cohort['id']}.ndjson", dict[str, list[str]]()
    if not path.exists():
        return None
    for row in read_rows(path, RowFormat.NDJSON):
        if row["website_id"] in websites:
            visitors.setdefault(websites[row["website_id"]], []).append(row["visitor_id"])
    return visitors


def _replace_internal_traffic(client: httpx.Client, folder: Path) -> None:
    [settings] = (
        json.loads(line) for line in (folder / "workspace.ndjson").read_text("utf-8").splitlines()
    )
    filters = settings["internalTraffic"]["filters"]
    current = record_of(client.get("/api/settings/internal-traffic"))
    if filters and not current["filters"]:
        record_of(client.put("/api/settings/internal-traffic", json={"filters": filters}))


def _event_files(
    folder: Path, manifest: Manifest, files: list[ExportedFile]
) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield the imports with a website's events: a name and the lines of each.

    The last day is a separate import, because it may still change, and a changed import is read
    again.
    """
    days: list[ExportedFile] = []
    events = [file for file in files if file.table == "events"]
    for left, file in zip(reversed(range(len(events))), events, strict=True):
        days.append(file)
        following = events[-left].bytes if left else 0
        is_full = sum(day.bytes for day in days) + following > _FILE_BYTES // 8
        if is_full or left <= 1:
            yield f"events-{days[0].day}-{days[-1].day}", _event_lines(folder, manifest, days)
            days = []


def _identity_files(
    folder: Path, manifest: Manifest, files: list[ExportedFile]
) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield the import with the users and merges of a website and those that share its visitors."""
    for file in files:
        if file.table == "identities" and file.rows:
            yield "identities", _identity_lines(folder, manifest, file)


def _event_lines(folder: Path, manifest: Manifest, days: list[ExportedFile]) -> Iterator[bytes]:
    for day in days:
        for row in read_rows(folder / day.path, manifest.file_format):
            fields = {
                _camel(name): value
                for name, value in row.items()
                if value not in ("", None, False) and name not in _NOT_SENT
            }
            line = json.dumps({"type": "stored", "name": "", **fields})
            # The text of the properties stays as it is, so that numbers keep their form.
            yield f'{line[:-1]}, "properties": {row["properties"] or "{}"}}}\n'.encode()


def _identity_lines(folder: Path, manifest: Manifest, file: ExportedFile) -> Iterator[bytes]:
    """Yield a line for each visitor: first the canonical visitors, then those merged into them.

    Each further time at which traits of a user were stated has its own line.
    """
    for is_canonical in (True, False):
        for row in read_rows(folder / file.path, manifest.file_format):
            if (row["visitor_id"] == row["canonical_id"]) is not is_canonical or not row["user_id"]:
                continue
            line = {
                "type": "identify",
                "userId": row["user_id"],
                "visitorIds": [row["visitor_id"]],
            }
            traits = _object(row["traits"])
            # Exports of earlier versions have no times.
            times = _object(row.get("trait_times")) or dict.fromkeys(traits, manifest.finished_at)
            stated: dict[str, Record] = {}
            for name, time in times.items():
                stated.setdefault(time, {})[name] = traits.get(name)
            lines = [line | {"timestamp": time, "traits": own} for time, own in stated.items()]
            for each in lines or [line]:
                yield json.dumps(each).encode() + b"\n"


def _object(cell: Any) -> Record:
    """Return a JSON object in a cell; empty if there is none."""
    value: Record | None = json.loads(cell) if isinstance(cell, str) and cell else cell
    return value or {}


def _import_lines(
    client: httpx.Client, website_id: str, name: str, lines: Iterator[bytes], bar: Progress
) -> Record:
    """Import lines as a file, unless the workspace has imported the same file. Returns the job."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.ndjson.gz"
        with (
            every_few_seconds(still_running(f"Preparing {name}")),
            file.open("wb") as raw,
            gzip.GzipFile("", "wb", compresslevel=1, fileobj=raw, mtime=0) as out,
        ):
            out.writelines(lines)
        sha256 = sha256_of(file)
        jobs = listed_records(client, f"/api/imports?websiteId={website_id}")
        job = next((each for each in jobs if each["sha256"] == sha256), None)
        if job is None or job["state"] in ("failed", "cancelled"):
            job = upload(client, file, NDJSON, website_id, bar)
        job = wait_for(client, job, bar)
    if job["rejected"]:
        path = f"/api/imports/{job['id']}/rejects"
        for reject in islice(listed_records(client, path), _SHOWN_REJECTS):
            reasons = "; ".join(f"{each['field']}: {each['message']}" for each in reject["errors"])
            warn(f"line {reject['line']:,} of {name}: {reasons}")
    if job["state"] != "done":
        fail(f"the import of {name} ended early: {job['error'] or job['state']}")
    return dict(job)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)
