"""Claims that repeat in a commit are resolved once, with the results of resolving each."""

from collections.abc import Callable
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.ids import ScopeId, VisitorId
from penstock.identity.model import Claim, Trust
from penstock.identity.resolution import IdentityResolver

CLAIMS = st.lists(
    st.builds(
        Claim,
        st.just(ScopeId("s")),
        st.sampled_from(["a", "b", "c"]) | st.none(),
        st.sampled_from(["u", "v", "null"]) | st.none(),
        st.none(),
        st.sampled_from([Trust.PUBLIC, Trust.SIGNED, Trust.BACKEND, Trust.PROVIDER]),
    ).filter(lambda claim: claim.visitor_id or claim.user_id),
    max_size=30,
)


def new_ids() -> Callable[[], VisitorId]:
    numbers = count()
    return lambda: VisitorId(f"new {next(numbers)}")


@settings(max_examples=200)
@given(claims=CLAIMS)
def test_repeats_have_the_results_of_resolving_each(claims: list[Claim]) -> None:
    each, together = IdentityResolver({}, {}), IdentityResolver({}, {})
    new_id = new_ids()
    expected = [each.resolve(claim, new_id) for claim in claims]
    assert together.resolve_all(claims, claims, new_ids()) == expected
    assert (together.visitors, together.links, together.moves) == (
        each.visitors,
        each.links,
        each.moves,
    )
