"""Stores the responses of jobs in the metadata DB. They are split into parts, so that long ones are
never entirely in memory. All functions block.
"""

from collections.abc import Callable, Iterable
from enum import Enum
from tempfile import TemporaryFile
from typing import Any, cast

from litestar import Response
from litestar.response import Stream

from penstock.base.errors import NotFound, PenstockError, TooLarge
from penstock.http.answers import file_response
from penstock.jobs import store
from penstock.jobs.model import Job
from penstock.metadb.database import Database

MAX_BYTES = 256 * 1024 * 1024
"""Maximum size of one response, and of a workspace's finished jobs together, in bytes."""
_IN_MEMORY_BYTES = 1024 * 1024


def store_response(
    database: Database,
    job_id: str,
    response: Response[bytes],
    require_room: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Store a response. Returns the job columns that describe it.

    require_room: called with the size of a large response so far; raises an error if there is no
    room for it. After an error, or `TooLarge`, the parts stored so far are deleted.
    """
    size = 0
    # One transaction per part, so that incoming events do not wait for a long response.
    for number, part in enumerate(_parts(response)):
        size += len(part)
        try:
            _require_small(size)
            if require_room is not None and size > _IN_MEMORY_BYTES:
                require_room(size)
        except PenstockError:
            with database.write() as db:
                store.delete_parts(db, job_id)
            raise
        with database.write() as db:
            store.add_part(db, job_id, number, part)
    media_type = response.media_type
    return {
        "status": response.status_code or 200,
        "media_type": media_type.value if isinstance(media_type, Enum) else media_type,
        "headers": dict(response.headers),
        "bytes": size,
    }


def _require_small(size: int) -> None:
    if size > MAX_BYTES:
        raise TooLarge(
            f"The result has more than {MAX_BYTES // 1024**2} MB, the most that a job may "
            "have. Send the request without Prefer: respond-async, or narrow it down.",
            code="result_too_large",
        )


def _parts(response: Response[bytes]) -> Iterable[bytes]:
    if isinstance(response, Stream):  # a file's iterator yields small parts
        return cast("Callable[[], Iterable[bytes]]", response.iterator)()
    return [response.content] if response.content else []


def read_response(database: Database, job: Job) -> Response[bytes]:
    """Return the stored response of a job, unchanged. Raises `NotFound` if the job was deleted."""
    status, media_type, headers = job.status, job.media_type, dict(job.headers or {})
    if job.bytes <= _IN_MEMORY_BYTES:
        with database.read() as db:
            content = b"".join(store.parts(db, job.id))
        _require_all(job, len(content))
        return Response(content, status_code=status, media_type=media_type, headers=headers)
    # Copy the response first. A slow reader must not hold a connection, and deleting the job must
    # not cut off a response.
    file = TemporaryFile()  # noqa: SIM115 - it disappears with the response
    with database.read() as db:
        for part in store.parts(db, job.id):
            file.write(part)
    file.flush()
    _require_all(job, file.tell())
    return file_response(file, str(media_type), headers, status_code=status)


def _require_all(job: Job, size: int) -> None:
    if size != job.bytes:
        raise no_such_job()


def no_such_job() -> NotFound:
    return NotFound("There is no such job in this workspace; finished jobs are kept for an hour.")
