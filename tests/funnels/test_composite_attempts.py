"""Attempt IDs that consist of several keys, or built-in keys. Source: semantics, "Units"."""

import json
from typing import Any
from urllib.parse import quote

import pytest

from tests.funnels.answers import code
from tests.funnels.scenario import Json, Scene, column, counts, pick

pytestmark = pytest.mark.usefixtures("warehouse")


def by_keys(scene: Scene, *keys: str) -> str:
    """Create a funnel A -> B of attempts with these keys."""
    return scene.attempts("A", "B", attemptProperties=keys, attemptProperty=None)


def units(scene: Scene, funnel_id: str) -> list[Any]:
    return list(map(json.loads, scene.names(funnel_id)))


def trace(scene: Scene, funnel_id: str, name: Any) -> Json:
    return scene.trace(funnel_id, quote(json.dumps(name), safe=""))


def test_a_cart_counts_once_for_each_visitor(scene: Scene) -> None:
    scene.story("0/A", visitor="ann", attempt=None, cart=1)
    scene.story("5/A", visitor="ben", attempt=None, cart=1)
    scene.story("10/B", visitor="ann", attempt=None, cart="1")
    scene.story("20/A", visitor="ann", attempt=None, cart=2)
    scene.story("30/B", visitor="ann", attempt=None)
    funnel = by_keys(scene, "$visitor", "cart")
    report = scene.results(funnel)
    assert counts(report) == [3, 1]
    assert report["dataQuality"]["eventsWithoutAttemptId"] == 1
    assert units(scene, funnel) == [["ann", "2"], ["ben", "1"], ["ann", "1"]]


def test_sessions_are_counted_within_a_website_and_a_visitor(scene: Scene) -> None:
    website = scene.tenant.website_id
    scene.track(
        {**scene.item(second, name, visitor), "sessionId": session}
        for second, name, visitor, session in (
            (0, "A", "ann", "s1"),
            (10, "B", "ann", "s1"),
            (20, "A", "ann", "s2"),
            (30, "A", "ben", "s1"),
        )
    )
    scene.story("40/A", visitor="ann", attempt=None)
    funnel = by_keys(scene, "$session")
    assert scene.counts(funnel) == [3, 1]
    assert units(scene, funnel) == [
        [[website, "ben", "s1"]],
        [[website, "ann", "s2"]],
        [[website, "ann", "s1"]],
    ]
    record = trace(scene, funnel, [[website, "ann", "s1"]])
    assert column(record["events"], "name") == ["A", "B"]


def test_a_merge_makes_carts_with_the_same_id_one_attempt(scene: Scene) -> None:
    scene.story("0/A", visitor="phone", attempt=None, cart="c")
    scene.story("10/B", visitor="laptop", attempt=None, cart="c")
    funnel = by_keys(scene, "$visitor", "cart")
    assert scene.counts(funnel) == [1, 0]
    scene.identify("u-1", "phone", "laptop")
    assert scene.counts(funnel) == [1, 1]
    [[visitor, cart]] = units(scene, funnel)
    assert cart == "c"
    for visitor_id in ("phone", "laptop", visitor):
        assert trace(scene, funnel, [visitor_id, "c"])["reached"] == 2


def test_two_properties_are_one_attempt_id(scene: Scene) -> None:
    scene.story("0/A", attempt="a", item="x")
    scene.story("10/B", attempt="a", item="y")
    scene.story("20/B", attempt="a", item="x")
    scene.story("30/A", attempt="null", item="x")
    funnel = by_keys(scene, "attempt", "item")
    assert scene.counts(funnel) == [1, 1]
    assert units(scene, funnel) == [["a", "x"]]


def test_an_event_without_one_of_the_keys_is_explained(scene: Scene) -> None:
    event = scene.server_event(0, "A", userId="u-1", properties={"cart": True})
    funnel = by_keys(scene, "$session", "cart")
    answer = scene.report(funnel, "explain", eventId=event["eventId"])
    assert pick(answer, "unit", "counts") == (None, False)
    assert answer["explanation"] == (
        "The event has no attempt ID: cart must be an integer, or a text other than null, "
        "undefined and blanks, and the event must belong to a session of the tracker."
    )


def test_one_plain_key_is_stored_as_the_attempt_property(scene: Scene) -> None:
    funnel = by_keys(scene, "attempt")
    saved = scene.definition(funnel)
    assert saved["attemptProperty"] == "attempt"
    assert "attemptProperties" not in saved


def test_a_funnel_is_saved_again_as_it_was_read(scene: Scene) -> None:
    funnel = by_keys(scene, "$visitor", "cart")
    body = scene.definition(funnel)
    assert pick(body, "attemptProperty", "attemptProperties") == (None, ["$visitor", "cart"])
    answer = scene.client.put(f"/api/funnels/{funnel}", json=body)
    assert (answer.status_code, answer.json()["revision"]) == (200, 1), answer.text
    body |= {"attemptProperty": "cart"}
    del body["attemptProperties"]
    scene.client.put(f"/api/funnels/{funnel}", json=body)
    assert scene.changes(funnel) == ["Attempt property $visitor, cart -> cart"]


@pytest.mark.parametrize(
    "name", ["ann", "[]", '["ann"]', '["ann", 1]', '[["ann"], "1"]', "[" * 999]
)
def test_another_name_is_not_found(scene: Scene, name: str) -> None:
    scene.story("0/A", visitor="ann", attempt=None, cart=1)
    funnel = by_keys(scene, "$visitor", "cart")
    answer = scene.request(funnel, f"units/{quote(name, safe='')}")
    assert code(answer, 404) == "unit_not_found"
