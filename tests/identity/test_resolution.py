"""Each rule of identity resolution, and properties that hold for any sequence of claims."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.ids import ScopeId, VisitorId
from penstock.identity.model import CONFLICT, PLACEHOLDER, Claim, Resolution, Trust, is_placeholder
from penstock.identity.resolution import IdentityResolver, UserLink, Visitor

SCOPE = ScopeId("scope")


class People:
    """Resolves claims one by one. New visitors are called new-1, new-2, ..."""

    def __init__(self) -> None:
        self.resolver = IdentityResolver(visitors={}, links={})
        self._numbers = count(1)

    def resolve(
        self,
        visitor_id: str | None = None,
        user_id: str | None = None,
        trust: Trust = Trust.BACKEND,
    ) -> Resolution:
        return self.resolver.resolve(
            Claim(SCOPE, visitor_id, user_id, trust=trust),
            lambda: VisitorId(f"new-{next(self._numbers)}"),
        )

    def canonical(self, visitor_id: str) -> str:
        return self.resolver.visitors[SCOPE, visitor_id].canonical_id

    def visitor_of(self, user_id: str) -> str | None:
        link = self.resolver.links.get((SCOPE, user_id))
        return None if link is None else link.visitor_id


@pytest.fixture
def people() -> People:
    return People()


def test_a_visitor_id_resolves_to_that_visitor(people: People) -> None:
    assert people.resolve("v") == Resolution(VisitorId("v"))
    assert people.resolver.visitors == {(SCOPE, "v"): Visitor(VisitorId("v"), None)}


def test_a_linked_user_resolves_to_its_visitor(people: People) -> None:
    people.resolve("v", "u")
    assert people.resolve(user_id="u") == Resolution(VisitorId("v"))


def test_an_unlinked_user_gets_a_new_visitor(people: People) -> None:
    assert people.resolve(user_id="u") == Resolution(VisitorId("new-1"))
    assert people.resolve(user_id="u") == Resolution(VisitorId("new-1"))
    assert people.visitor_of("u") == "new-1"


def test_both_ids_without_links_are_linked(people: People) -> None:
    people.resolve("v")
    assert people.resolve("v", "u") == Resolution(VisitorId("v"))
    assert people.visitor_of("u") == "v"


def test_both_ids_that_are_linked_change_nothing(people: People) -> None:
    people.resolve("v", "u")
    before = (dict(people.resolver.visitors), dict(people.resolver.links))
    assert people.resolve("v", "u") == Resolution(VisitorId("v"))
    assert (people.resolver.visitors, people.resolver.links) == before


def test_a_visitor_without_a_user_merges_into_the_visitor_of_the_user(people: People) -> None:
    people.resolve("w", "u")
    people.resolve("v")
    assert people.resolve("v", "u") == Resolution(VisitorId("w"), merged=True)
    assert people.canonical("v") == "w"
    assert people.resolve("v") == Resolution(VisitorId("w"))
    assert people.resolve("v", "u") == Resolution(VisitorId("w")), "merged once"


def test_a_user_without_a_visitor_gets_a_new_one_when_the_visitor_has_another_user(
    people: People,
) -> None:
    people.resolve("v", "first")
    assert people.resolve("v", "second") == Resolution(VisitorId("new-1"), notices=(CONFLICT,))
    assert (people.visitor_of("first"), people.visitor_of("second"), people.canonical("v")) == (
        "v",
        "new-1",
        "v",
    )


def test_a_linked_user_keeps_its_visitor_when_the_visitor_has_another_user(people: People) -> None:
    people.resolve("v", "first")
    people.resolve("w", "second")
    assert people.resolve("v", "second") == Resolution(VisitorId("w"), notices=(CONFLICT,))
    assert not people.resolver.moves


def test_an_absorbed_visitor_belongs_to_the_user_it_was_merged_for(people: People) -> None:
    people.resolve("w", "u")
    people.resolve("v", "u")
    assert people.resolve("v", "other") == Resolution(VisitorId("new-1"), notices=(CONFLICT,))


def test_identity_scopes_are_independent(people: People) -> None:
    people.resolve("v", "u")
    resolution = people.resolver.resolve(
        Claim(ScopeId("elsewhere"), "v", "another"), lambda: VisitorId("unused")
    )
    assert resolution == Resolution(VisitorId("v"))


@pytest.mark.parametrize(
    "sent",
    [
        "null",
        "undefined",
        "0",
        "anonymous",
        "none",
        "00000000-0000-0000-0000-000000000000",
        " NULL ",
        '"null"',
    ],
)
def test_a_placeholder_is_stored_as_sent_and_never_linked(people: People, sent: str) -> None:
    assert is_placeholder(sent)
    assert people.resolve(sent) == Resolution(VisitorId(sent), notices=(PLACEHOLDER,))
    assert people.resolve(user_id=sent) == Resolution(VisitorId(sent), notices=(PLACEHOLDER,))
    assert people.resolve(sent, "u") == Resolution(VisitorId("new-1"), notices=(PLACEHOLDER,))
    assert people.resolve("v", sent) == Resolution(VisitorId("v"), notices=(PLACEHOLDER,))
    assert people.resolver.links == {(SCOPE, "u"): UserLink(VisitorId("new-1"), Trust.BACKEND)}
    assert not people.resolver.moves


@pytest.mark.parametrize("sent", ["1", "00", "nobody", "0000-1", "visitor-null"])
def test_an_id_that_resembles_a_placeholder_is_linked(sent: str) -> None:
    assert not is_placeholder(sent)


IDS = st.sampled_from(["a", "b", "c", "d", "e"])


TRUSTS = st.sampled_from([Trust.PUBLIC, Trust.SIGNED, Trust.BACKEND, Trust.PROVIDER])
CLAIMS = st.tuples(st.none() | IDS, st.none() | IDS.map("user-{}".format), TRUSTS)


@given(st.lists(CLAIMS, max_size=40))
def test_merges_never_form_chains_and_links_lead_to_canonical_visitors(
    claims: list[tuple[str | None, str | None, Trust]],
) -> None:
    people = People()
    for visitor_id, user_id, trust in claims:
        if visitor_id or user_id:
            resolution = people.resolve(visitor_id, user_id, trust)
            assert people.canonical(resolution.visitor_id) == resolution.visitor_id
            assert user_id is None or resolution.visitor_id == people.visitor_of(user_id)
    state = people.resolver.visitors
    for (_, own_id), visitor in state.items():
        head = state[SCOPE, visitor.canonical_id]
        assert head.canonical_id == visitor.canonical_id
        assert visitor.user_id == head.user_id
        assert visitor.trust <= head.trust
        is_absorbed = visitor.canonical_id != own_id
        assert is_absorbed == (
            own_id in people.resolver.absorbed.get((SCOPE, visitor.canonical_id), set())
        )
        assert visitor.user_id is not None or not is_absorbed
    homes = [link.visitor_id for link in people.resolver.links.values()]
    assert len(set(homes)) == len(homes), "no two users share a visitor"
    for (_, user_id), link in people.resolver.links.items():
        assert state[SCOPE, link.visitor_id] == Visitor(link.visitor_id, user_id, link.trust)


@given(st.lists(CLAIMS, max_size=40))
def test_a_claim_never_changes_a_link_of_higher_trust(
    claims: list[tuple[str | None, str | None, Trust]],
) -> None:
    people = People()
    for visitor_id, user_id, trust in claims:
        if visitor_id or user_id:
            before = dict(people.resolver.links)
            people.resolve(visitor_id, user_id, trust)
            for user, link in before.items():
                if link.trust >= trust:
                    assert people.resolver.links.get(user) == link


def test_a_user_moves_to_the_visitor_that_a_claim_of_higher_trust_names(people: People) -> None:
    people.resolve("mallory", "ada", Trust.PUBLIC)
    people.resolve("mallory-phone", "ada", Trust.PUBLIC)
    assert people.resolve("laptop", "ada", Trust.SIGNED) == Resolution(VisitorId("laptop"))
    assert people.visitor_of("ada") == "laptop"
    for released in ("mallory", "mallory-phone"):
        assert people.resolver.visitors[SCOPE, released] == Visitor(VisitorId(released))


def test_a_visitor_moves_to_the_user_that_a_claim_of_higher_trust_names(people: People) -> None:
    people.resolve("own", "mallory", Trust.PUBLIC)
    people.resolve("laptop", "mallory", Trust.PUBLIC)
    assert people.canonical("laptop") == "own"
    assert people.resolve("laptop", "ada") == Resolution(VisitorId("laptop"))
    assert (people.visitor_of("ada"), people.visitor_of("mallory")) == ("laptop", "own")


def test_a_public_claim_joins_a_trusted_visitor_without_its_trust(people: People) -> None:
    people.resolve("laptop", "ada")
    assert people.resolve("phone", "ada", Trust.PUBLIC) == Resolution(
        VisitorId("laptop"), merged=True
    )
    assert people.resolve("phone", "bob", Trust.SIGNED) == Resolution(VisitorId("phone"))
    assert people.visitor_of("ada") == "laptop"
