"""Traits of visitors, and events that happen for the first time, over HTTP. See docs/funnels.md."""

from typing import Any

import pytest

from penstock.warehouse.client import Warehouse
from tests.cases import cases, full_except
from tests.funnels.answers import faults
from tests.funnels.scenario import DAY_S, Json, Scene, by_cohort, column, step, where

pytestmark = pytest.mark.usefixtures("warehouse")

PLAN = "$trait.plan"
FIRST = "$first_time"
Filter = dict[str, Any]
MORE_OPERATORS = pytest.mark.full("more operators")


def is_(key: str, value: str, operator: str = "equals") -> Filter:
    return where(key, operator, value)


FIRST_TIME: Filter = where(FIRST, "is_true")
FIRST_A = step("A", filters=[FIRST_TIME])


def identify(scene: Scene, user: str, visitor: str, **traits: Any) -> Json:
    return scene.identify(user, visitor, **({"traits": traits} if traits else {}))


def funnel(scene: Scene, *rows: Any, **definition: Any) -> str:
    return scene.funnel(*rows, **{"conversionWindowSeconds": DAY_S, **definition})


def entered(scene: Scene, funnel_id: str, *filters: Filter, **query: Any) -> int:
    if filters:
        query["filters"] = list(filters)
    count: int = scene.results(funnel_id, **query)["aggregate"]["entered"]
    return count


# -- Traits ----------------------------------------------------------------------------------------


@pytest.fixture
def plans(scene: Scene) -> Scene:
    """Ann has the plan pro, Bob the plan 5, and Cid is nobody's visitor."""
    for visitor in ("ann", "bob", "cid"):
        scene.story("0/A 10/B", visitor=visitor)
    identify(scene, "u-ann", "ann", plan="pro", age=30, tags=["a"])
    identify(scene, "u-bob", "bob", plan=5)
    return scene


def test_a_trait_filters_and_divides_the_visitors_of_a_report(plans: Scene) -> None:
    funnel_id = funnel(plans, "A", "B")
    assert entered(plans, funnel_id, is_(PLAN, "pro")) == 1
    report = plans.results(funnel_id, breakdown=PLAN)
    assert by_cohort(report, PLAN) == {"pro": 1, 5: 1, None: 1}
    assert report["dataQuality"]["unknownEntryValues"] == {PLAN: 1}
    assert plans.results(funnel_id, breakdown=PLAN, cohort={PLAN: 5})["aggregate"]["entered"] == 1
    assert plans.results(funnel_id, breakdown=PLAN, cohort={PLAN: "5"})["aggregate"]["entered"] == 0
    saved = funnel(plans, "A", "B", breakdownProperties=[PLAN, "$trait.age"])
    assert by_cohort(plans.results(saved), PLAN, "$trait.age") == {
        ("pro", 30): 1,
        (5, None): 1,
        (None, None): 1,
    }


@cases(
    ("condition", "count"),
    [
        (is_(PLAN, "pro", "not_equals"), 2),
        (is_(PLAN, "4", "greater_than"), 1),
        ({"property": PLAN, "operator": "is_not_set"}, 1),
        pytest.param(is_(PLAN, "5"), 1, marks=MORE_OPERATORS),
        pytest.param({"property": "$trait.tags", "operator": "is_set"}, 0, marks=MORE_OPERATORS),
        pytest.param(is_("$trait.Plan", "pro"), 0, marks=MORE_OPERATORS),
    ],
)
def test_an_absent_trait_behaves_like_an_absent_property(
    plans: Scene, condition: Filter, count: int
) -> None:
    assert entered(plans, funnel(plans, "A", "B"), condition) == count


def test_a_trait_may_stand_on_every_match(plans: Scene) -> None:
    is_pro = [is_(PLAN, "pro")]
    funnel_id = funnel(
        plans,
        {"type": "Event", "value": "none", "or": [step("A", filters=is_pro)]},
        step("B", filters=[is_(PLAN, "5")], diagnostic=True),
        step("B", filters=is_pro),
    )
    aggregate = plans.results(funnel_id)["aggregate"]
    assert column(aggregate["steps"], "count") == [1, 1]
    assert column(aggregate["diagnostics"], "units") == [0]
    excluding = funnel(plans, "A", step("B", filters=is_pro, exclude=True), "B")
    assert plans.results(excluding)["aggregate"]["excluded"] == 1


def test_a_goal_may_name_a_trait(plans: Scene) -> None:
    match = step("A", filters=[is_(PLAN, "pro")])
    plans.goal("Pro entry", match)
    goal = {"type": "Goal", "value": "Pro entry"}
    assert plans.counts(funnel(plans, goal, "B")) == [1, 1]


def test_traits_are_those_of_the_canonical_visitor_and_the_newest_hold(plans: Scene) -> None:
    funnel_id = funnel(plans, "A", "B")
    assert entered(plans, funnel_id, is_(PLAN, "pro")) == 1
    identify(plans, "u-ann", "cid")  # Cid is Ann: one visitor, whose events are all hers
    assert by_cohort(plans.results(funnel_id, breakdown=PLAN), PLAN) == {"pro": 1, 5: 1}
    identify(plans, "u-ann", "ann-2", plan="basic")  # keeps her age
    report = plans.results(funnel_id, breakdown=f"{PLAN},$trait.age")
    assert by_cohort(report, PLAN, "$trait.age") == {("basic", 30): 1, (5, None): 1}
    assert entered(plans, funnel_id, is_(PLAN, "pro")) == 0


def test_a_report_notices_traits_that_arrive_after_newer_traits_of_another_visitor(
    plans: Scene, warehouse: Warehouse
) -> None:
    """Traits with a lower version arrive later if another node ships them."""
    funnel_id = funnel(plans, "A", "B")
    for plan in ("basic", "max"):  # two versions above Bob's, so that one between them is free
        identify(plans, "u-ann", "ann", plan=plan)
        report = plans.results(funnel_id, breakdown=PLAN)  # waits for these traits
        assert by_cohort(report, PLAN) == {plan: 1, 5: 1, None: 1}
    [[scope_id, version]] = warehouse.query(
        "SELECT scope_id, max(version) FROM visitor_traits WHERE scope_id IN "
        "(SELECT scope_id FROM events WHERE website_id = {website:String}) GROUP BY scope_id",
        {"website": plans.tenant.website_id},
    )[1]
    warehouse.command(
        "INSERT INTO visitor_traits (scope_id, visitor_id, texts, version) "
        "VALUES ({scope:String}, 'bob', map('plan', 'slate'), {version:UInt64})",
        {"scope": scope_id, "version": version - 1},
    )
    report = plans.results(funnel_id, breakdown=PLAN)
    assert by_cohort(report, PLAN) == {"max": 1, "late": 1, None: 1}


def test_an_event_of_a_server_has_the_traits_of_its_user(plans: Scene) -> None:
    plans.server_event(0, "C", userId="u-ann")
    plans.server_event(0, "C", userId="u-new")
    plans.server_event(0, "C", visitorId="dan")
    funnel_id = funnel(plans, "C", "B")
    assert by_cohort(plans.results(funnel_id, breakdown=PLAN), PLAN) == {"pro": 1, None: 2}


def test_a_released_visitor_has_no_traits(plans: Scene) -> None:
    """A backend's claim releases the visitor that a browser linked to somebody else."""
    funnel_id = funnel(plans, "A", "B")
    lie = {"visitorId": "cid", "userId": "u-liar", "traits": {"plan": "pro"}}
    body = {"websiteId": plans.tenant.website_id, **lie}
    public = plans.tenant.browser.post("/api/identify", json=body, headers={"Cookie": ""})
    assert public.status_code == 200
    assert entered(plans, funnel_id, is_(PLAN, "pro")) == 2
    identify(plans, "u-cid", "cid")
    assert entered(plans, funnel_id, is_(PLAN, "pro")) == 1


def test_an_attempt_has_the_trait_of_the_visitor_of_its_entry(plans: Scene) -> None:
    plans.story("100/A", visitor="ann", attempt="a2")
    plans.story("110/B", visitor="cid", attempt="a2")
    plans.story("100/A 110/B", visitor="cid", attempt="a3")
    funnel_id = plans.attempts("A", "B", breakdownProperties=[PLAN])
    report = plans.results(funnel_id)
    # The events of attempt a1 are those of three visitors, at the same time.
    assert by_cohort(report, PLAN) == {"pro": 1, None: 2}


def test_units_and_traces_know_the_traits(plans: Scene) -> None:
    funnel_id = funnel(plans, step("A", filters=[is_(PLAN, "pro")]), "B")
    [unit] = plans.report(funnel_id, "units")["data"]
    assert unit["unit"] == "ann"
    for visitor, decision in (("ann", "entry"), ("cid", "noMatch")):
        trace = plans.trace(funnel_id, visitor)
        assert trace["events"][0]["decision"] == decision


# -- First times -----------------------------------------------------------------------------------


@pytest.fixture
def firsts(scene: Scene) -> Scene:
    """Ann does A twice, the second time with another plan, and Bob once."""
    scene.story("0/A", visitor="ann", plan="basic")
    scene.story("100/A 200/B", visitor="ann", plan="pro")
    scene.story("150/A 160/B 170/B", visitor="bob", plan="pro")
    return scene


def test_only_the_first_event_of_a_match_ever_is_the_first(firsts: Scene) -> None:
    funnel_id = funnel(firsts, FIRST_A, "B")
    assert firsts.counts(funnel_id) == [2, 2]
    # In this period Ann's A is her second.
    assert firsts.counts(funnel_id, **firsts.period(50, 300)) == [1, 1]
    others = {"property": FIRST, "operator": "is_false"}
    again = funnel(firsts, step("A", filters=[others]), "B")
    assert firsts.counts(again, **firsts.period(50, 300)) == [1, 1]
    text = is_(FIRST, "true")
    assert firsts.counts(funnel(firsts, step("A", filters=[text]), "B")) == [2, 2]


def test_the_first_time_is_of_the_rest_of_the_match(firsts: Scene) -> None:
    pro = is_("plan", "pro")
    funnel_id = funnel(firsts, step("A", filters=[FIRST_TIME, pro]), "B")
    assert firsts.counts(funnel_id, **firsts.period(50, 300)) == [2, 2]


def test_a_question_asks_for_first_times_of_step_1(firsts: Scene) -> None:
    funnel_id = funnel(firsts, "A", "B")
    times = firsts.period(50, 300)
    assert entered(firsts, funnel_id, FIRST_TIME, **times) == 1
    assert entered(firsts, funnel_id, FIRST_TIME, is_("plan", "pro"), **times) == 2
    either = funnel(firsts, step("A", "B"), "B")
    # Ann's B is her first B, though her A was before.
    assert entered(firsts, either, FIRST_TIME, **firsts.period(199, 300)) == 1


def test_a_later_step_may_be_a_first_time(firsts: Scene) -> None:
    firsts.story("250/A 260/B", visitor="ann")
    funnel_id = funnel(firsts, "A", step("B", filters=[FIRST_TIME]))
    assert firsts.counts(funnel_id, **firsts.period(50, 200)) == [2, 2]
    assert firsts.counts(funnel_id, **firsts.period(210, 300)) == [1, 0]


def test_the_first_time_is_of_the_canonical_visitor(firsts: Scene) -> None:
    funnel_id = funnel(firsts, FIRST_A, "B")
    assert firsts.counts(funnel_id) == [2, 2]
    identify(firsts, "u", "bob")
    identify(firsts, "u", "ann")  # Bob and Ann are one visitor, whose first A is Ann's at 0.
    assert firsts.counts(funnel_id) == [1, 1]
    assert firsts.counts(funnel_id, **firsts.period(50, 300)) == [0, 0]


def test_of_events_at_the_same_time_the_first_that_arrived_is_the_first(scene: Scene) -> None:
    scene.story("0/A 0/A", plan="x")
    scene.story("0/A", plan="y")
    funnel_id = funnel(scene, FIRST_A, "B", breakdownProperties=["plan"])
    events = scene.trace(funnel_id, "ann")["events"]
    assert column(events, "decision") == ["entry", "noMatch", "noMatch"]


def test_an_older_event_that_arrives_late_takes_the_first_time(firsts: Scene) -> None:
    funnel_id = funnel(firsts, FIRST_A, "B")
    times = firsts.period(140, 300)
    assert firsts.counts(funnel_id, **times) == [1, 1]
    firsts.story("10/A", visitor="bob")
    assert firsts.counts(funnel_id, **times) == [0, 0]


def test_events_after_the_evaluation_and_on_other_websites_are_not_read(firsts: Scene) -> None:
    funnel_id = funnel(firsts, FIRST_A, "B")
    other = firsts.website("Blog")
    body = {"websiteId": other, "events": [firsts.item(-50, "A", "bob")]}
    firsts.client.post("/api/track", json=body)
    assert firsts.counts(funnel_id, websiteId=firsts.tenant.website_id) == [2, 2]


@cases(
    ("condition", "fault"),
    [
        (is_(FIRST, "yes"), "filters[0].value operator_not_allowed"),
        (is_(FIRST, "tr", "contains"), "filters[0].value operator_not_allowed"),
        (where(FIRST, "is_set"), "filters[0].value operator_not_allowed"),
        (is_("$trait.", "x"), "filters[0].property too_short"),
        (is_("$trait." + "x" * 194, "x"), "filters[0].property too_long"),
        (is_("$traits.plan", "x"), "filters[0].property unknown_builtin"),
    ],
)
def test_a_wrong_filter_is_refused(scene: Scene, condition: Filter, fault: str) -> None:
    body = {"name": "x", "steps": [step("A", filters=[condition]), step("B")]}
    assert faults(scene.client.post("/api/funnels", json=body)) == [f"steps[0].{fault}"]


def test_first_times_cost_so_much_that_their_number_is_limited(scene: Scene) -> None:
    funnel_id = scene.funnel(step("A", *"BCDEFGHIJK"), "Z")
    answer = scene.request(funnel_id, "results", filters=[FIRST_TIME])
    assert faults(answer, 400) == ["filters too_costly"]


def test_a_first_time_is_no_breakdown(scene: Scene) -> None:
    body = {"name": "x", "steps": [step("A"), step("B")], "breakdownProperties": [FIRST]}
    answer = scene.client.post("/api/funnels", json=body)
    assert faults(answer) == ["breakdownProperties[0] builtin_not_allowed"]
    answer = scene.request(scene.funnel("A", "B"), "results", breakdown=FIRST)
    assert answer.status_code == 400


REPORTS: dict[str, Json] = {
    "results": {},
    "trend": {"interval": "day"},
    "timing": {},
    "units": {},
    "next": {"step": 1},
    "export": {"format": "csv"},
    "drivers": {"step": 1},
    "flows": {"where": "before"},
    "verdict": {},
    "compare": {"property": PLAN},
}


@cases(
    "report",
    full_except(
        ("results", "units", "next", "export"), REPORTS, "every report reads the same relations"
    ),
)
def test_every_report_reads_what_is_known_of_visitors(plans: Scene, report: str) -> None:
    untouched = {"property": "$first_utm_source", "operator": "is_not_set"}
    conditions = [is_(PLAN, "pro"), FIRST_TIME, untouched]
    funnel_id = funnel(plans, step("A", filters=conditions), "B", breakdownProperties=[PLAN])
    query = {**REPORTS[report], **plans.period(-10, 100), "filters": conditions}
    answer = plans.request(funnel_id, report, **query)
    assert answer.status_code == 200, answer.text


def test_internal_traffic_may_name_a_trait_but_no_first_time(plans: Scene) -> None:
    url = "/api/settings/internal-traffic"
    refused = plans.tenant.browser.put(url, json={"filters": [FIRST_TIME]})
    assert faults(refused) == ["filters[0].property builtin_not_allowed"]
    answer = plans.tenant.browser.put(url, json={"filters": [is_(PLAN, "pro")]})
    assert answer.status_code == 200, answer.text
    assert entered(plans, funnel(plans, "A", "B")) == 2
