"""A deletion survives SIGKILL at any moment: it removes its visitors and nobody else."""

import random
import sqlite3
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.answers import columns_of
from tests.events.deletions.conftest import finished, request_deletion
from tests.serving import Served, query_warehouse

VICTIMS = 4
EVENTS = 60


@pytest.mark.usefixtures("starts_service")
@pytest.mark.slow("kills the service four times")
@pytest.mark.full("kills beyond one of each store")
def test_a_deletion_continues_after_a_kill_at_any_moment(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    data = tmp_path / "data"
    served = Served(data)
    try:
        key, site = served.first_account()
        for batch in range(EVENTS):
            people = [f"phone-{number}" for number in range(VICTIMS)] + [
                f"ben-{number}" for number in range(VICTIMS)
            ]
            items = [
                {"websiteId": site, "visitorId": who, "event": "A", "eventId": f"{who}-{batch}"}
                for who in people
            ]
            answer = served.client.post("/api/v1/events/batch", json={"events": items})
            assert answer.json()["accepted"] == len(items)
        for number in range(VICTIMS):
            for device in ("laptop", "phone"):
                who = {
                    "websiteId": site,
                    "visitorId": f"{device}-{number}",
                    "userId": f"ann-{number}",
                }
                assert served.client.post("/api/identify", json=who).status_code == 200
        jobs = []
        for number in range(VICTIMS):
            jobs.append(request_deletion(served.client, site, userId=f"ann-{number}")["id"])
            back = {"websiteId": site, "visitorId": f"phone-{number}", "event": "back"}
            assert served.client.post("/api/v1/events", json=back).status_code == 202
            time.sleep(chance.uniform(0, 0.4))
            served.kill()
            served = Served(data, key=key)
        done = [finished(served.client, job) for job in jobs]
        assert served.stop() == 0
    finally:
        served.kill()

    assert columns_of(done, "eventsFound", "eventsRemoved") == [(EVENTS, EVENTS)] * VICTIMS
    assert [deletion["dedupeKeysCleared"] for deletion in done] == [EVENTS] * VICTIMS
    events, [[aliases]], [[mutations]] = query_warehouse(
        data,
        "SELECT visitor_id, name FROM events",
        "SELECT count() FROM visitor_aliases",
        "SELECT count() FROM system.mutations WHERE NOT is_done",
    )
    expected = {(f"ben-{number}", "A"): EVENTS for number in range(VICTIMS)} | {
        (f"phone-{number}", "back"): 1 for number in range(VICTIMS)
    }
    assert Counter(map(tuple, events)) == expected
    assert (aliases, mutations) == (0, 0)
    with sqlite3.connect(data / "penstock.sqlite3") as db:
        assert db.execute("SELECT count(*) FROM event_keys WHERE visitor IS NULL").fetchone() == (
            VICTIMS * EVENTS,
        )
        assert db.execute(
            "SELECT count(*) FROM event_keys WHERE CAST(visitor AS TEXT) LIKE '%ben-%'"
        ).fetchone() == (VICTIMS * EVENTS,)
        assert db.execute("SELECT count(*) FROM user_links").fetchone() == (0,)
        assert db.execute(
            "SELECT count(*) FROM deletions WHERE visitor_ids <> '[]' OR user_id IS NOT NULL"
        ).fetchone() == (0,)
