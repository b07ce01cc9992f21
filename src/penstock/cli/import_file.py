"""`penstock import`: import past events from files into a running service, over HTTP.

Repeating it is safe: it restarts an interrupted upload, waits for an import that is still running,
and recognises stored events as duplicates.
"""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
from httpx import codes

from penstock.base.checksums import sha256_of
from penstock.base.clock import parse_time
from penstock.base.wording import count_of, listed, utc_time
from penstock.cli.client import (
    LOCAL,
    ApiKey,
    Record,
    Url,
    listed_records,
    record_of,
    service_client,
)
from penstock.cli.import_dry_run import try_file
from penstock.cli.import_export import import_export
from penstock.cli.import_mapping import find_mapping, guess
from penstock.cli.import_upload import upload, wait_for
from penstock.cli.options import FAILED, WRONG_USE, EndpointUrl, fail, warn
from penstock.cli.progress import every_few_seconds, progress, still_running
from penstock.events.imports.content import looks_like, problem_of_head
from penstock.events.imports.formats.reader import HEAD_BYTES, Reader, ReaderLimits
from penstock.events.imports.formats.recognition import product_of_table
from penstock.events.imports.formats.schema import ImportMapping
from penstock.events.imports.formats.table import (
    READERS,
    reader_named,
    reader_of_file,
    timezone_fault,
)
from penstock.events.imports.model import MAX_STORED_REJECTS
from penstock.exports.storage import SCHEME
from penstock.http.period import known_timezone
from penstock.http.schema import RuleBroken

_FORMATS = " ".join(f"{reader.description} ({', '.join(reader.endings)})." for reader in READERS)
_EXPORT = "penstock"
"""Value of `--from` for the folder of an export."""
_NAMES = [*(reader.name for reader in READERS), _EXPORT]


def _source(name: str) -> Reader | str:
    """Parse `--from`. Returns the reader of a file, or `_EXPORT`."""
    if name not in _NAMES:
        fail(f"--from: Must be {listed(_NAMES, 'or')}.", WRONG_USE)
    return name if name == _EXPORT else reader_named(name)


def _way_out(other: Reader) -> str:
    return f"Add --from {other.name}."


def _timezone(name: str) -> str:
    """Parse `--timezone`."""
    try:
        return known_timezone(name)
    except RuleBroken as error:
        fail(f"--timezone: {error}", WRONG_USE)


def _file_or_bucket(text: str) -> Path | str:
    """Parse a file. Returns the path of an existing file or folder, or the URL of a bucket."""
    if text.startswith(SCHEME):
        return text
    if not os.access(text, os.R_OK):
        fail(f"{text} does not exist or is not readable", WRONG_USE)
    return Path(text)


def import_file(
    files: Annotated[
        list[Any],
        typer.Argument(
            help=f"Files of past events, plain, gzip, Zstandard or ZIP; or the folder or s3://bucket/"
            f"prefix of an export with --from {_EXPORT}. {_FORMATS}",
            parser=_file_or_bucket,
            metavar="FILE",
            show_default=False,
        ),
    ],
    website: Annotated[
        str | None,
        typer.Option(
            help="ID of the website or app that the events belong to. Required for files.",
            show_default=False,
        ),
    ] = None,
    source: Annotated[
        Any,
        typer.Option(
            "--from",
            "--format",
            help="Format of the files, if it is not clear from their names.",
            parser=_source,
            metavar="|".join(_NAMES),
            show_default=False,
        ),
    ] = None,
    mapping_source: Annotated[
        str | None,
        typer.Option(
            "--map",
            help="TOML file with the uses of the columns of a table or JSON lines, or the name or "
            "ID of a saved mapping.",
            metavar="MAPPING.TOML|NAME",
            show_default=False,
        ),
    ] = None,
    is_guess: Annotated[
        bool,
        typer.Option(
            "--guess-mapping",
            help="Show the first rows of a table or of JSON lines, and write a mapping to correct: "
            "to the file that --map names, or to FILE.mapping.toml.",
        ),
    ] = False,
    timezone: Annotated[
        str | None,
        typer.Option(
            help="Time zone of times without an offset in a file of another product, such as "
            "Europe/Berlin, and of the project for mixpanel. Default: UTC.",
            parser=_timezone,
            metavar="ZONE",
            show_default=False,
        ),
    ] = None,
    is_dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Only read the files on this machine, and show what they contain."
        ),
    ] = False,
    endpoint_url: EndpointUrl = None,
    url: Url = LOCAL,
    api_key: ApiKey = "",
) -> None:
    """Import past events. Safe to repeat: no event is stored twice.

    Exits with 1 if an import failed or lines were rejected.
    """
    if source == _EXPORT:
        is_one = len(files) == 1 and (isinstance(files[0], str) or files[0].is_dir())
        if not is_one or website is not None or is_dry_run:
            fail(f"--from {_EXPORT} needs one folder, and no --website or --dry-run", WRONG_USE)
        import_export(str(files[0]), endpoint_url, url, api_key)
        return
    if any(isinstance(file, str) for file in files):
        fail(f"only an export (--from {_EXPORT}) can be read from a bucket", WRONG_USE)
    if website is None and not (is_dry_run or is_guess):
        fail(
            "--website: Give the ID of the website or app that the events belong to. It is on the "
            "page Settings, Websites and apps.",
            WRONG_USE,
        )
    for file in files:
        if file.is_dir():
            fail(f"{file} is a folder; name its files: {file}/*", WRONG_USE)
        if not file.is_file():
            fail(
                f"{file} is not a regular file; write the events to a file first: it is read twice",
                WRONG_USE,
            )
    if is_guess:
        guess(
            files[0],
            source or reader_of_file(files[0].name),
            Path(mapping_source)
            if mapping_source
            else files[0].with_name(f"{files[0].name}.mapping.toml"),
            timezone,
        )
        return
    mapping = None if mapping_source is None else find_mapping(mapping_source, url, api_key)
    is_complete = []
    for file in files:
        reader = source or reader_of_file(file.name)
        product = None if mapping else product_of_table(file, reader)
        reader = product if product and source is None else reader
        if mapping is not None and reader.mapped is None:
            fail(f"--map: The format {reader.name} needs no mapping.", WRONG_USE)
        if timezone is not None and (fault := timezone_fault(reader)) is not None:
            fail(f"--timezone: {fault.message}", WRONG_USE)
        if len(files) > 1:
            print(f"{file}:")
        reads_file = reader_named(reader.name, mapping)
        with file.open("rb") as content:
            problem = problem_of_head(
                content.read(2 * HEAD_BYTES),
                reads_file,
                is_mapped=mapping is not None,
                way_out=_way_out,
            )
        if product is not None and product is not reader:
            problem = looks_like(product, reader, _way_out)
        if problem is not None:
            warn(problem)
            is_complete.append(False)
        elif website is None or is_dry_run:
            is_complete.append(try_file(file, reads_file, mapping, timezone or "UTC"))
        else:
            is_complete.append(_import(file, website, reader, mapping, timezone, url, api_key))
    if not all(is_complete):
        raise typer.Exit(FAILED)


def _import(
    file: Path,
    website: str,
    reader: Reader,
    mapping: ImportMapping | None,
    timezone: str | None,
    url: str,
    api_key: str,
) -> bool:
    """Import a file. Returns whether every line was accepted."""
    with (
        progress() as bar,
        service_client(
            url, api_key, owns="website", advice="run the same command again to continue"
        ) as client,
    ):
        job = _unfinished_import(client, file, website)
        if job is not None:
            print("An earlier run has uploaded this file; this run waits for its import.")
        else:
            job = upload(client, file, reader, website, bar, mapping, timezone)
        job = wait_for(client, job, bar)
        with every_few_seconds(still_running("Fetching rejected lines")):
            rejected = _write_rejects(client, job, file, reader_named(reader.name, mapping))
    return _print_summary(job, rejected)


def _unfinished_import(client: httpx.Client, file: Path, website: str) -> Record | None:
    """Find the unfinished import of this file, if any. A wrong key or website ends the command.

    A key with only the scope `ingest` cannot list imports, so the file is uploaded again.
    """
    answer = client.get(f"/api/settings/websites/{website}")
    if answer.status_code == codes.FORBIDDEN:
        return None
    record_of(answer)
    with every_few_seconds(still_running("Reading the file")):
        sha256 = sha256_of(file)
    imports = record_of(client.get("/api/imports", params={"websiteId": website, "pageSize": 100}))
    return next(
        (
            job
            for job in imports["data"]
            if job["sha256"] == sha256 and job["state"] in ("queued", "running")
        ),
        None,
    )


def _write_rejects(client: httpx.Client, job: Record, file: Path, reader: Reader) -> Path | None:
    """Write rejected lines with their numbers and reasons to `FILE.rejected.ndjson`.

    Returns the path, or None if no line was rejected.
    """
    path = file.with_name(file.name + ".rejected.ndjson")
    path.unlink(missing_ok=True)
    if not job["rejected"]:
        return None
    rows = reader.rows(file, ReaderLimits(sys.maxsize, sys.maxsize))
    with path.open("w", encoding="utf-8") as out:
        for reject in listed_records(client, f"/api/imports/{job['id']}/rejects"):
            content = next(
                row.content
                for row in rows
                if row.line == reject["line"] and (row.content or row.faults)
            )
            rejected = {**reject, "input": _parse_content(content)}
            out.write(json.dumps(rejected, ensure_ascii=False) + "\n")
    return path


def _parse_content(content: bytes) -> Any:
    """Return the content of a row as JSON, or as text if it is not JSON."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return content.decode("utf-8", "replace").rstrip("\r\n")


def _print_summary(job: Record, rejected: Path | None) -> bool:
    """Print the result of an import. Returns whether every line was accepted."""
    print(
        f"{count_of(job['accepted'], 'event')} imported, "
        f"{count_of(job['duplicates'], 'duplicate')}, {count_of(job['rejected'], 'line')} rejected."
    )
    if job["emptyLines"]:
        print(f"{count_of(job['emptyLines'], 'empty line')} skipped.")
    if job["ignoredLines"]:
        print(f"{count_of(job['ignoredLines'], 'line')} skipped, with nothing to store.")
    if job["identifyLines"]:
        print(f"{count_of(job['identifyLines'], 'line')} linked visitors to users.")
    if job["identityConflicts"]:
        print(
            f"{count_of(job['identityConflicts'], 'line')} named a visitor who already belongs to "
            "another user, so nothing was merged."
        )
    if job["firstEventAt"]:
        first, last = (utc_time(parse_time(job[name])) for name in ("firstEventAt", "lastEventAt"))
        print(f"They occurred from {first} to {last}.")
    for warning in job["warnings"]:
        lines = "" if warning["lines"] is None else f", {count_of(warning['lines'], 'line')}"
        print(f"Warning{lines}: {warning['message']}")
    if rejected is not None:
        print(f"Rejected lines and reasons: {rejected}")
        if job["rejected"] > MAX_STORED_REJECTS:
            print(f"This file has the first {MAX_STORED_REJECTS:,} of them.")
    if job["state"] == "cancelled":
        warn(f"the import was cancelled after line {job['linesRead']:,}")
    if job["state"] == "failed":
        warn(f"the import failed after line {job['linesRead']:,}: {job['error']}")
    return job["state"] == "done" and rejected is None
