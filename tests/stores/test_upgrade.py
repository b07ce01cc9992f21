"""A data folder of release 0.1.0 is upgraded, also across kills, and its reports stay the same."""

import json
import signal
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.serving import Served, penstock, query_warehouse, run_module
from tests.stores.build_data_0_1_0 import ARCHIVE
from tests.stores.reports import comparable
from tests.stores.schema_versions import DATABASE_VERSIONS, UP_TO_DATE, WAREHOUSE_VERSIONS

pytestmark = pytest.mark.usefixtures("starts_service")

USERS = 250

BOUNDARIES = (
    *(f"database {version} inside" for version in DATABASE_VERSIONS[1:]),
    f"database {DATABASE_VERSIONS[-1]} after",
    *(
        f"warehouse {version} {where}"
        for version in WAREHOUSE_VERSIONS
        for where in ("inside", "after")
    ),
)


@pytest.fixture
def release_0_1_0(tmp_path: Path) -> Path:
    """A copy of the data folder that 0.1.0 made."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path)
    return tmp_path / "data"


def expected(data: Path) -> dict[str, Any]:
    answers: dict[str, Any] = json.loads((data.parent / "expected.json").read_text())
    return answers


@contextmanager
def served_with_same_reports(data: Path) -> Iterator[Served]:
    release = expected(data)
    with Served(data) as service:
        service.client.headers["Authorization"] = f"Bearer {release['key']}"
        for path, answer in release["answers"].items():
            now = comparable(service.client.get(path).raise_for_status().json())
            if path.endswith("/trend"):
                end_where_0_1_0_did(now, answer)
            assert_contains(now, answer, path)
        # Events of 0.1.0 are no loss, and no part of one.
        assert "event_rows_baseline" in service.output()
        assert service.client.get("/health/ready").json()["missingEvents"]["events"] == 0
        yield service


def end_where_0_1_0_did(trend: Any, before: Any) -> None:
    """A trend without a period runs to now; that of 0.1.0 ended with the last entry."""
    buckets = trend["data"]
    trend["data"], later = buckets[: len(before["data"])], buckets[len(before["data"]) :]
    assert not any(bucket["entered"] for bucket in later)


def assert_contains(now: Any, before: Any, where: str) -> None:
    """Every field that 0.1.0 returned is unchanged; there may be new fields."""
    if isinstance(before, dict):
        assert set(before) <= set(now), where
        for name, value in before.items():
            assert_contains(now[name], value, f"{where} {name}")
    elif isinstance(before, list):
        assert len(now) == len(before), where
        for index, (item, item_before) in enumerate(zip(now, before, strict=True)):
            assert_contains(item, item_before, f"{where}[{index}]")
    else:
        assert now == before, where


def store_users(data: Path) -> None:
    """Store users with traits, more than a page of the migration."""
    website = expected(data)["websiteId"]
    with sqlite3.connect(data / "penstock.sqlite3") as database:
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


def assert_reports_read_traits(service: Served, website: str) -> None:
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


@pytest.mark.slow("upgrades both stores")
def test_an_upgrade_from_0_1_0_keeps_every_report_and_ships_traits(release_0_1_0: Path) -> None:
    """Afterwards, a newer event store is refused."""
    data = ("--data", str(release_0_1_0))
    store_users(release_0_1_0)
    upgraded = penstock("migrate", *data)
    assert (upgraded.returncode, upgraded.stdout) == (0, UP_TO_DATE)
    with served_with_same_reports(release_0_1_0) as service:
        assert_reports_read_traits(service, expected(release_0_1_0)["websiteId"])
        assert service.stop() == 0
    verified = penstock("verify", *data)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "traits" in verified.stdout
    newer = "INSERT INTO schema_migrations (version, name) VALUES (9999, 'newer')"
    query_warehouse(release_0_1_0, newer)
    run = penstock("serve", "--port", "0", *data)
    assert run.returncode == 1
    assert "The event store has schema version 9999" in run.stderr
    assert "restore a backup" in run.stderr


@pytest.mark.slow("a process for each boundary")
@pytest.mark.full("kills beyond one of each store")
def test_an_upgrade_killed_at_each_boundary_in_turn_goes_on_and_keeps_every_report(
    release_0_1_0: Path,
) -> None:
    """Each run finishes what the one before left, or it would not reach its own boundary."""
    for boundary in BOUNDARIES:
        killed = run_module("tests.stores.killed_migration", *boundary.split(), str(release_0_1_0))
        assert killed.returncode == -signal.SIGKILL, f"{boundary}: {killed.stderr}"
    with served_with_same_reports(release_0_1_0):
        pass


def test_a_metadata_database_of_a_newer_program_is_refused(release_0_1_0: Path) -> None:
    with sqlite3.connect(release_0_1_0 / "penstock.sqlite3") as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    run = penstock("migrate", "--data", str(release_0_1_0))
    assert run.returncode == 1
    assert "The metadata database has schema version 9999" in run.stderr
    assert f"only knows versions up to {DATABASE_VERSIONS[-1]}" in run.stderr
