"""An upgrade ships the traits of all users to the event store, where reports read them."""

import json
import sqlite3
from pathlib import Path

import pytest

from tests.serving import Served, penstock
from tests.stores.test_upgrade import expected, release_0_1_0

__all__ = ["release_0_1_0"]

USERS = 250  # more than a page of the migration


@pytest.mark.usefixtures("starts_service")
@pytest.mark.slow("upgrades both stores")
def test_an_upgrade_ships_the_traits_of_all_users(release_0_1_0: Path) -> None:
    release = expected(release_0_1_0)
    website = release["websiteId"]
    with sqlite3.connect(release_0_1_0 / "penstock.sqlite3") as database:
        for number in range(USERS):
            plan = ("pro", 5)[number % 2]
            own = (website, f"member-{number}", f"traveller-{number}")
            database.execute(
                "INSERT INTO visitors (scope_id, user_id, visitor_id, canonical_id, created_at) "
                "VALUES (?, ?, ?, ?, 1)",
                (*own, own[2]),
            )
            database.execute(
                "INSERT INTO user_links (scope_id, user_id, visitor_id, traits, created_at) "
                "VALUES (?, ?, ?, ?, 1)",
                (*own, json.dumps({"plan": plan, "tags": ["a"]})),
            )
    assert penstock("migrate", "--data", str(release_0_1_0)).returncode == 0
    with Served(release_0_1_0) as service:
        service.client.headers["Authorization"] = f"Bearer {release['key']}"
        events = [
            {"type": "event", "name": "used", "visitorId": f"traveller-{number}"}
            for number in range(USERS)
        ]
        sent = service.client.post("/api/track", json={"websiteId": website, "events": events})
        assert sent.json()["accepted"] == USERS
        definition = {
            "name": "Used",
            "steps": [{"type": "Event", "value": "used"}, {"type": "Event", "value": "paid"}],
            "breakdownProperties": ["$trait.plan", "$trait.tags"],
        }
        saved = service.client.post("/api/funnels", json=definition).raise_for_status().json()
        report = service.client.get(f"/api/funnels/{saved['id']}/results").raise_for_status().json()
        cohorts = [(row["cohort"], row["entered"]) for row in report["cohorts"]["data"]]
        assert cohorts == [
            ({"$trait.plan": 5, "$trait.tags": None}, USERS // 2),
            ({"$trait.plan": "pro", "$trait.tags": None}, USERS // 2),
        ]
        assert service.stop() == 0
    verified = penstock("verify", "--data", str(release_0_1_0))
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "traits" in verified.stdout
