"""Edge cases of counting over the API.

They include the last millisecond of the window, unusual names and values, and merges.
"""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import pytest
from litestar.testing import TestClient

from penstock.app import build_services
from penstock.settings import Settings
from penstock.warehouse.client import Warehouse
from tests.applications import application
from tests.cases import cases, full_except
from tests.conftest import ShiftedClock
from tests.funnels.scenario import (
    HOUR_S,
    Json,
    Scene,
    by_cohort,
    column,
    counts,
    outcome,
    pick,
    step,
    where,
)
from tests.tenant import BASE_URL, Tenant, sign_up, visitor
from tests.tiers import TIER, Tier

pytestmark = pytest.mark.usefixtures("warehouse")


def test_one_event_cannot_complete_two_steps(scene: Scene) -> None:
    scene.story("0/A", attempt="plain")
    assert scene.counts(scene.attempts("A", "A")) == [1, 0]
    assert scene.counts(scene.attempts(step("A", "B"), step("B", "A"))) == [1, 0]


def test_one_event_cannot_complete_a_group_and_the_next_step(scene: Scene) -> None:
    scene.story("0/A 5/B")
    funnel = scene.attempts(step("A", "B", mode="all_of"), "B")
    assert scene.counts(funnel) == [1, 0]
    scene.story("6/B")
    assert scene.counts(funnel) == [1, 1]


def test_two_identical_steps_need_two_events(scene: Scene) -> None:
    scene.story("0/A 5/A", attempt="twice")
    scene.story("0/A(1) 0/A(2)", attempt="at once, ordered")
    scene.story("0/A 0/A", attempt="at once")
    assert scene.counts(scene.attempts("A", "A")) == [3, 2]


def test_the_windows_last_millisecond_counts_and_the_next_does_not(scene: Scene) -> None:
    scene.story(f"0/A {HOUR_S}/B", attempt="last")
    scene.story(f"0/A {HOUR_S}.001/B", attempt="late")
    report = scene.results(scene.attempts("A", "B"))
    assert outcome(report["aggregate"]) == (2, 1, 0, 1)
    assert report["aggregate"]["medianCompletionMinutes"] == 60


def test_the_windows_last_millisecond_counts_for_diagnostic_rows(scene: Scene) -> None:
    scene.story(f"0/A {HOUR_S}/failed {HOUR_S}.001/failed")
    report = scene.results(scene.attempts("A", step("failed", diagnostic=True), "B"))
    [row] = report["aggregate"]["diagnostics"]
    assert pick(row, "units", "events") == (1, 1)


def test_a_completion_after_the_period_counts(scene: Scene) -> None:
    scene.story("0/A 3000/B")
    assert scene.counts(scene.attempts("A", "B"), startAt=scene.at(0), endAt=scene.at(10)) == [1, 1]


def test_an_attempt_that_entered_before_the_period_is_not_counted_again(scene: Scene) -> None:
    scene.story("0/A 50/A 60/B")
    assert scene.counts(scene.attempts("A", "B"), **scene.period(20, 100)) == [0, 0]


def test_a_visitor_that_entered_before_the_period_may_enter_again(scene: Scene) -> None:
    scene.story("0/A 50/A 60/B")
    assert scene.counts(scene.funnel("A", "B"), startAt=scene.at(20), endAt=scene.at(100)) == [1, 1]


def test_a_visitor_counts_once_with_the_entry_that_leads_furthest(scene: Scene) -> None:
    funnel = scene.funnel(
        "A", "B", "C", conversionWindowSeconds=HOUR_S, breakdownProperties=["variant"]
    )
    scene.story("0/A 10/B", variant="first")
    scene.story("5000/A 5010/B 5020/C", variant="second")
    scene.story("10000/A 10010/B 10020/C", variant="third")
    report = scene.results(funnel)
    assert outcome(report["aggregate"]) == (1, 1, 0, 0)
    assert by_cohort(report, "variant") == {"second": 1}


def test_thirty_rows(scene: Scene) -> None:
    names = [f"step {number}" for number in range(1, 21)]
    rows: list[str | Json] = []
    for index, name in enumerate(names):
        rows += [name] if index % 2 else [name, step(f"seen {index}", diagnostic=True)]
    scene.track(
        scene.item(second, name, attempt="a1", n=second) for second, name in enumerate(names)
    )
    scene.track(scene.item(index, f"seen {index}", attempt="a1") for index in range(0, 20, 2))
    report = scene.results(scene.attempts(*rows))
    assert len(rows) == 30
    assert counts(report) == [1] * 20
    diagnostics = report["aggregate"]["diagnostics"]
    figures = [pick(row, "afterStep", "units", "events") for row in diagnostics]
    assert figures == [(step_number, 1, 1) for step_number in range(1, 21, 2)]


UNUSUAL_KEYS = [
    "it's",
    'say "x"',
    "a.b",
    "a.b.c",
    "a:b",
    "`tick`",
    "two words",
    "ключ 😀",
    "back\\slash",
    "a%2Eb",
    "{x:String}",
    "A",
    "a",
    " ",
]


@cases(
    "key",
    full_except(["a.b", "ключ 😀"], UNUSUAL_KEYS, "two statements for each key"),
)
def test_any_property_key_groups_filters_identifies_and_orders(scene: Scene, key: str) -> None:
    scene.send_event(0, "A", **{key: 1})
    scene.send_event(0, "B", **{key: 2})
    scene.send_event(0, "A", other=1)
    first = step("A", filters=[where(key, value="1")])
    funnel = scene.funnel(first, "B", sequenceProperty=key, breakdownProperties=[key])
    visitors = scene.results(funnel)
    assert outcome(visitors["aggregate"]) == (1, 1, 0, 0)
    assert visitors["cohorts"]["data"][0]["cohort"] == {key: 1}
    attempts = scene.results(scene.attempts("A", "B", attemptProperty=key))
    assert outcome(attempts["aggregate"]) == (1, 0, 0, 1)


def test_keys_with_dots_are_not_paths(scene: Scene) -> None:
    scene.send_event(0, "A", a={"b": "nested"})
    scene.send_event(0, "A", visitor="bob", **{"a.b": "flat"})
    report = scene.results(scene.funnel("A", "B", breakdownProperties=["a.b"]))
    assert by_cohort(report, "a.b") == {"flat": 1, None: 1}


VALUES: list[tuple[Any, Any]] = [
    ("1", "1"),
    (1, 1),
    (1.0, 1),
    (True, True),
    ("true", "true"),
    (False, False),
    ("Unknown", "Unknown"),
    ("", ""),
    (None, None),
    ({}, None),
    ([], None),
    (1.5, 1.5),
    (-7, -7),
    (2**62 + 1, 2**62 + 1),
    ("é😀'\"\\", "é😀'\"\\"),
]
"""Pairs of a sent value and its cohort value."""


@pytest.mark.slow("asks a report for every value")
def test_values_keep_their_json_type_in_cohorts_and_their_filter(scene: Scene) -> None:
    scene.track(
        scene.item(0, "A", visitor=f"v{index}", value=value)
        for index, (value, _) in enumerate(VALUES)
    )
    scene.send_event(0, "A", visitor="without")
    funnel = scene.funnel("A", "B", breakdownProperties=["value"])
    report = scene.results(funnel, pageSize=100)
    expected = Counter((type(value).__name__, value) for value in [*(v for _, v in VALUES), None])
    entered = {
        (type(row["cohort"]["value"]).__name__, row["cohort"]["value"]): row["entered"]
        for row in report["cohorts"]["data"]
    }
    assert entered == expected
    chosen = expected if TIER is Tier.FULL else dict(islice(expected.items(), 0, None, 5))
    for (_, value), count in chosen.items():
        report = scene.results(funnel, cohort={"value": value})
        assert report["aggregate"]["entered"] == count, value
    assert scene.results(funnel, cohort={"value": "never"})["aggregate"]["entered"] == 0


def test_the_cohort_filter_restricts_counts_but_not_data_quality(scene: Scene) -> None:
    funnel = scene.funnel("A", "B", breakdownProperties=["plan", "variant"])
    cohorts = [("pro", "a"), ("pro", "b"), ("free", "a"), (None, "a")]
    for number, (plan, variant) in enumerate(cohorts):
        scene.send_event(0, "A", visitor=f"v{number}", plan=plan, variant=variant)
    report = scene.results(funnel, cohort={"plan": "pro"})
    assert report["aggregate"]["entered"] == 2
    assert by_cohort(report, "plan", "variant") == {("pro", "a"): 1, ("pro", "b"): 1}
    assert report["dataQuality"]["unknownEntryValues"] == {"plan": 1, "variant": 0}


def test_pages_of_cohorts_are_stable_and_a_page_past_the_end_is_empty(scene: Scene) -> None:
    funnel = scene.funnel("A", "B", breakdownProperties=["plan"])
    for number, plan in enumerate(["b", "a", "c", "b", None, "B"]):
        scene.send_event(0, "A", visitor=f"v{number}", plan=plan)
    pages = [scene.results(funnel, page=page, pageSize=2)["cohorts"] for page in (1, 2, 3, 4)]
    assert [[row["cohort"]["plan"] for row in page["data"]] for page in pages] == [
        ["b", "B"],
        ["a", "c"],
        [None],
        [],
    ]
    assert {page["total"] for page in pages} == {5}


UNUSUAL_NAMES = [
    "it's", 'say "hi"', "back`tick", "😀 emoji", "per%cent", "back\\slash", "{p0:String}",
    "-- comment", "line\nbreak\t",
]  # fmt: skip


def test_event_names_with_unusual_characters(scene: Scene) -> None:
    """Each is the name of a step, and no event of another name completes it."""
    scene.track(
        item
        for index, name in enumerate(UNUSUAL_NAMES)
        for item in (scene.item(index, name, attempt="all"), scene.item(0, name, attempt=name))
    )
    steps = scene.results(scene.attempts(*UNUSUAL_NAMES))["aggregate"]["steps"]
    assert column(steps, "value") == UNUSUAL_NAMES
    assert column(steps, "count") == [2, *[1] * (len(UNUSUAL_NAMES) - 1)]


def test_page_paths_match_without_query_and_trailing_slash_and_with_stars(scene: Scene) -> None:
    paths = ("/shop/?utm=1#top", "/shop/shoes/red/", "/shop/shoes", "/")
    scene.track(scene.pageview(second, path) for second, path in enumerate(paths))
    patterns = ("/shop/", "/shop/**", "/shop/*", "/")
    rows = [{"type": "Pageview", "value": value} for value in patterns]
    report = scene.results(scene.funnel(*rows))
    assert counts(report) == [1, 1, 1, 1]
    assert scene.counts(scene.funnel({"type": "Pageview", "value": "/shop/*/*"}, "B")) == [1, 0]
    assert scene.counts(scene.funnel({"type": "Pageview", "value": "/Shop"}, "B")) == [0, 0]


def test_anonymous_first_then_identified_is_one_visitor(scene: Scene) -> None:
    scene.story("0/A", visitor="browser-1", attempt=None)
    scene.identify("user-1", "browser-1")
    scene.server_event(10, "B", userId="user-1")
    scene.server_event(20, "C", userId="user-1")
    report = scene.results(scene.funnel("A", "B", "C", conversionWindowSeconds=HOUR_S))
    assert outcome(report["aggregate"]) == (1, 1, 0, 0)


def test_a_server_event_with_both_ids_joins_the_anonymous_past(scene: Scene) -> None:
    scene.server_event(20, "C", userId="user-1")
    scene.story("0/A", visitor="browser-1", attempt=None)
    scene.server_event(10, "B", userId="user-1", visitorId="browser-1")
    assert scene.counts(scene.funnel("A", "B", "C")) == [1, 1, 1]


def test_two_entrants_merged_afterwards_count_once(scene: Scene) -> None:
    funnel = scene.funnel("A", "B")
    scene.story("0/A", visitor="phone", attempt=None)
    scene.server_event(5, "A", userId="user-1")
    scene.story("10/B", visitor="phone", attempt=None)
    assert scene.counts(funnel) == [2, 1]
    assert scene.identify("user-1", "phone")["merged"] is True
    assert scene.counts(funnel) == [1, 1]


@pytest.mark.parametrize("breakdown", [[], ["variant", "plan"]])
def test_a_report_without_data_has_rows_of_zeros(scene: Scene, breakdown: list[str]) -> None:
    funnel = scene.attempts(
        step("A", "a"),
        step("X", diagnostic=True),
        step("B", "C", mode="all_of"),
        breakdownProperties=breakdown,
    )
    report = scene.results(funnel)
    empty = {
        "count": 0,
        "pending": 0,
        "droppedOff": 0,
        "excluded": 0,
        "conversionFromStart": None,
        "conversionFromPrevious": None,
        "settled": 0,
        "settledFromStart": None,
        "settledFromPrevious": None,
    }
    unused = [{"option": 0, "count": 0}, {"option": 1, "count": 0}]
    assert report["aggregate"] == {
        "entered": 0,
        "completed": 0,
        "pending": 0,
        "droppedOff": 0,
        "excluded": 0,
        "conversionRate": None,
        "settled": 0,
        "settledRate": None,
        "earlyCompletions": 0,
        "finalRate": None,
        "medianCompletionMinutes": None,
        "steps": [
            {"step": 1, "row": 0, "type": "Event", "value": "A", **empty, "options": unused},
            {"step": 2, "row": 2, "type": "Event", "value": "B", **empty, "options": unused},
        ],
        "diagnostics": [
            {
                "row": 1,
                "afterStep": 1,
                "where": "between steps 1 and 2",
                "type": "Event",
                "value": "X",
                "units": 0,
                "events": 0,
            }
        ],
    }
    alone = [] if breakdown else [{"cohort": {}, "label": {}, **report["aggregate"]}]
    assert report["cohorts"] == {"page": 1, "pageSize": 20, "total": len(alone), "data": alone}
    assert report["coverage"]["firstEventAt"] is None
    assert scene.results(funnel) | {"servedFrom": None} == report | {"servedFrom": None}


def test_a_hundred_identical_posts_at_once_store_one_event(scene: Scene) -> None:
    def post(_: int) -> Json:
        properties = {"attempt": "a1"}
        return scene.server_event(0, "A", visitorId="ann", eventId="order-1", properties=properties)

    with ThreadPoolExecutor(20) as threads:
        receipts = list(threads.map(post, range(100)))
    assert column(receipts, "status").count("accepted") == 1
    assert len({receipt["eventId"] for receipt in receipts}) == 1
    report = scene.results(scene.attempts("A", step("A", diagnostic=True), "A"))
    assert report["aggregate"]["diagnostics"][0]["events"] == 1


def test_a_repeat_after_a_restart_is_a_duplicate(
    settings: Settings, clock: ShiftedClock, warehouse: Warehouse
) -> None:
    services = build_services(settings, clock, warehouse)
    with TestClient(application(services), base_url=BASE_URL) as before:
        tenant = sign_up(before, services.accounts.setup_token)
        scene = Scene(tenant, clock)
        first = scene.server_event(0, "A", visitorId="ann", eventId="order-1")
    restarted = application(build_services(settings, clock, warehouse))
    with TestClient(restarted, base_url=BASE_URL) as after:
        scene.client = visitor(after, {"Authorization": scene.client.headers["Authorization"]})
        again = scene.server_event(0, "A", visitorId="ann", eventId="order-1")
    assert first["status"] == "accepted"
    assert pick(again, "status", "eventId") == ("duplicate", first["eventId"])


def test_a_foreign_website_is_unauthorized_and_a_foreign_funnel_not_found(
    scene: Scene, other_workspace: Tenant
) -> None:
    funnel = scene.attempts("A", "B")
    stranger = other_workspace.client
    event = {"websiteId": scene.tenant.website_id, "visitorId": "ann", "event": "A"}
    assert stranger.post("/api/v1/events", json=event).status_code == 401
    assert stranger.get(f"/api/funnels/{funnel}/results").status_code == 404
    other = Scene(other_workspace, ShiftedClock())
    foreign = other.request(other.funnel("A", "B"), "results", websiteId=scene.tenant.website_id)
    assert foreign.status_code == 401


def test_a_workspace_cannot_see_another(
    scene: Scene, other_workspace: Tenant, clock: ShiftedClock
) -> None:
    scene.story("0/A 10/B")
    other = Scene(other_workspace, clock)
    assert other.counts(other.attempts("A", "B")) == [0, 0]


@cases(
    ("query", "named"),
    [
        ({"startAt": "2026-01-01T00:00:00Z"}, "endAt"),
        ({"endAt": "2026-01-01T00:00:00Z"}, "startAt"),
        ({"startAt": "2026-01-02T00:00:00Z", "endAt": "2026-01-02T00:00:00Z"}, "startAt"),
        ({"startAt": "soon", "endAt": "2026-01-02T00:00:00Z"}, "startAt"),
        ({"page": "0"}, "page"),
        ({"pageSize": "0"}, "pageSize"),
        ({"pageSize": "101"}, "pageSize"),
        ({"pagesize": "10"}, "pagesize"),
    ],
)
def test_a_malformed_query_names_its_parameter(
    scene: Scene, query: dict[str, str], named: str
) -> None:
    answer = scene.request(scene.attempts("A", "B"), "results", **query)
    assert answer.status_code == 400
    assert named in answer.text


@cases("cohort", ['{"plan": "pro"}', '{"variant": ["a"]}', '{"variant": {}}'])
def test_a_cohort_filter_on_anything_else_is_refused(scene: Scene, cohort: str) -> None:
    funnel = scene.attempts("A", "B", breakdownProperties=["variant"])
    answer = scene.request(funnel, "results", cohort=cohort)
    assert answer.status_code == 422
    assert "cohort" in answer.text
