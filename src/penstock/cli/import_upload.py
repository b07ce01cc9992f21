"""Uploads a file to a running service, and waits for its import."""

import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from penstock.base.hidden_text import printable
from penstock.cli.client import Record, record_of
from penstock.cli.progress import Progress
from penstock.events.imports.formats.reader import Reader
from penstock.events.imports.formats.schema import ImportMapping

_CHUNK_BYTES = 256 * 1024
_POLL_S = 0.3
_PATIENCE_S = 60.0
"""Maximum time that the service may be unreachable during an import, for example while it restarts,
in seconds.
"""


def upload(
    client: httpx.Client,
    file: Path,
    reader: Reader,
    website: str,
    bar: Progress,
    mapping: ImportMapping | None = None,
    timezone: str | None = None,
) -> Record:
    total = file.stat().st_size

    def chunks() -> Iterator[bytes]:
        uploaded = 0
        with file.open("rb") as source:
            while chunk := source.read(_CHUNK_BYTES):
                yield chunk
                uploaded += len(chunk)
                bar.update("Uploading", uploaded, total)

    headers = {"Content-Type": reader.media_types[0], "Content-Length": str(total)}
    name = printable(file.name)[-200:]
    query = {"websiteId": website, "fileName": name, "format": reader.name}
    if mapping is not None:
        query["mapping"] = mapping.model_dump_json(exclude_defaults=True)
    if timezone is not None:
        query["timezone"] = timezone
    return record_of(client.post("/api/imports", params=query, content=chunks(), headers=headers))


def wait_for(client: httpx.Client, job: Record, bar: Progress) -> Record:
    """Wait until the import has finished. Returns the finished job."""
    last_answer_s = time.monotonic()
    while job["state"] in ("queued", "running"):
        time.sleep(_POLL_S)
        try:
            job = record_of(client.get(f"/api/imports/{job['id']}"))
            last_answer_s = time.monotonic()
        except httpx.TransportError:
            if time.monotonic() - last_answer_s > _PATIENCE_S:
                raise
        bar.update("Importing", job["bytesRead"], job["bytesTotal"])
    return job
