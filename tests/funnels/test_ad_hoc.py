"""Questions without saving, over HTTP: breakdown, filters, window and settled units."""

import json
from typing import Any

import pytest

from penstock.funnels.definitions.cost import MAX_COST
from tests.cases import cases, full_except
from tests.conftest import ShiftedClock
from tests.funnels.answers import faults, fields
from tests.funnels.scenario import DAY_S, HOUR_S, Json, Scene, by_cohort, outcome, pick, step, where
from tests.tenant import Tenant

pytestmark = pytest.mark.usefixtures("warehouse")

PRO = where("plan", value="pro")
DAILY = {"conversionWindowSeconds": DAY_S}
MORE_WINDOWS = pytest.mark.full("more windows")
EVERY_KIND = ("results", "trend", "timing", "next", "compare", "units", "units/pro", "explain")


@pytest.fixture
def scene(workspace: Tenant, clock: ShiftedClock) -> Scene:
    scene = Scene(workspace, clock)
    scene.story("0/A", attempt="pro", plan="pro", country="DE")
    scene.story("600/B", attempt="pro", plan="basic", country="DE")
    scene.story("60/A 7200/B", attempt="late", plan="pro", country="FR")
    scene.story("120/A 180/B", attempt="basic", plan="basic", country="DE")
    scene.story("240/A", attempt="lost", plan="basic", country="FR")
    return scene


@pytest.fixture
def funnel_id(scene: Scene) -> str:
    return scene.attempts("A", "B", conversionWindowSeconds=86_400, breakdownProperties=["plan"])


NEEDED: dict[str, Json] = {"compare": {"property": "plan"}, "next": {"step": 1}}
"""Parameters that a report needs."""


def ask(scene: Scene, funnel_id: str, what: str = "results", **query: Any) -> Json:
    return scene.report(funnel_id, what, **{**NEEDED.get(what, {}), **query})


def refused(scene: Scene, funnel_id: str, what: str = "results", **query: Any) -> list[str]:
    """Return the fields and codes of the faults."""
    answer = scene.request(funnel_id, what, **{**NEEDED.get(what, {}), **query})
    return faults(answer, 400)


# -- Breakdown -----------------------------------------------------------------------------------


def test_breakdown_replaces_the_saved_properties(scene: Scene, funnel_id: str) -> None:
    report = ask(scene, funnel_id, breakdown="country")
    assert by_cohort(report, "country") == {"DE": 2, "FR": 2}
    assert set(report["dataQuality"]["unknownEntryValues"]) == {"country"}
    both = ask(scene, funnel_id, breakdown="country,plan")
    assert by_cohort(both, "country", "plan") == {
        ("DE", "pro"): 1,
        ("DE", "basic"): 1,
        ("FR", "pro"): 1,
        ("FR", "basic"): 1,
    }


def test_an_empty_breakdown_means_none(scene: Scene, funnel_id: str) -> None:
    report = ask(scene, funnel_id, breakdown="")
    [cohort] = report["cohorts"]["data"]
    assert (cohort["cohort"], cohort["entered"]) == ({}, 4)
    assert report["asked"]["breakdown"] == []


def test_a_key_with_a_comma_stands_in_quotes(scene: Scene, funnel_id: str) -> None:
    scene.send_event(300, "A", attempt="c", **{"a, b": "x"})
    report = ask(scene, funnel_id, breakdown='"a, b",plan')
    assert report["asked"]["breakdown"] == ["a, b", "plan"]
    assert by_cohort(report, "a, b", "plan")["x", None] == 1


def test_the_cohort_filter_reads_the_breakdown_of_the_question(
    scene: Scene, funnel_id: str
) -> None:
    report = ask(scene, funnel_id, breakdown="country", cohort={"country": "DE"})
    assert report["aggregate"]["entered"] == 2
    answer = scene.request(funnel_id, "results", breakdown="country", cohort={"plan": "pro"})
    assert fields(answer, 422) == ["cohort.plan"]


def test_compare_takes_a_property_of_the_breakdown(scene: Scene, funnel_id: str) -> None:
    record = ask(scene, funnel_id, "compare", breakdown="country", property="country")
    entered = {row["label"]["country"]: row["entered"] for row in record["cohorts"]}
    assert entered == {"DE": 2, "FR": 2}
    query = {"breakdown": "country", "property": "plan"}
    assert refused(scene, funnel_id, "compare", **query) == ["property not_a_breakdown"]


@cases(
    ("breakdown", "code"),
    [
        ("a,b,c,d", "too_many"),
        ("plan,plan", "repeated"),
        ("$nothing", "unknown_builtin"),
        ("plan,", "too_short"),
        ("k" * 201, "too_long"),
        ('"plan', "not_a_list"),
        ("a\x00b", "control_character"),
    ],
)
def test_a_breakdown_that_cannot_be_saved_cannot_be_asked(
    scene: Scene, funnel_id: str, breakdown: str, code: str
) -> None:
    assert refused(scene, funnel_id, breakdown=breakdown) == [f"breakdown {code}"]


# -- Window --------------------------------------------------------------------------------------


@cases(
    ("window", "completed"),
    [
        ("1m", 1),
        ("2h", 3),
        pytest.param("10m", 2, marks=MORE_WINDOWS),
        pytest.param("1h", 2, marks=MORE_WINDOWS),
        pytest.param("366d", 3, marks=MORE_WINDOWS),
    ],
)
def test_a_window_replaces_the_saved_one(
    scene: Scene, funnel_id: str, window: str, completed: int
) -> None:
    report = ask(scene, funnel_id, window=window)
    assert report["aggregate"]["completed"] == completed
    assert report["asked"]["window"] == window


def test_a_window_may_be_asked_of_a_funnel_without_one(scene: Scene) -> None:
    funnel_id = scene.funnel("A", "B")
    assert ask(scene, funnel_id)["aggregate"]["droppedOff"] == 0
    total = ask(scene, scene.funnel("A", "none"), window="1h")["aggregate"]
    assert (total["droppedOff"], total["settled"]) == (total["entered"], total["entered"])


@cases("window", ["0m", "367d", "8785h", "1", "1w", "-1d", "1.5h", "", "99999999999999d", "1d "])
def test_a_window_has_one_minute_to_366_days(scene: Scene, funnel_id: str, window: str) -> None:
    assert refused(scene, funnel_id, window=window) == ["window not_a_window"]


# -- Filters -------------------------------------------------------------------------------------


def test_filters_choose_attempts_by_their_entry_and_never_change_progress(
    scene: Scene, funnel_id: str
) -> None:
    """`0/A(pro) 10/B(basic)` with plan = pro has reached 2."""
    report = ask(scene, funnel_id, filters=[PRO])
    assert outcome(report["aggregate"]) == (2, 2, 0, 0)
    assert by_cohort(report, "plan") == {"pro": 2}


def test_a_filter_does_not_let_an_attempt_enter_a_second_time(scene: Scene) -> None:
    scene.story("0/A", attempt="again", plan="basic")
    scene.story("10/A 20/B", attempt="again", plan="pro")
    assert ask(scene, scene.attempts("A", "B"), filters=[PRO])["aggregate"]["entered"] == 2


def test_filters_limit_the_entries_of_a_visitor(scene: Scene) -> None:
    """`0/A(basic) 10/A(pro) 20/B` enters at 10."""
    scene.story("0/look", visitor="vic", plan="basic")
    scene.story("10/look", visitor="vic", plan="pro")
    scene.story("20/buy", visitor="vic", plan="basic")
    scene.story("0/look 5/buy", visitor="other", plan="basic")
    funnel_id = scene.funnel("look", "buy", conversionWindowSeconds=3600)
    assert ask(scene, funnel_id)["aggregate"]["entered"] == 2
    [unit] = ask(scene, funnel_id, "units", filters=[PRO])["data"]
    assert (unit["unit"], unit["entryAt"], unit["reached"]) == ("vic", scene.at(10), 2)


def test_all_filters_must_hold_and_may_name_fields_that_the_funnel_does_not_read(
    scene: Scene, funnel_id: str
) -> None:
    french = where("country", value="FR")
    assert ask(scene, funnel_id, filters=[PRO, french])["aggregate"]["entered"] == 1
    unset = where("coupon", "is_not_set")
    report = ask(scene, funnel_id, filters=[unset])
    assert report["aggregate"]["entered"] == 4
    assert report["asked"]["filters"] == [{**unset, "value": ""}]


def test_filters_read_touches_of_the_entry(scene: Scene) -> None:
    scene.track([{**scene.item(0, "look", "tom"), "utmSource": "mail"}])
    scene.send_event(5, "A", "tom")
    scene.send_event(6, "A", "sue")
    funnel_id = scene.funnel("A", "B", conversionWindowSeconds=3600)
    assert scene.names(funnel_id, filters=[where("$first_utm_source", value="mail")]) == ["tom"]


def test_a_trace_says_why_a_filter_leaves_a_unit_out(scene: Scene, funnel_id: str) -> None:
    answer = ask(scene, funnel_id, "units/basic", filters=[PRO])
    assert not answer["selected"]
    assert answer["summary"].endswith("The entry does not pass the filters of the request.")
    assert ask(scene, funnel_id, "units/pro", filters=[PRO])["selected"]


def test_an_explanation_says_that_an_entry_does_not_pass_the_filters(scene: Scene) -> None:
    scene.story("0/look", visitor="vic", plan="basic")
    scene.story("10/look 20/buy", visitor="vic", plan="pro")
    funnel_id = scene.funnel("look", "buy", conversionWindowSeconds=3600)
    answer = ask(scene, funnel_id, "units/vic", filters=[PRO])
    first, *_ = answer["events"]
    assert first["explanation"] == ("Matches step 1, but does not pass the filters of the request.")
    explained = ask(scene, funnel_id, "explain", filters=[PRO], eventId=first["eventId"])
    assert (explained["counts"], explained["decision"]) == (False, "noMatch")


@cases(
    ("filters", "fault"),
    [
        ("plan", "filters not_a_list"),
        ('{"plan": 1}', "filters not_a_list"),
        ("[" * 5000, "filters not_a_list"),
        ([{"property": "plan", "operator": "is"}], "filters[0].operator not_one_of"),
        ([{**PRO, "property": "$nothing"}], "filters[0].property unknown_builtin"),
        ([PRO, {**PRO, "operator": "between"}], "filters[1].value bad_list"),
        ([{**PRO, "more": 1}], "filters[0].more unknown_field"),
        ([PRO] * 21, "filters too_many"),
        ([{**PRO, "operator": "matches_regex", "value": "("}], "filters[0].value bad_regex"),
    ],
)
def test_filters_follow_the_rules_of_saved_filters(
    scene: Scene, funnel_id: str, filters: Any, fault: str
) -> None:
    assert fault in refused(scene, funnel_id, filters=filters)


def test_the_filters_of_a_question_cost_as_much_as_saved_ones(scene: Scene) -> None:
    filters = [where("at", "after", "2024-01-01")] * 20
    funnel_id = scene.attempts(*(step(name, filters=filters) for name in "ABC"))
    answer = scene.request(funnel_id, "results", filters=filters)
    assert faults(answer, 400) == ["filters too_costly"]
    assert f"the limit is {MAX_COST}" in answer.json()["detail"]


# -- Settled units -------------------------------------------------------------------------------


@pytest.fixture
def running(workspace: Tenant, clock: ShiftedClock) -> Scene:
    """Two attempts whose window of a day is over, and two that entered an hour ago."""
    scene = Scene(workspace, clock, ago_s=2 * DAY_S)
    now = 2 * DAY_S - HOUR_S
    scene.story("0/A 60/B", attempt="won", plan="pro")
    scene.story("0/A", attempt="lost", plan="pro")
    scene.story(f"{now}/A {now + 60}/B", attempt="early", plan="basic")
    scene.story(f"{now}/A", attempt="open", plan="basic")
    return scene


def test_settled_counts_only_units_whose_window_is_over(running: Scene) -> None:
    funnel_id = running.attempts("A", "B", **DAILY, breakdownProperties=["plan"])
    everything = ask(running, funnel_id)["aggregate"]
    report = ask(running, funnel_id, settled="true")
    total = report["aggregate"]
    assert outcome(total) == (2, 1, 0, 1)
    assert total["entered"] == everything["settled"] == total["settled"]
    assert total["conversionRate"] == everything["settledRate"]
    assert report["coverage"]["openWindows"] == 0
    assert by_cohort(report, "plan") == {"pro": 2}
    assert set(running.names(funnel_id, settled="true")) == {"won", "lost"}
    trace = ask(running, funnel_id, "units/early", settled="true")
    assert not trace["selected"]
    assert trace["summary"].endswith(
        "It is not settled: the request leaves out units whose window is open."
    )


def test_the_entry_that_leads_furthest_decides_whether_a_visitor_is_settled(
    workspace: Tenant, clock: ShiftedClock
) -> None:
    scene = Scene(workspace, clock, ago_s=2 * DAY_S)
    now = 2 * DAY_S - HOUR_S
    scene.story(f"0/A {now}/A {now + 60}/B", visitor="vic")
    scene.story(f"0/A 10/B {now}/A", visitor="wim")
    funnel_id = scene.funnel("A", "B", conversionWindowSeconds=86_400)
    everything = ask(scene, funnel_id)["aggregate"]
    total = ask(scene, funnel_id, settled="true")["aggregate"]
    assert pick(everything, "entered", "settled") == (2, 1)
    assert outcome(total) == (1, 1, 0, 0)


def test_units_without_a_window_never_settle(scene: Scene) -> None:
    funnel_id = scene.funnel("A", "B")
    assert refused(scene, funnel_id, settled="true") == ["settled needs_window"]
    assert ask(scene, funnel_id, settled="true", window="1h")["aggregate"]["settled"] == 1


def test_units_settle_while_a_result_is_cached(running: Scene, clock: ShiftedClock) -> None:
    funnel_id = running.attempts("A", "B", conversionWindowSeconds=86_400)
    assert ask(running, funnel_id, settled="true")["aggregate"]["entered"] == 2
    clock.ahead_ms += DAY_S * 1000
    assert ask(running, funnel_id, settled="true")["aggregate"]["entered"] == 4


# -- All kinds of answers ------------------------------------------------------------------------


@cases(
    "what",
    full_except(
        ("results", "compare", "units"), EVERY_KIND, "every answer writes the question in one way"
    ),
)
def test_every_answer_says_what_was_asked(scene: Scene, funnel_id: str, what: str) -> None:
    event_id = ask(scene, funnel_id, "units/pro")["events"][0]["eventId"]
    more = {"explain": {"eventId": event_id}, "compare": {"property": "country"}}.get(what, {})
    breakdown = {"breakdown": "country"} if what == "compare" else {}
    little = {
        "breakdown": ["country"],
        "breakdownAt": None,
        "filters": None,
        "window": None,
        "settled": False,
        "segment": None,
        "internalTraffic": None,
    }
    report = ask(scene, funnel_id, what, **more, **breakdown)
    assert report["asked"] == (little if breakdown else None)
    question = {"breakdown": "country", "window": "12h", "settled": "true", "filters": [PRO]}
    much = {**little, "filters": [PRO], "window": "12h", "settled": True}
    assert ask(scene, funnel_id, what, **more, **question)["asked"] == much


def test_every_kind_of_answer_counts_the_same_units(scene: Scene, funnel_id: str) -> None:
    question = {"filters": [PRO], "window": "1h", "settled": "true", "breakdown": "country"}
    report = ask(scene, funnel_id, **question)
    assert outcome(report["aggregate"]) == (2, 1, 0, 1)
    trend = ask(scene, funnel_id, "trend", **question)["data"]
    assert sum(bucket["entered"] for bucket in trend) == 2
    assert ask(scene, funnel_id, "timing", **question)["overall"]["units"] == 1
    assert ask(scene, funnel_id, "next", **question)["stopped"] == 1
    assert ask(scene, funnel_id, "units", **question)["total"] == 2
    compared = ask(scene, funnel_id, "compare", property="country", **question)["cohorts"]
    assert {row["label"]["country"]: row["completed"] for row in compared} == {"DE": 1, "FR": 0}


def test_an_export_counts_the_same_and_says_what_was_asked(scene: Scene, funnel_id: str) -> None:
    query = {"filters": [PRO], "window": "1h", "breakdown": "country"}
    total, *cohorts = scene.table(funnel_id, "export", **query)
    assert pick(total, "entered", "completed", "asked_window") == ("2", "1", "1h")
    assert json.loads(total["asked_filters"]) == [PRO]
    assert json.loads(total["asked_breakdown"]) == ["country"]
    assert total["asked_settled"] in ("false", "0", "False")
    assert {row["country"] for row in cohorts} == {"DE", "FR"}


def test_a_question_is_not_saved(scene: Scene, funnel_id: str) -> None:
    before = scene.client.get(f"/api/funnels/{funnel_id}").json()
    ask(scene, funnel_id, breakdown="country", window="1h", filters=[PRO])
    assert scene.client.get(f"/api/funnels/{funnel_id}").json() == before
    assert ask(scene, funnel_id)["aggregate"]["entered"] == 4


def test_a_cursor_fits_only_its_question(scene: Scene, funnel_id: str) -> None:
    first = ask(scene, funnel_id, "units", filters=[PRO], pageSize=1)
    cursor = first["nextCursor"]
    assert ask(scene, funnel_id, "units", filters=[PRO], pageSize=1, cursor=cursor)["data"]
    assert refused(scene, funnel_id, "units", pageSize=1, cursor=cursor) == ["cursor does_not_fit"]


def test_a_question_that_does_not_fit_starts_no_job(scene: Scene, funnel_id: str) -> None:
    item = {**PRO, "operator": "matches_regex", "value": "("}
    answer = scene.client.get(
        f"/api/funnels/{funnel_id}/results",
        params={"filters": json.dumps([item])},
        headers={"Prefer": "respond-async"},
    )
    assert answer.status_code == 400, answer.text
