"""An import continues after SIGKILL at any moment, and stores each line exactly once.

The first kill falls between the commit of a batch and that of its progress. `PENSTOCK_KILLS` says
how often the service is killed after that, at a random moment after the import has gone on: an
import that never does fails (`test_deaths.py`).
"""

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.events.conftest import finished, only_import, upload_to
from tests.serving import Served, query_warehouse
from tests.waiting import PATIENCE_S, eventually

KILLS = int(os.environ.get("PENSTOCK_KILLS", "3"))
LINES, PEOPLE = 8_000, 700
AFTER_COMMIT = ("tests.faults.faulty_service", "import_after_batch", "2")
"""A service that dies when the second batch is stored, before it saves the progress."""
Line = Callable[[int], dict[str, Any]]


def ndjson_line(number: int) -> dict[str, Any]:
    """Every second line has no ID, so its content identifies it."""
    line = {
        "type": "event",
        "name": "e",
        "timestamp": 1_740_000_000_000 + number,
        "visitorId": f"d{number % PEOPLE}",
        "properties": {"n": number},
    }
    user = {"userId": f"u{number % PEOPLE}"} if number > LINES // 2 else {}
    return line | user | ({"dedupeKey": f"key-{number}"} if number % 2 else {})


def mixpanel_line(number: int) -> dict[str, Any]:
    person = number % PEOPLE
    user = {"$user_id": f"u{person}"} if number > LINES // 2 else {}
    return {
        "event": "e",
        "properties": {
            "time": 1_740_000_000 + number,
            "distinct_id": f"u{person}" if user else f"$device:d{person}",
            "$device_id": f"d{person}",
            "$insert_id": f"insert-{number}",
            "n": number,
            **user,
        },
    }


def posthog_line(number: int) -> dict[str, Any]:
    is_user = number > LINES // 2
    return {
        "uuid": f"0190a000-0000-7000-8000-{number:012}",
        "event": "e",
        "distinct_id": f"{'u' if is_user else 'd'}{number % PEOPLE}",
        "timestamp": f"2025-03-01T10:00:00.{number:06}+00:00",
        "properties": {"$is_identified": is_user, "n": number},
    }


def segment_line(number: int) -> dict[str, Any]:
    user = {"userId": f"u{number % PEOPLE}"} if number > LINES // 2 else {}
    return {
        "type": "track",
        "event": "e",
        "messageId": f"message-{number}",
        "anonymousId": f"d{number % PEOPLE}",
        "timestamp": f"2025-03-01T10:00:00.{number % 1000:03}Z",
        "properties": {"n": number},
        **user,
    }


LINE_OF: dict[str, Line] = {
    "ndjson": ndjson_line,
    "mixpanel": mixpanel_line,
    "posthog": posthog_line,
    "segment": segment_line,
}


def await_progress(served: Served, import_id: str) -> None:
    """Wait until the import has stored more lines in this process, or all."""

    def lines_read() -> int:
        return served.client.get(f"/api/imports/{import_id}").json()["linesRead"]

    before = lines_read()
    eventually(lambda: before == LINES or lines_read() > before)


@pytest.mark.usefixtures("starts_service")
@pytest.mark.parametrize("format_name", LINE_OF)
@pytest.mark.slow("kills the service again and again")
@pytest.mark.full("kills beyond one of each store")
def test_each_line_is_stored_exactly_once_after_kills(
    tmp_path: Path, format_name: str, record_property: Callable[[str, object], None]
) -> None:
    record_property("kills", KILLS + 1)
    data, seed = tmp_path / "data", random.randrange(2**32)
    chance = random.Random(seed)
    body = [LINE_OF[format_name](number) for number in range(LINES)]
    served = Served(data, program=AFTER_COMMIT)
    try:
        key, website_id = served.first_account()
        with suppress(httpx.TransportError):  # It may die before it has answered.
            upload_to(served.client, website_id, body, format=format_name)
        assert served.process.wait(timeout=PATIENCE_S) == -signal.SIGKILL
        for pause_s in [0.0, *(chance.uniform(0, 0.5) for _ in range(KILLS))]:
            time.sleep(pause_s)
            served.kill()
            served = Served(data, key=key)
            await_progress(served, only_import(served.client))
        job = finished(served.client, only_import(served.client))
        served.await_shipped()
        assert served.stop() == 0
    finally:
        served.kill()

    print(f"{format_name}: {KILLS + 1} kills (seed {seed}), {job['duplicates']} lines read again")
    assert (job["state"], job["linesRead"], job["rejected"]) == ("done", LINES, 0)
    assert job["duplicates"] > 0
    assert job["accepted"] + job["duplicates"] == LINES
    [numbers] = query_warehouse(
        data, "SELECT JSONExtractInt(properties, 'n') AS n FROM events ORDER BY n"
    )
    assert [row[0] for row in numbers] == list(range(LINES))
