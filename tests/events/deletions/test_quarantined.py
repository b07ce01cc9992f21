"""Deletions and retention remove what the quarantine has of a person, a period or a kind."""

import json
import time
from collections import defaultdict
from typing import Any

import pytest
from sqlalchemy import event, insert, select

from penstock.app import Services
from penstock.base.clock import iso
from penstock.base.ids import WorkspaceId
from penstock.events.quarantine.model import QuarantineEntry, Reason
from penstock.events.quarantine.selection import containing
from penstock.metadb.tables import quarantine
from tests.conftest import ShiftedClock
from tests.events.conftest import imported
from tests.events.test_quarantine import counted, refused
from tests.funnels.scenario import DAY_S
from tests.tenant import Tenant

pytestmark = pytest.mark.usefixtures("warehouse")

DAY_MS = DAY_S * 1000


def reject(workspace: Tenant, name: str, **fields: Any) -> None:
    """An event with an unknown field, so that it is quarantined."""
    event = {"websiteId": workspace.website_id, "event": name, "userId": "u", "typo": 1}
    assert workspace.client.post("/api/v1/events", json=event | fields).status_code == 422


def entry_of(item: Any) -> QuarantineEntry:
    return QuarantineEntry(
        number=1,
        workspace_id=WorkspaceId("wsp"),
        website_id=None,
        at_ms=1,
        reason=Reason.REFUSED,
        origin="/api/track",
        code="invalid",
        faults=(),
        sender={},
        content=json.dumps(item),
        is_public=True,
    )


def names(workspace: Tenant) -> list[str]:
    texts = [entry["item"] for entry in refused(workspace)]
    return sorted(text.split('"event":"')[1].split('"')[0] for text in texts)


def test_a_full_quarantine_is_searched_for_very_many_ids_in_little_time() -> None:
    """As many entries as a website may have, with texts that begin as the IDs do."""
    contains = containing([f"stranger-{number:06}" for number in range(100_000)])
    texts = {"properties": {f"p{number}": "stranger-x" * 100 for number in range(10)}}
    other = entry_of(texts)
    began_s = time.process_time()
    assert not any(contains(other) for _ in range(1_000))
    assert time.process_time() - began_s < 2
    assert contains(entry_of({**texts, "userId": "stranger-099999"}))


@pytest.mark.every_database
def test_the_deletion_of_a_user_counts_the_quarantined_events_it_removed(
    workspace: Tenant, delete: Any
) -> None:
    workspace.client.post(
        "/api/v1/events", json={"websiteId": workspace.website_id, "event": "e", "userId": "ann"}
    )
    reject(workspace, "hers", userId="ann")
    reject(workspace, "another", userId="bob")
    deletion = delete(userId="ann")
    assert deletion["removed"]["database"]["quarantined"] == 1
    assert names(workspace) == ["another"]
    assert counted(workspace)["dropped"] == 1


def test_the_deletion_of_a_user_removes_what_named_it_as_a_number(
    workspace: Tenant, delete: Any
) -> None:
    workspace.client.post(
        "/api/v1/events", json={"websiteId": workspace.website_id, "event": "e", "userId": "42"}
    )
    reject(workspace, "hers", userId=42)
    reject(workspace, "nested", userId=None, properties={"ids": [7, {"id": 42}]})
    reject(workspace, "another", userId=421, properties={"42": "is a name", "yes": True})
    delete(userId="42")
    assert names(workspace) == ["another"]


def test_the_deletion_of_a_period_removes_quarantined_events_of_it(
    workspace: Tenant, clock: ShiftedClock, delete: Any
) -> None:
    now_ms = clock()
    reject(workspace, "old", timestamp=now_ms - 5 * DAY_MS)
    reject(workspace, "new", timestamp=now_ms)
    reject(workspace, "without")
    reject(workspace, "odd", timestamp="never")
    span = {"from": iso(now_ms - 6 * DAY_MS), "to": iso(now_ms - 4 * DAY_MS)}
    deletion = delete(**span)
    assert deletion["removed"]["database"]["quarantined"] == 1
    assert names(workspace) == ["new", "odd", "without"]
    deletion = delete(**{"from": iso(now_ms - DAY_MS), "to": iso(clock() + DAY_MS)})
    assert deletion["removed"]["database"]["quarantined"] == 3
    assert names(workspace) == []


def test_retention_removes_quarantined_events_of_its_kind(
    workspace: Tenant, services: Services, clock: ShiftedClock
) -> None:
    old = clock() - 5 * DAY_MS
    reject(workspace, "event", timestamp=old)
    reject(workspace, "new", timestamp=clock())
    page = {"type": "pageview", "visitorId": "v", "path": "/", "timestamp": old, "event": "page"}
    page["websiteId"] = workspace.website_id
    assert workspace.client.post("/api/track", json=page).status_code == 422
    address = f"/api/settings/websites/{workspace.website_id}"
    assert workspace.client.patch(address, json={"eventRetentionDays": 3}).status_code == 200
    services.retention._step()
    assert names(workspace) == ["new", "page"]


def test_the_export_of_a_person_has_their_rejected_events_and_lines(workspace: Tenant) -> None:
    event = {"websiteId": workspace.website_id, "event": "e", "userId": "ann"}
    assert workspace.client.post("/api/v1/events", json=event).status_code == 202
    reject(workspace, "hers", userId="ann")
    reject(workspace, "another", userId="bob")
    lines = [{"type": "event", "nam": "e", "userId": user} for user in ("ann", "bob")]
    assert imported(workspace, lines)["rejected"] == 2
    parameters = {"websiteId": workspace.website_id, "userId": "ann"}
    text = workspace.client.get("/api/personal-data", params=parameters).text
    by_type = [line for line in text.splitlines() if '"rejected' in line]
    assert len(by_type) == 2
    assert '"hers"' in by_type[0]
    assert all("bob" not in line for line in by_type)


def test_a_deletion_searches_the_quarantine_outside_of_its_transaction(
    workspace: Tenant, services: Services, delete: Any
) -> None:
    """All other writes wait for that transaction."""
    reject(workspace, "hers", userId="ann")
    reject(workspace, "another", userId="bob")
    with services.database.write() as db:
        bobs = select(quarantine).where(quarantine.c.content.contains("bob"))
        copy = dict(db.execute(bobs).mappings().one())
        del copy["id"]
        db.execute(insert(quarantine), [copy] * 1_000)
    statements, searched = defaultdict[Any, list[str]](list), list[int]()

    def add(connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements[connection].append(statement)

    def end(connection: Any) -> None:
        of_transaction = statements.pop(connection, [])
        if any("INTO deletions" in statement for statement in of_transaction):
            searched.append(sum("FROM quarantine" in statement for statement in of_transaction))

    engine = services.database.engine
    event.listen(engine, "begin", lambda connection: statements.pop(connection, None))
    event.listen(engine, "before_cursor_execute", add)
    event.listen(engine, "commit", end)
    deletion = delete(userId="ann")
    assert deletion["removed"]["database"]["quarantined"] == 1
    assert searched == [1]
