"""No line of the log repeats many times a second, whoever causes it and however often."""

import logging
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from penstock.cli.log_limits import LineLimiter
from penstock.metadb.snapshot import SQLITE_FILE
from tests.cli.commands import logged
from tests.serving import Served


def record(
    event: object, logger: str = "penstock", level: int = logging.WARNING
) -> logging.LogRecord:
    return logging.LogRecord(logger, level, "", 0, event, (), None)


@pytest.mark.usefixtures("starts_service")
@pytest.mark.slow("each answer waits for the database")
def test_a_stranger_cannot_repeat_a_line_many_times_a_second(tmp_path: Path) -> None:
    with Served(tmp_path / "data") as served:
        with closing(sqlite3.connect(tmp_path / "data" / SQLITE_FILE)) as metadb:
            metadb.execute("ALTER TABLE websites RENAME TO missing")
        item = {"type": "event", "name": "e", "visitorId": "v"}
        for number in range(12):
            answer = served.client.post("/api/track", json={**item, "websiteId": f"web_{number}"})
            assert answer.status_code >= 500
        counts = Counter(line["event"] for line in logged(served.output()))
        assert 0 < max(counts.values()) <= 10  # once all 12


def test_the_number_of_lines_left_out_follows() -> None:
    now_s = 0.0
    limiter = LineLimiter(lambda: now_s)
    lines = [limiter.filter(record({"event": "away", "path": f"/{n}"})) for n in range(100)]
    assert lines == [True] * 10 + [False] * 90
    assert limiter.filter(record({"event": "other"}))
    now_s = 10.0
    with capture_logs() as written:
        assert limiter.filter(record({"event": "another"}))
        assert limiter.filter(record({"event": "away"}))
    [left_out] = written
    assert (left_out["event"], left_out["line"], left_out["left_out"]) == (
        "log_lines_left_out", "away", 90
    )  # fmt: skip


def test_lines_of_a_library_are_limited_by_their_text_without_values() -> None:
    limiter = LineLimiter(lambda: 0.0)
    passed = [limiter.filter(record("Closed %s", "library")) for _ in range(20)]
    assert sum(passed) == 10
    assert limiter.filter(record("Closed %s", "another"))
    assert limiter.filter(record("Closed %s", "library", logging.ERROR))


def test_each_step_of_a_migration_has_its_line() -> None:
    limiter = LineLimiter(lambda: 0.0)
    assert all(limiter.filter(record({"event": "event_store_migration"})) for _ in range(50))


def test_many_kinds_of_lines_take_little_memory() -> None:
    limiter = LineLimiter(lambda: 0.0)
    for number in range(5_000):
        assert limiter.filter(record(f"line {number}"))
    assert len(limiter._windows) <= 1_001
