"""Strangers claim one user ID from thousands of browsers."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from litestar import Litestar
from litestar.testing import TestClient
from sqlalchemy import event as engine_events
from sqlalchemy import func, insert, select

from penstock.app import Services
from penstock.identity.model import MAX_VISITORS_BY_PUBLIC_CLAIMS, Trust
from penstock.metadb.tables import (
    deletions,
    merges,
    open_releases,
    user_links,
    visitor_touches,
    visitors,
)
from penstock.warehouse.client import Warehouse
from tests.answers import values_of
from tests.events.deletions.conftest import finished, request_deletion
from tests.identity.test_identity import aliases, holds_together, identify_with
from tests.tenant import Tenant, visitor
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("warehouse")

MANY = 3_000
"""More visitors than one transaction may change."""


def stranger_id(number: int, name: str = "stranger") -> str:
    return f"{name}-{number:06}"


def plant(
    services: Services, scope: str, number: int, user: str = "ada", name: str = "stranger"
) -> None:
    """Store public claims of one user, like those from before their number was limited."""
    ids, trust = [stranger_id(at, name) for at in range(number)], Trust.PUBLIC.value
    head = ids[0]
    row = {"scope_id": scope, "canonical_id": head, "user_id": user, "trust": trust}
    row |= {"created_at": 1}
    link = {"scope_id": scope, "visitor_id": head, "user_id": user, "trust": trust}
    merge = {"scope_id": scope, "kept_id": head, "user_id": user, "merged_at": 1}
    with services.database.write() as db:
        db.execute(insert(visitors), [{**row, "visitor_id": own_id} for own_id in ids])
        db.execute(insert(user_links).values(**link, created_at=1))
        db.execute(insert(merges), [{**merge, "absorbed_id": own_id} for own_id in ids[1:]])


class Transactions:
    """Counts the rows that each transaction changes. largest: the highest count so far."""

    def __init__(self) -> None:
        self.open, self.largest = Counter[Any](), 0

    def add(self, connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if statement.lstrip().startswith(("INSERT", "UPDATE", "DELETE")):
            self.open[connection] += max(cursor.rowcount, 0)

    def end(self, connection: Any) -> None:
        self.largest = max(self.largest, self.open.pop(connection, 0))


@pytest.fixture
def transactions(services: Services) -> Iterator[Transactions]:
    counted, engine = Transactions(), services.database.engine
    engine_events.listen(engine, "after_cursor_execute", counted.add)
    engine_events.listen(engine, "commit", counted.end)
    yield counted
    engine_events.remove(engine, "after_cursor_execute", counted.add)
    engine_events.remove(engine, "commit", counted.end)


def post(workspace: Tenant, **who: str) -> str:
    body = {"websiteId": workspace.website_id, "event": "e", **who}
    answer = workspace.client.post("/api/v1/events", json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["visitorId"])


def page(workspace: Tenant, visitor_id: str) -> dict[str, Any]:
    answer = workspace.client.get(f"/api/visitors/{visitor_id}")
    detail: dict[str, Any] = answer.json()
    return detail if answer.status_code == 200 else {"status": answer.status_code}


@pytest.mark.every_database
def test_a_public_claim_beyond_the_limit_is_stored_unlinked_with_a_warning(
    services: Services, workspace: Tenant, server: TestClient[Litestar]
) -> None:
    plant(services, workspace.website_id, MAX_VISITORS_BY_PUBLIC_CLAIMS)
    identify = identify_with(visitor(server), workspace)
    assert "warnings" not in identify("the-last", "ada")
    assert identify("one-more", "ada")["warnings"] == ["too_many_visitors"]
    assert page(workspace, "one-more")["user"] is None
    assert post(workspace, visitorId="one-more") == "one-more"
    assert page(workspace, stranger_id(1))["visitorId"] == stranger_id(0), "earlier claims stay"
    assert post(workspace, visitorId="proven", userId="ada") == "proven"


def test_the_first_proof_releases_any_number_of_public_claims_in_bounded_transactions(
    services: Services, workspace: Tenant, warehouse: Warehouse, transactions: Transactions
) -> None:
    scope = workspace.website_id
    plant(services, scope, MANY)
    services.releases.worker.stop()
    transactions.largest = 0
    assert post(workspace, visitorId="laptop", userId="ada") == "laptop"
    assert transactions.largest < 50
    # The worker is stopped, so no row of the strangers has changed yet.
    assert page(workspace, "laptop")["user"]["userId"] == "ada"
    assert page(workspace, "laptop")["ids"] == ["laptop"]
    for own_id in (stranger_id(0), stranger_id(7)):
        stranger = page(workspace, own_id)
        assert values_of(stranger, "visitorId", "user", "ids") == (own_id, None, [own_id])
    assert post(workspace, visitorId=stranger_id(8)) == stranger_id(8)
    assert post(workspace, visitorId=stranger_id(9), userId="eve") == stranger_id(9)
    head_of_bob = post(workspace, visitorId=stranger_id(0), userId="bob")
    assert post(workspace, visitorId="phone", userId="bob") == head_of_bob
    assert post(workspace, visitorId=stranger_id(10)) == stranger_id(10), "not bob's"
    assert page(workspace, stranger_id(11))["user"] is None
    services.releases.worker.start()
    eventually(lambda: not open_rows(services))
    assert transactions.largest <= 2_500
    with services.database.read() as db:
        stray = select(func.count()).where(
            visitors.c.scope_id == scope,
            visitors.c.visitor_id != visitors.c.canonical_id,
            visitors.c.visitor_id.not_in([stranger_id(0), "phone"]),
        )
        assert db.execute(stray).scalar() == 0
    shipped = aliases(services, warehouse, scope)
    assert {own_id for own_id, canonical in shipped.items() if own_id != canonical} == {
        stranger_id(0),
        "phone",
    }
    assert len(shipped) >= MANY - 1
    holds_together(services)


def open_rows(services: Services) -> list[Any]:
    with services.database.read() as db:
        return list(db.execute(select(open_releases)))


def test_a_proof_for_another_user_takes_a_visitor_that_absorbed_many(
    services: Services, workspace: Tenant, transactions: Transactions
) -> None:
    plant(services, workspace.website_id, MANY)
    transactions.largest = 0
    home = post(workspace, visitorId=stranger_id(0), userId="bob")
    assert post(workspace, userId="bob") == home
    assert post(workspace, visitorId=stranger_id(5)) == stranger_id(5)
    eventually(lambda: not open_rows(services))
    assert transactions.largest <= 2_500
    holds_together(services)


def test_a_deletion_removes_any_number_of_visitors_in_bounded_transactions(
    services: Services, workspace: Tenant, transactions: Transactions
) -> None:
    scope = workspace.website_id
    plant(services, scope, MANY)
    with services.database.write() as db:
        touch = {"scope_id": scope, "touch": "first", "at": 1, "link_id": "lnk"}
        db.execute(insert(visitor_touches).values(**touch, visitor_id=stranger_id(2_000)))
    assert post(workspace, visitorId=stranger_id(3)) == stranger_id(0)
    services.deletions.worker.stop()
    transactions.largest = 0
    deletion = request_deletion(workspace.client, scope, userId="ada")
    assert transactions.largest < 50
    for own_id in (stranger_id(0), stranger_id(7)):
        assert page(workspace, own_id) == {"status": 404}
    assert post(workspace, visitorId=stranger_id(8)) == stranger_id(8), "sent again: a new visitor"
    services.deletions.worker.start()
    done = finished(workspace.client, deletion["id"])
    assert (done["eventsRemoved"], done["removed"]["database"]["touches"]) == (1, 1)
    assert done["removed"]["database"]["visitors"] == MANY
    assert transactions.largest <= 2_500
    with services.database.read() as db:
        own = select(visitors.c.visitor_id).where(visitors.c.scope_id == scope)
        assert list(db.execute(own).scalars()) == [stranger_id(8)]
        assert db.execute(select(merges.c.absorbed_id)).scalars().all() == [stranger_id(8)]
        assert db.execute(select(deletions.c.visitor_ids)).scalar() == []
    assert page(workspace, stranger_id(8))["events"] == 1
    assert not open_rows(services)


def test_a_visitor_and_its_page_list_the_first_merged_ids_and_count_them_all(
    services: Services, workspace: Tenant
) -> None:
    plant(services, workspace.website_id, MANY)
    detail = page(workspace, stranger_id(2_500))
    assert detail["ids"] == [stranger_id(at) for at in range(1_001)]
    assert [merge["visitorId"] for merge in detail["merges"]] == detail["ids"][1:]
    assert detail["mergedVisitors"] == MANY - 1
    html = workspace.browser.get(f"/visitors/{stranger_id(0)}").text
    assert len(html) < 200_000
    assert stranger_id(100) in html
    assert stranger_id(101) not in html
    assert re.search(r"And\W.*2,899.*more", html)
