"""Fixtures and helpers for imports, whose jobs are stored in both kinds of metadata DB."""

import pytest

from tests.events.conftest import NDJSON_TYPE, imported
from tests.waiting import PATIENCE_S

COUNTS = ("linesRead", "accepted", "duplicates", "rejected")


def line(number=0, **more):
    at = f"2020-05-01T10:00:{number % 60:02d}.000Z"
    return {
        "type": "event",
        "name": f"step {number}",
        "timestamp": at,
        "visitorId": f"v{number}",
    } | more


def counts(job):
    return tuple(job[name] for name in COUNTS)


def stored(services, website_id, columns="name"):
    """A website's events in the warehouse, by time and name."""
    assert services.shipper.wait_until_shipped(PATIENCE_S)
    _, rows = services.warehouse.query(
        f"SELECT {columns} FROM events WHERE website_id = {{website:String}}"  # noqa: S608
        " ORDER BY occurred_at, name",
        {"website": website_id},
    )
    return [row[0] if len(row) == 1 else tuple(row) for row in rows]


def rejects(client, job):
    return client.get(f"/api/imports/{job['id']}/rejects").json()["data"]


def importer(format_name, media_type=NDJSON_TYPE):
    """Create a fixture that imports lines, or the bytes of a file, in this format."""

    @pytest.fixture
    def import_file(workspace):
        def run(*lines):
            content = lines[0] if isinstance(lines[0], bytes) else lines
            return imported(workspace, content, media_type, format=format_name)

        return run

    return import_file


def between(good, faulty):
    """Return the lines of a file with a good line before and after each faulty one."""
    return [good, *(part for line, _ in faulty for part in (line, good))]


def assert_faulty_rejected(client, job, faulty):
    """Check the import of a file of `between`. faulty: each line with its faulty field."""
    assert (job["accepted"], job["rejected"]) == (len(faulty) + 1, len(faulty))
    rejected = [(reject["line"], reject["errors"][0]["field"]) for reject in rejects(client, job)]
    assert rejected == [(2 * index, field) for index, (_, field) in enumerate(faulty, 1)]


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url
