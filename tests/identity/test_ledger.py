"""The table of identity, row by row, and what holds for any sequence of claims."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.ids import ScopeId, VisitorId
from penstock.identity.ledger import CONFLICT, PLACEHOLDER, Ledger, Visitor
from penstock.identity.model import Claim, Resolution, is_placeholder

SCOPE = ScopeId("scope")


class People:
    """A ledger that claims are told to one after another. New visitors are called new-1, new-2, ..."""

    def __init__(self) -> None:
        self.ledger = Ledger(visitors={}, links={})
        self._numbers = count(1)

    def tell(self, visitor_id: str | None = None, user_id: str | None = None) -> Resolution:
        return self.ledger.resolve(Claim(SCOPE, visitor_id, user_id), lambda: VisitorId(f"new-{next(self._numbers)}"))

    def canonical(self, visitor_id: str) -> str:
        return self.ledger.visitors[SCOPE, visitor_id].canonical_id

    def home(self, user_id: str) -> str | None:
        return self.ledger.links.get((SCOPE, user_id))


@pytest.fixture
def people() -> People:
    return People()


def test_visitor_only_is_that_visitor(people: People) -> None:
    assert people.tell("v") == Resolution(VisitorId("v"))
    assert people.ledger.visitors == {(SCOPE, "v"): Visitor(VisitorId("v"), None)}


def test_linked_user_only_is_the_linked_visitor(people: People) -> None:
    people.tell("v", "u")
    assert people.tell(user_id="u") == Resolution(VisitorId("v"))


def test_unlinked_user_only_is_a_new_visitor_with_a_link(people: People) -> None:
    assert people.tell(user_id="u") == Resolution(VisitorId("new-1"))
    assert people.tell(user_id="u") == Resolution(VisitorId("new-1"))
    assert people.home("u") == "new-1"


def test_both_and_neither_linked_links_the_user_to_the_visitor(people: People) -> None:
    people.tell("v")
    assert people.tell("v", "u") == Resolution(VisitorId("v"))
    assert people.home("u") == "v"


def test_both_and_the_same_visitor_changes_nothing(people: People) -> None:
    people.tell("v", "u")
    before = (dict(people.ledger.visitors), dict(people.ledger.links))
    assert people.tell("v", "u") == Resolution(VisitorId("v"))
    assert (people.ledger.visitors, people.ledger.links) == before


def test_both_and_a_visitor_without_a_user_merges_into_the_users_visitor(people: People) -> None:
    people.tell("w", "u")
    people.tell("v")
    assert people.tell("v", "u") == Resolution(VisitorId("w"), merged=True)
    assert people.canonical("v") == "w"
    assert people.tell("v") == Resolution(VisitorId("w"))
    assert people.tell("v", "u") == Resolution(VisitorId("w")), "merged once"


def test_both_and_anothers_visitor_gives_a_user_without_one_a_new_visitor(people: People) -> None:
    people.tell("v", "first")
    assert people.tell("v", "second") == Resolution(VisitorId("new-1"), notices=(CONFLICT,))
    assert (people.home("first"), people.home("second"), people.canonical("v")) == ("v", "new-1", "v")


def test_both_and_anothers_visitor_stores_a_linked_user_under_its_own(people: People) -> None:
    people.tell("v", "first")
    people.tell("w", "second")
    assert people.tell("v", "second") == Resolution(VisitorId("w"), notices=(CONFLICT,))
    assert not people.ledger.merges


def test_an_absorbed_visitor_belongs_to_the_user_it_was_merged_for(people: People) -> None:
    people.tell("w", "u")
    people.tell("v", "u")
    assert people.tell("v", "other") == Resolution(VisitorId("new-1"), notices=(CONFLICT,))


def test_scopes_know_nothing_of_each_other(people: People) -> None:
    people.tell("v", "u")
    elsewhere = people.ledger.resolve(Claim(ScopeId("elsewhere"), "v", "another"), lambda: VisitorId("unused"))
    assert elsewhere == Resolution(VisitorId("v"))


@pytest.mark.parametrize(
    "sent", ["null", "undefined", "0", "anonymous", "none", "00000000-0000-0000-0000-000000000000", " NULL ", '"null"']
)
def test_a_placeholder_is_stored_as_sent_and_never_binds(people: People, sent: str) -> None:
    assert is_placeholder(sent)
    assert people.tell(sent) == Resolution(VisitorId(sent), notices=(PLACEHOLDER,))
    assert people.tell(user_id=sent) == Resolution(VisitorId(sent), notices=(PLACEHOLDER,))
    assert people.tell(sent, "u") == Resolution(VisitorId("new-1"), notices=(PLACEHOLDER,))
    assert people.tell("v", sent) == Resolution(VisitorId("v"), notices=(PLACEHOLDER,))
    assert people.ledger.links == {(SCOPE, "u"): "new-1"}
    assert not people.ledger.merges


@pytest.mark.parametrize("sent", ["1", "00", "nobody", "0000-1", "visitor-null"])
def test_an_id_is_not_judged_by_its_looks(sent: str) -> None:
    assert not is_placeholder(sent)


IDS = st.sampled_from(["a", "b", "c", "d", "e"])


@given(st.lists(st.tuples(st.none() | IDS, st.none() | IDS.map("user-{}".format)), max_size=40))
def test_no_chain_ever_forms_and_every_link_leads_to_a_canonical_visitor(claims: list[tuple[str | None, str | None]]) -> None:
    people = People()
    for visitor_id, user_id in claims:
        if visitor_id or user_id:
            told = people.tell(visitor_id, user_id)
            assert people.canonical(told.visitor_id) == told.visitor_id
            assert user_id is None or told.visitor_id == people.home(user_id)
    for visitor in people.ledger.visitors.values():
        assert people.canonical(visitor.canonical_id) == visitor.canonical_id
    homes = list(people.ledger.links.values())
    assert len(set(homes)) == len(homes), "no two users share a visitor"
    for (_, user_id), home in people.ledger.links.items():
        assert people.ledger.visitors[SCOPE, home] == Visitor(home, user_id)
