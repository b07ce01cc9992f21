"""Deletions of a person remove what the list of rejected lines has of it, with short transactions.

While a deletion has the lock on visitors, no event is stored.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest
from sqlalchemy import Connection, event

from penstock.app import Services
from penstock.base.errors import Fault
from penstock.events.imports import store
from penstock.events.imports.model import Reject
from tests.events.conftest import imported
from tests.events.deletions.conftest import Delete, Json
from tests.tenant import Tenant, new_browser

pytestmark = pytest.mark.usefixtures("warehouse")

RejectLine = Callable[[str], Json]
BeforeTheLock = Callable[[Callable[[], object]], None]


@pytest.fixture
def reject(workspace: Tenant) -> RejectLine:
    """Imports a line of a user that is rejected; returns its import."""

    def run(user_id: str) -> Json:
        job = imported(workspace, [{"type": "event", "nam": "e", "userId": user_id}])
        assert job["rejected"] == 1
        return job

    return run


@pytest.fixture
def before_the_lock(services: Services, monkeypatch: pytest.MonkeyPatch) -> BeforeTheLock:
    """Does something between the search for rejected lines and the transaction of a deletion."""

    def prepare(action: Callable[[], object]) -> None:
        begin = services.deletions._begin

        def begin_later(*args: Any) -> Any:
            action()
            return begin(*args)

        monkeypatch.setattr(services.deletions, "_begin", begin_later)

    return prepare


def identify(client: httpx.Client, workspace: Tenant, visitor_id: str, user_id: str) -> None:
    body = {"websiteId": workspace.website_id, "visitorId": visitor_id, "userId": user_id}
    assert client.post("/api/identify", json=body).status_code == 200


def excerpts(workspace: Tenant, job: Json) -> list[str | None]:
    answer = workspace.client.get(f"/api/imports/{job['id']}/rejects").json()
    return [reject["excerpt"] for reject in answer["data"]]


def removed_texts(deletion: Json) -> int:
    return deletion["removed"]["database"]["rejectedTexts"]


@pytest.mark.every_database
def test_no_rejected_line_is_read_while_visitors_are_locked(
    workspace: Tenant, services: Services, reject: RejectLine, delete: Delete
) -> None:
    identify(workspace.client, workspace, "her-phone", "ann")
    hers, another = reject("ann"), reject("bob")
    statements: list[str] = []

    def note(_: Connection, __: object, statement: str, *___: object) -> None:
        statements.append(statement)

    event.listen(services.database.engine, "before_cursor_execute", note)
    try:
        assert removed_texts(delete(userId="ann")) == 1
    finally:
        event.remove(services.database.engine, "before_cursor_execute", note)
    assert excerpts(workspace, hers) == [None]
    assert excerpts(workspace, another) != [None]
    first_change = next(
        number
        for number, statement in enumerate(statements)
        if statement.startswith(("DELETE FROM visitors", "LOCK TABLE"))
    )
    assert any("FROM import_rejects" in statement for statement in statements[:first_change])
    assert not any("FROM import_rejects" in statement for statement in statements[first_change:])


def test_nothing_is_prepared_for_very_many_ids_while_visitors_are_locked(
    workspace: Tenant, services: Services
) -> None:
    names_one = store.naming([f"stranger-{number:06}" for number in range(300_000)])
    with services.database.read() as db:
        search = store.search_excerpts(db, [workspace.website_id], names_one)
    with services.database.write() as db:
        began_s = time.thread_time()
        assert store.remove_excerpts(db, [workspace.website_id], search) == 0
        assert time.thread_time() - began_s < 0.2


def test_lines_that_are_rejected_meanwhile_are_removed_too(
    workspace: Tenant,
    services: Services,
    reject: RejectLine,
    delete: Delete,
    before_the_lock: BeforeTheLock,
) -> None:
    """Those of an import that was searched before, and those of a new one."""
    identify(workspace.client, workspace, "her-phone", "ann")
    growing, new = reject("ann"), list[Json]()

    def reject_more() -> None:
        new.append(reject("ann"))
        with services.database.write() as db:
            job = store.find(db, workspace.id, growing["id"])
            assert job is not None
            line = Reject(2, [Fault("", "required", "Required.")], excerpt='{"userId":"ann"}')
            store.save(db, replace(job, lines_read=2, rejected=2), [line])

    before_the_lock(reject_more)
    assert removed_texts(delete(userId="ann")) == 3
    assert excerpts(workspace, growing) == [None, None]
    assert excerpts(workspace, new[0]) == [None]


def test_lines_of_a_visitor_that_is_merged_meanwhile_are_removed_too(
    workspace: Tenant, reject: RejectLine, delete: Delete, before_the_lock: BeforeTheLock
) -> None:
    identify(workspace.client, workspace, "her-phone", "ann")
    job = reject("her-laptop")
    before_the_lock(lambda: identify(workspace.client, workspace, "her-laptop", "ann"))
    assert removed_texts(delete(userId="ann")) == 1
    assert excerpts(workspace, job) == [None]


def test_a_line_of_a_visitor_that_goes_to_another_user_meanwhile_stays(
    workspace: Tenant, reject: RejectLine, delete: Delete, before_the_lock: BeforeTheLock
) -> None:
    identify(new_browser(workspace), workspace, "her-phone", "ann")
    job = reject("her-phone")
    before_the_lock(lambda: identify(workspace.client, workspace, "her-phone", "bob"))
    assert removed_texts(delete(userId="ann")) == 0
    assert excerpts(workspace, job) != [None]
