"""Claims resolve the same way whether they come in one transaction or in many."""

from collections.abc import Mapping
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event, select

from penstock.base.ids import ScopeId, VisitorId
from penstock.identity import store
from penstock.identity.model import Alias, Claim, StatedTraits, Trust
from penstock.identity.resolution import IdentityResolver
from penstock.identity.service import any_open_release, release_some, resolve
from penstock.metadb.database import Database
from penstock.metadb.tables import merges, user_links, visitors

VISITORS = st.none() | st.sampled_from(["a", "b", "c"])
USERS = st.none() | st.sampled_from(["user-a", "user-b", "user-c"])
TRUSTS = st.sampled_from([Trust.PUBLIC, Trust.SIGNED, Trust.BACKEND, Trust.PROVIDER])
CLAIMS = st.tuples(VISITORS, USERS, TRUSTS).filter(lambda claim: claim[:2] != (None, None))
TRANSACTIONS = st.lists(st.lists(CLAIMS, min_size=1, max_size=3), max_size=10)

scopes = count()
Json = Mapping[str, Any]


# All examples share a database, because each has its own scope.
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TRANSACTIONS)
def test_claims_resolve_alike_in_one_transaction_and_in_many(
    database: Database, transactions: list[list[tuple[str | None, str | None, Trust]]]
) -> None:
    """Compare with one resolver that gets all claims. Only the IDs of new visitors differ."""
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


@pytest.mark.every_database
def test_a_user_keeps_its_link_when_another_claim_takes_its_visitor(database: Database) -> None:
    """Without the other claim, the claim of the earlier user would change nothing."""
    scope = ScopeId(f"scope-{next(scopes)}")
    backend = Claim(scope, None, "user-b")
    public = Claim(scope, "b", "user-b", trust=Trust.PUBLIC)
    with database.write() as db:
        [home, _] = resolve(db, [backend, public], 1)[0]
    with database.write() as db:
        resolutions, _ = resolve(db, [Claim(scope, "b", "user-a"), public], 2)
    assert [each.visitor_id for each in resolutions] == ["b", home.visitor_id]
    assert links_of(database, scope) == {"user-a": "b", "user-b": home.visitor_id}


# The number beside each transaction says how many visitors a worker releases after it.
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.lists(CLAIMS, min_size=1, max_size=4), st.integers(0, 2)), max_size=14)
)
def test_open_releases_apply_at_once_and_the_worker_finishes_them(
    database: Database, transactions: list[tuple[list[tuple[str | None, str | None, Trust]], int]]
) -> None:
    """No release fits into one transaction. Each visitor's newest alias must match its row."""
    scope, aliases = ScopeId(f"open-{next(scopes)}"), list[Alias]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "RELEASED_AT_ONCE", 0)
        for transaction, released in transactions:
            claims = [
                Claim(scope, visitor, user, trust=trust) for visitor, user, trust in transaction
            ]
            with database.write() as db:
                resolutions, changes = resolve(db, claims, 1)
                aliases += changes.aliases
            last = {claim.user_id: each for claim, each in zip(claims, resolutions, strict=True)}
            links = links_of(database, scope)
            assert len(set(links.values())) == len(links), "no two users share a visitor"
            for user_id, resolution in last.items():
                assert user_id not in links or links[user_id] == resolution.visitor_id
            if released:
                with database.write() as db:
                    aliases += release_some(db, 1, released) or []
        while True:
            with database.write() as db:
                if not any_open_release(db):
                    break
                aliases += release_some(db, 1, 2) or []
    with database.read() as db:
        rows = {
            row.visitor_id: row
            for row in db.execute(select(visitors).where(visitors.c.scope_id == scope))
        }
        logged = {
            row.absorbed_id: row.kept_id
            for row in db.execute(select(merges).where(merges.c.scope_id == scope))
        }
    newest = {alias.visitor_id: alias for alias in sorted(aliases, key=lambda alias: alias.version)}
    for own_id, row in rows.items():
        head = rows[row.canonical_id]
        assert head.canonical_id == row.canonical_id, "no chain"
        assert head.user_id == row.user_id
        expected = newest[own_id].canonical_id if own_id in newest else own_id
        assert row.canonical_id == expected == logged.get(own_id, own_id)
        assert row.user_id is None or links_of(database, scope)[row.user_id] == row.canonical_id


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TRANSACTIONS)
def test_the_shipped_traits_of_a_visitor_are_those_of_its_user(
    database: Database, transactions: list[list[tuple[str | None, str | None, Trust]]]
) -> None:
    """Every second claim has traits. A visitor without a user has none, also after a release."""
    scope, shipped, numbers = ScopeId(f"traits-{next(scopes)}"), dict[str, Json](), count()
    for transaction in transactions:
        claims = [
            Claim(scope, visitor, user, StatedTraits({"n": number}) if number % 2 else None, trust)
            for number, (visitor, user, trust) in zip(numbers, transaction, strict=False)
        ]
        with database.write() as db:
            _, changes = resolve(db, claims, 1)
        own = [change.visitor_id for change in changes.traits]
        assert len(set(own)) == len(own), "one version has one row of a visitor"
        shipped |= {change.visitor_id: change.traits for change in changes.traits}
        with database.read() as db:
            links = db.execute(select(user_links).where(user_links.c.scope_id == scope)).all()
        stored = {row.visitor_id: row.traits for row in links if row.traits}
        assert {visitor: traits for visitor, traits in shipped.items() if traits} == stored


def test_the_number_of_statements_does_not_grow_with_the_users_of_a_transaction(
    database: Database,
) -> None:
    """Half of the users have traits. The second transaction changes them."""
    scope, statements = ScopeId(f"many-{next(scopes)}"), list[str]()
    event.listen(
        database.engine, "before_cursor_execute", lambda *arguments: statements.append(arguments[2])
    )
    for plan in ("basic", "pro"):
        claims = [
            Claim(scope, f"v-{at}", f"u-{at}", StatedTraits({"plan": plan}) if at % 2 else None)
            for at in range(200)
        ]
        statements.clear()
        with database.write() as db:
            _, changes = resolve(db, claims, 1)
        assert sorted(change.visitor_id for change in changes.traits) == sorted(
            f"v-{at}" for at in range(1, 200, 2)
        )
        assert {change.traits["plan"] for change in changes.traits} == {plan}
        reads = [each for each in statements if "traits" in each and "SELECT" in each]
        assert len(reads) <= 1, "one before the change"


def links_of(database: Database, scope: ScopeId) -> dict[str, str]:
    with database.read() as db:
        rows = db.execute(select(user_links).where(user_links.c.scope_id == scope))
        return {row.user_id: row.visitor_id for row in rows}
