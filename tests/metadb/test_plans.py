"""Every statement of the intake finds its rows by a whole index, in a database without statistics.

A new database has none, and nobody has to make some. With half of an index, such as the scope
alone, a statement reads more rows with each visitor that comes.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, insert, text
from sqlalchemy import event as engine_events

from penstock.app import Services
from penstock.metadb.database import Database
from penstock.metadb.tables import user_links, visitors
from tests.events.deletions.conftest import finished, request_deletion
from tests.identity.test_many_claims import open_rows, plant, stranger_id
from tests.tenant import Tenant
from tests.waiting import eventually

LARGE = ("visitors", "user_links", "merges", "event_keys", "provider_customers", "visitor_touches")
"""Tables that grow with what is sent."""
MANY = 6_000
HALF = re.compile(
    r"\(scope_id=\?\)|Index Cond: \(scope_id = [^()]*\)$|"
    r"Seq Scan on (visitors|user_links|merges|event_keys)|SCAN (visitors|user_links|merges)",
    re.MULTILINE,
)
"""In a plan: rows are found by the scope alone, or all are read."""


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url


class Plans:
    """The statements of a block, each once, with parameters that were sent with it."""

    def __init__(self) -> None:
        self._sent = dict[str, Any]()

    def note(self, _: Connection, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        if re.match(r"SELECT|UPDATE|DELETE", statement) and self._names_large(statement):
            shape = re.sub(r"(, \S+)+(?=\))", ", ...", statement)
            first = parameters[0] if isinstance(parameters, list) else parameters
            if len(str(first)) >= len(str(self._sent.get(shape, ("", ""))[1])):
                self._sent[shape] = statement, first

    @staticmethod
    def _names_large(statement: str) -> bool:
        return any(re.search(rf"(FROM|UPDATE|JOIN) {name}\b", statement) for name in LARGE)

    def of(self, database: Database) -> dict[str, str]:
        """The plan of each statement."""
        explain = "EXPLAIN QUERY PLAN" if database.is_sqlite else "EXPLAIN"
        plans = dict[str, str]()
        with database.read() as db:
            for shape, (statement, parameters) in self._sent.items():
                rows = db.exec_driver_sql(f"{explain} {statement}", parameters)
                plans[shape] = "\n".join(re.sub(r"\{.*\}", "{...}", str(row[-1])) for row in rows)
        return plans


@pytest.fixture
def plans(services: Services) -> Iterator[Plans]:
    plans, engine = Plans(), services.database.engine
    if not services.database.is_sqlite:
        with services.database.write() as db:
            for name in LARGE:
                db.execute(text(f"ALTER TABLE {name} SET (autovacuum_enabled = false)"))
    engine_events.listen(engine, "before_cursor_execute", plans.note)
    yield plans
    engine_events.remove(engine, "before_cursor_execute", plans.note)


@pytest.mark.slow("stores 18,000 visitors")
def test_claims_events_releases_and_deletions(
    services: Services, workspace: Tenant, plans: Plans
) -> None:
    plant(services, workspace.website_id, MANY)
    plant(services, workspace.website_id, MANY, "grace", "other")
    plant_others(services, workspace.website_id)

    def post(number: int, **who: str) -> None:
        event = {"websiteId": workspace.website_id, "event": "e", "eventId": f"own-{number}"}
        assert workspace.client.post("/api/v1/events", json={**event, **who}).status_code == 202

    for start in range(0, 3_000, 1_000):
        events = [
            {
                "websiteId": workspace.website_id,
                "event": "e",
                "eventId": f"e-{at}",
                "visitorId": f"v-{at}",
            }
            | ({"userId": f"u-{at}"} if at % 5 else {})
            for at in range(start, start + 1_000)
        ]
        answer = workspace.client.post("/api/v1/events/batch", json={"events": events})
        assert answer.status_code == 202, answer.text[:300]
    post(1, visitorId=stranger_id(5))
    post(2, visitorId="new", userId="u-1")
    post(3, visitorId="laptop", userId="ada")
    eventually(lambda: not open_rows(services), within_s=20)
    for user_id in ("u-1", "grace"):
        deletion = request_deletion(workspace.client, workspace.website_id, userId=user_id)
        assert finished(workspace.client, deletion["id"])
    checked = plans.of(services.database)
    assert len(checked) > 20, "the statements were seen"
    for shape, plan in checked.items():
        assert not HALF.search(plan), f"{shape}\n{plan}"


def plant_others(services: Services, scope: str) -> None:
    """Users with a visitor each."""
    rows = [
        {"scope_id": scope, "visitor_id": f"v-{at}", "user_id": f"u-{at}", "created_at": 1}
        for at in range(MANY)
    ]
    with services.database.write() as db:
        db.execute(insert(visitors), [{**row, "canonical_id": row["visitor_id"]} for row in rows])
        db.execute(insert(user_links), rows)
