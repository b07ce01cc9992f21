"""The types of a function declare its route. A mistake stops the start and names the parameter."""

from typing import Any

import pytest

from penstock.accounts.model import Caller
from penstock.http.handlers import Objects, route
from penstock.http.schema import Input, PageQuery, SearchQuery


class NewThing(Input):
    name: str


def test_a_parameter_that_nothing_provides_is_named() -> None:
    @route("GET", "/api/things/{thing_id:str}")
    def read_thing(caller: Caller, thing_id: str, thinks: object) -> None: ...

    async def provide_caller() -> None: ...

    objects = Objects(object(), {"things"}, {"caller": provide_caller})
    with pytest.raises(TypeError, match=r"read_thing: there is no object for 'thinks'"):
        objects.check([read_thing])


def test_a_parameter_without_a_type_is_named() -> None:
    def read_things(caller, query: PageQuery) -> None: ...  # type: ignore[no-untyped-def]

    with pytest.raises(TypeError, match=r"read_things: 'caller' needs a type"):
        route("GET", "/api/things")(read_things)


def test_a_result_needs_a_type() -> None:
    def read_things(query: PageQuery): ...  # type: ignore[no-untyped-def]

    with pytest.raises(TypeError, match=r"read_things: 'return' needs a type"):
        route("GET", "/api/things")(read_things)


@pytest.mark.parametrize(
    ("first", "second", "kind"), [(PageQuery, SearchQuery, "Query"), (NewThing, bytes, "Input")]
)
def test_only_one_parameter_is_the_query_or_the_body(first: Any, second: Any, kind: str) -> None:
    def add_thing(thing: Any, other: Any) -> None: ...

    add_thing.__annotations__ |= {"thing": first, "other": second}
    with pytest.raises(TypeError, match=rf"add_thing: 'other' is a second {kind}"):
        route("POST", "/api/things")(add_thing)
