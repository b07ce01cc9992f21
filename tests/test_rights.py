"""Credentials that have ended, and members where only owners may, change nothing on any route.

The routes come from the API document, as in test_tenancy.py.
"""

from typing import Any

import pytest
from sqlalchemy import select

from penstock.app import Services
from penstock.metadb.tables import metadata
from penstock.settings import Settings
from tests.conftest import ShiftedClock
from tests.tenant import Tenant, join, visitor
from tests.test_tenancy import Operation, described, problems_of
from tests.waiting import eventually

OWNERS_ONLY = {
    ("get", "/api/settings/audit-log"),
    ("post", "/api/settings/invitations"),
    ("delete", "/api/settings/invitations/{invitation_id}"),
    ("patch", "/api/settings/members/{user_id}"),
    ("delete", "/api/settings/members/{user_id}"),
    ("delete", "/api/settings/members/{user_id}/second-factor"),
    ("post", "/api/imports/{import_id}/dismiss-gap"),
}
"""Operations that a member may not call. Source: docs/security-model.md, who may do what."""
READ_BY_POST = {
    ("post", "/api/funnels/preview"),
    ("post", "/api/funnels/attempt-keys"),
    ("post", "/api/funnels/validate"),
    ("post", "/api/receipts/open"),
    ("delete", "/api/jobs/{job_id}"),
}
"""Operations that read in spite of their method."""
EXPORTS_OF_ALL = {
    ("get", "/api/events/refused/export"),
    ("get", "/api/exports"),
    ("get", "/api/exports/day"),
    ("get", "/api/exports/days"),
    ("get", "/api/exports/identities"),
    ("get", "/api/exports/members"),
    ("get", "/api/personal-data"),
    ("get", "/api/settings/audit-log"),
    ("get", "/api/webhooks"),
    ("get", "/api/webhooks/{webhook_id}"),
    ("get", "/api/webhooks/{webhook_id}/deliveries"),
}
"""Operations that a viewer may not call although they only read. Source: docs/sharing.md."""
ON_THEIR_WAY = {
    *("outbox", "shipments", "event_ledger", "event_counts", "losses"),
    *("outcome_claims", "webhooks", "alert_deliveries"),
}
"""Tables that change in the background, for example while events are on their way to the warehouse.
"""


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"stored_outcomes": 1})  # for webhooks


@pytest.fixture
def operations(server) -> list[Operation]:
    document = server.get("/api/openapi.json").json()
    return [operation for operation in described(document) if not operation.open]


def rows(services: Services) -> dict[str, list[Any]]:
    """All rows of the metadata DB, by table."""
    with services.database.read() as db:
        return {
            name: sorted(map(repr, db.execute(select(table)).all()))
            for name, table in metadata.tables.items()
            if name not in ON_THEIR_WAY
        }


def wait_for_deletions(tenant: Tenant) -> None:
    def states() -> set[str]:
        return {record["state"] for record in tenant.client.get("/api/deletions").json()["data"]}

    eventually(lambda: states() <= {"done"})


def changed(before: dict[str, list[Any]], services: Services) -> list[str]:
    after = rows(services)
    return [name for name in before if before[name] != after[name]]


@pytest.mark.slow("calls every operation")
def test_an_expired_session_is_401_on_every_route_and_changes_nothing(
    workspace: Tenant, services: Services, clock: ShiftedClock, operations: list[Operation]
) -> None:
    prepared = [(operation, operation.records(workspace)) for operation in operations]
    assert workspace.browser.get("/api/auth/session").status_code == 200
    wait_for_deletions(workspace)
    clock.advance(days=services.settings.session_days + 1)
    services.jobs.worker.wake()
    eventually(lambda: not rows(services)["jobs"])  # those of an hour ago are forgotten
    before = rows(services)
    answers = {
        str(operation): operation.send(workspace.browser, ids, workspace.website_id)
        for operation, ids in prepared
    }
    assert len(answers) > 100
    assert problems_of(answers, 401) == {}
    assert changed(before, services) == []


@pytest.mark.slow("calls every operation")
def test_a_key_that_expired_or_was_revoked_is_401_on_every_route_and_changes_nothing(
    workspace: Tenant, services: Services, clock: ShiftedClock, operations: list[Operation]
) -> None:
    path, in_an_hour_ms = "/api/settings/api-keys", clock() + 3_600_000
    expiring = workspace.browser.post(path, json={"name": "a", "expiresAt": in_an_hour_ms}).json()
    revoked = workspace.browser.post(path, json={"name": "b"}).json()
    assert workspace.browser.delete(f"{path}/{revoked['id']}").status_code == 204
    clock.advance(seconds=3_601)
    ids = dict.fromkeys(
        (name for operation in operations for name in (*operation.parameters, *operation.required)),
        "x",
    )
    before = rows(services)
    for key in (expiring["key"], revoked["key"]):
        client = visitor(workspace.client._transport.client, {"Authorization": f"Bearer {key}"})
        answers = {
            str(operation): operation.send(client, ids, workspace.website_id)
            for operation in operations
        }
        assert problems_of(answers, 401) == {}
    assert changed(before, services) == []


@pytest.mark.slow("calls every operation")
def test_a_member_is_403_where_only_owners_may_and_changes_nothing(
    workspace: Tenant, services: Services, operations: list[Operation]
) -> None:
    known = {(operation.method, operation.path) for operation in operations}
    assert known >= OWNERS_ONLY
    for operation in operations:
        ids, member = operation.records(workspace), join(workspace)
        wait_for_deletions(workspace)
        before = rows(services)
        answer = operation.send(member, ids, workspace.website_id)
        is_refused = answer.status_code == 403 and answer.json()["code"] == "owner_required"
        if (operation.method, operation.path) in OWNERS_ONLY:
            assert is_refused, f"{operation}: {answer.status_code} {answer.text[:200]}"
            assert changed(before, services) == [], str(operation)
        else:
            assert not is_refused, f"{operation}: add it to OWNERS_ONLY and to the documentation"


@pytest.mark.slow("calls every operation")
def test_a_viewer_is_403_wherever_something_changes_and_reads_everything_else(
    workspace: Tenant, services: Services, operations: list[Operation]
) -> None:
    known = {(operation.method, operation.path) for operation in operations}
    assert known >= READ_BY_POST | EXPORTS_OF_ALL
    viewer = join(workspace, "viewer")
    for operation in operations:
        key, is_own = (operation.method, operation.path), operation.path.startswith("/api/auth/")
        reads = key in READ_BY_POST or (operation.method == "get" and key not in EXPORTS_OF_ALL)
        ids = operation.records(workspace)
        wait_for_deletions(workspace)
        browser = join(workspace, "viewer") if is_own else viewer
        before = rows(services)
        answer = operation.send(browser, ids, workspace.website_id)
        if reads or is_own:
            assert answer.status_code != 403, f"{operation}: {answer.text[:200]}"
        else:
            codes = ("viewer_role", "owner_required", "key_required")
            assert answer.status_code in (401, 403), f"{operation}: {answer.text[:200]}"
            assert answer.json()["code"] in codes, f"{operation}: {answer.text[:200]}"
            assert changed(before, services) == [], str(operation)
