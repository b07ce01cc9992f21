"""`penstock import`: past events from a file into a running service, over HTTP.

To run it again is always right: an upload that broke off starts anew, a file that the service still reads is watched to its end, and events
that are there already are recognised.
"""

import gzip
import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer

from penstock.cli.asking import LOCAL, ApiKey, Record, Url, answered, asking
from penstock.cli.options import FAILED, WRONG_USE, fail
from penstock.cli.progress import Progress, progress

_CHUNK_BYTES = 256 * 1024
_POLL_S = 0.3
_PATIENCE_S = 60.0
"""How long a service that reads our file may be away, for instance while it restarts."""


def import_file(
    file: Annotated[Path, typer.Argument(help="NDJSON, one event a line, plain or gzip.", exists=True, dir_okay=False, readable=True)],
    website: Annotated[str, typer.Option(help="ID of the website or app that the events belong to.")],
    url: Url = LOCAL,
    api_key: ApiKey = "",
) -> None:
    """Import past events. Safe to run again: nothing is stored twice. Ends with 1 when the import failed or lines were rejected."""
    if not file.is_file():
        fail(f"{file} is no regular file; write the events to one first, for it is read more than once", WRONG_USE)
    with progress() as shown, asking(url, api_key, owns="website", way_on="run the same command again to go on") as client:
        job = _unfinished(client, file, website) or _upload(client, file, website, shown)
        job = _watched(client, job, shown)
        rejected = _write_rejects(client, job, file)
    _tell(job, rejected)


def _unfinished(client: httpx.Client, file: Path, website: str) -> Record | None:
    """The import of this very file that the service still reads, if there is one. Ends the command when key or website are wrong."""
    answered(client.get(f"/api/settings/websites/{website}"))
    with file.open("rb") as source:
        sha256 = hashlib.file_digest(source, "sha256").hexdigest()
    recent = answered(client.get("/api/imports", params={"websiteId": website, "pageSize": 100}))
    return next((job for job in recent["data"] if job["sha256"] == sha256 and job["state"] in ("queued", "running")), None)


def _upload(client: httpx.Client, file: Path, website: str, shown: Progress) -> Record:
    total = file.stat().st_size

    def chunks() -> Iterator[bytes]:
        sent = 0
        with file.open("rb") as source:
            while chunk := source.read(_CHUNK_BYTES):
                yield chunk
                sent += len(chunk)
                shown.at("Uploading", sent, total)

    headers = {"Content-Type": "application/x-ndjson", "Content-Length": str(total)}
    name = "".join(character if character.isprintable() else "?" for character in file.name)
    query = {"websiteId": website, "fileName": name[-200:]}
    return answered(client.post("/api/imports", params=query, content=chunks(), headers=headers))


def _watched(client: httpx.Client, job: Record, shown: Progress) -> Record:
    """The job at its end."""
    last_answer_s = time.monotonic()
    while job["state"] in ("queued", "running"):
        time.sleep(_POLL_S)
        try:
            job = answered(client.get(f"/api/imports/{job['id']}"))
            last_answer_s = time.monotonic()
        except httpx.TransportError:
            if time.monotonic() - last_answer_s > _PATIENCE_S:
                raise
        shown.at("Importing", job["bytesRead"], job["bytesTotal"])
    return job


def _write_rejects(client: httpx.Client, job: Record, file: Path) -> Path | None:
    """`FILE.rejected.ndjson`: each rejected line with its number and reasons. None, and no such file, when there are none."""
    path = file.with_name(file.name + ".rejected.ndjson")
    path.unlink(missing_ok=True)
    if not job["rejected"]:
        return None
    with file.open("rb") as raw, path.open("w", encoding="utf-8") as out:
        zipped = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        numbered = enumerate(gzip.GzipFile(fileobj=raw) if zipped else raw, 1)
        for reject in _rejects(client, job):
            text = next(text for number, text in numbered if number == reject["line"])
            out.write(json.dumps({**reject, "input": _readable(text)}, ensure_ascii=False) + "\n")
    return path


def _rejects(client: httpx.Client, job: Record) -> Iterator[Record]:
    for page in range(1, -(-job["rejected"] // 100) + 1):
        yield from answered(client.get(f"/api/imports/{job['id']}/rejects", params={"page": page, "pageSize": 100}))["data"]


def _readable(line: bytes) -> Any:
    """The line as JSON, or as text when it is none."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return line.decode("utf-8", "replace").rstrip("\r\n")


def _tell(job: Record, rejected: Path | None) -> None:
    print(f"{job['accepted']:,} events imported, {job['duplicates']:,} known already, {job['rejected']:,} lines rejected.")
    if job["firstEventAt"]:
        print(f"They happened from {job['firstEventAt']} to {job['lastEventAt']}.")
    if rejected is not None:
        print(f"Rejected lines and why: {rejected}")
    if job["state"] == "failed":
        fail(f"the import stopped after line {job['linesRead']:,}: {job['error']}")
    if rejected is not None:
        raise typer.Exit(FAILED)
