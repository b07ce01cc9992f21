"""Claims in many transactions: the store gives each resolver what it needs of the earlier ones."""

from collections.abc import Iterator
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from penstock.base.ids import ScopeId, VisitorId
from penstock.identity.model import Claim, Trust
from penstock.identity.resolution import IdentityResolver
from penstock.identity.service import resolve
from penstock.metadb.database import Database
from penstock.metadb.tables import user_links

pytestmark = pytest.mark.every_database

VISITORS = st.none() | st.sampled_from(["a", "b", "c"])
USERS = st.none() | st.sampled_from(["user-a", "user-b", "user-c"])
TRUSTS = st.sampled_from([Trust.PUBLIC, Trust.SIGNED, Trust.BACKEND, Trust.PROVIDER])
CLAIMS = st.tuples(VISITORS, USERS, TRUSTS).filter(lambda claim: claim[:2] != (None, None))
TRANSACTIONS = st.lists(st.lists(CLAIMS, min_size=1, max_size=3), max_size=10)

scopes = count()


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url)
    yield database
    database.close()


# Each example has a scope of its own, so they share the database.
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TRANSACTIONS)
def test_claims_in_many_transactions_do_what_they_do_in_one(
    database: Database, transactions: list[list[tuple[str | None, str | None, Trust]]]
) -> None:
    """One resolver sees them all and stores nothing. Only the IDs of new visitors differ."""
    scope, numbers = ScopeId(f"scope-{next(scopes)}"), count()
    whole = IdentityResolver(visitors={}, links={})
    stored, expected = list[str](), list[str]()
    for transaction in transactions:
        claims = [Claim(scope, visitor, user, trust=trust) for visitor, user, trust in transaction]
        with database.write() as db:
            stored += [each.visitor_id for each in resolve(db, claims, 1)[0]]
        for claim in claims:
            resolution = whole.resolve(claim, lambda: VisitorId(f"vis_{next(numbers)}"))
            expected.append(resolution.visitor_id)
    names = dict(zip(stored, expected, strict=True))
    assert [names[visitor_id] for visitor_id in stored] == expected
    with database.read() as db:
        links = db.execute(
            select(user_links.c.user_id, user_links.c.visitor_id).where(
                user_links.c.scope_id == scope
            )
        ).all()
    homes = {user_id: link.visitor_id for (_, user_id), link in whole.links.items()}
    assert {user_id: names[visitor_id] for user_id, visitor_id in links} == homes
