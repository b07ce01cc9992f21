"""Cohorts that are saved from lists of units: lists of visitors, rules, and filters with them."""

import csv
import io
import json
from typing import Any

import pytest

from penstock.funnels.saved_cohorts import model, schema, service
from penstock.funnels.statements import sources
from tests.cases import cases, every_database_in_full_tier, full_except
from tests.conftest import ShiftedClock
from tests.funnels.answers import code, faults, fields
from tests.funnels.scenario import Json, Scene, by_cohort, column, counts, pick, step, where
from tests.tenant import Tenant

pytestmark = pytest.mark.usefixtures("warehouse")

KINDS = ("list", "rule")
lists = pytest.mark.parametrize("kind", full_except(["list"], KINDS, "rules, as lists"))
rules = pytest.mark.parametrize("kind", full_except(["rule"], KINDS, "lists, as rules"))
"""Marks of tests of both kinds: `make test` tries the one that the mark names."""

LOST = {"step": "1", "outcome": "droppedOff"}


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url


@pytest.fixture
def scene(workspace: Tenant, clock: ShiftedClock) -> Scene:
    scene = Scene(workspace, clock)
    scene.story("0/A 10/B 20/C", visitor="ann", plan="pro")
    scene.story("30/A 500/C", visitor="bob", plan="free")
    scene.story("60/A 90/C", visitor="cid", plan="free")
    scene.story("5/C", visitor="dan")
    return scene


@pytest.fixture
def funnel_id(scene: Scene) -> str:
    return scene.funnel("A", "B", conversionWindowSeconds=3600)


@pytest.fixture
def all_c(scene: Scene) -> str:
    """A funnel that every visitor enters."""
    return scene.funnel("C", "D")


def post(scene: Scene, funnel_id: str, **body: Any) -> Any:
    sent = {"name": "Lost", "kind": "list", "funnelId": funnel_id, "parameters": LOST, **body}
    return scene.client.post("/api/cohorts", json=sent)


def results(scene: Scene, funnel_id: str, *filters: Json) -> Any:
    return scene.request(funnel_id, "results", filters=list(filters))


def save(scene: Scene, funnel_id: str, **body: Any) -> Json:
    answer = post(scene, funnel_id, **body)
    assert answer.status_code == 201, answer.text
    record: Json = answer.json()
    return record


def visitors(scene: Scene, cohort_id: str) -> list[str]:
    answer = scene.client.get(f"/api/cohorts/{cohort_id}/visitors")
    assert answer.status_code == 200, answer.text
    return sorted(record["visitorId"] for record in answer.json()["data"])


def in_cohort(cohort_id: str, operator: str = "equals") -> Json:
    return where("$cohort", operator, cohort_id)


def entered(scene: Scene, funnel_id: str, *filters: Json, **query: Any) -> list[str]:
    """Return the visitors that a report with these filters counts."""
    return sorted(scene.names(funnel_id, filters=list(filters), **query))


def fail(*_: object) -> int:
    raise RuntimeError


# -- Lists ---------------------------------------------------------------------------------------


@rules
def test_the_visitors_of_several_runs_are_in_a_cohort_once(scene: Scene, kind: str) -> None:
    scene.story("4000/A 8000/A", visitor="bob")
    every_run = scene.funnel("A", "B", conversionWindowSeconds=3600, repeat=True)
    assert scene.report(every_run, "units", **LOST)["total"] == 4
    cohort = save(scene, every_run, kind=kind)
    assert visitors(scene, cohort["id"]) == ["bob", "cid"]


@pytest.mark.every_database
def test_a_list_has_the_visitors_at_the_time_of_saving(scene: Scene, funnel_id: str) -> None:
    cohort = save(scene, funnel_id)
    saved = pick(cohort, "name", "kind", "funnelId", "parameters")
    assert saved == ("Lost", "list", funnel_id, LOST)
    assert cohort["visitors"] == 2
    scene.story("100/A", visitor="eve")
    assert visitors(scene, cohort["id"]) == ["bob", "cid"]
    assert scene.client.get(f"/api/cohorts/{cohort['id']}").json() == cohort
    assert scene.client.get("/api/cohorts").json()["data"] == [cohort]
    scene.client.delete(f"/api/funnels/{funnel_id}")
    assert visitors(scene, cohort["id"]) == ["bob", "cid"]


@lists
def test_a_cohort_follows_the_filters_and_the_period_of_its_list(
    scene: Scene, funnel_id: str, kind: str
) -> None:
    free = json.dumps([where("plan", value="free")])
    later = scene.period(50, 70)
    for name, parameters, expected in (
        ("free", {"filters": free}, ["bob", "cid"]),
        ("later", {"filters": free, **later}, ["cid"]),
        ("completed", {"outcome": "completed"}, ["ann"]),
        ("sorted", {"sort": "lastActivity", "order": "asc"}, ["ann", "bob", "cid"]),
        ("nobody", {"outcome": "excluded"}, []),
    ):
        cohort = save(scene, funnel_id, name=name, kind=kind, parameters=parameters)
        assert visitors(scene, cohort["id"]) == expected, name


@rules
def test_the_visitors_of_attempts_are_those_of_their_entries(scene: Scene, kind: str) -> None:
    scene.story("0/X", visitor="fay", attempt="1")
    scene.story("9/X 10/Y", visitor="gus", attempt="1")
    scene.story("0/X", visitor="gus", attempt="2")
    scene.story("5/X", visitor="gus", attempt="3")
    scene.story("0/X 1/Y", visitor="hal", attempt="4")
    attempts = scene.attempts("X", "Y")
    completed = save(scene, attempts, kind=kind, parameters={"step": "2"}, name="completed")
    assert visitors(scene, completed["id"]) == ["fay", "hal"]
    lost = save(scene, attempts, kind=kind, name="lost")
    assert visitors(scene, lost["id"]) == ["gus"]
    assert entered(scene, attempts, in_cohort(lost["id"])) == ["2", "3"]


def test_a_list_is_limited(scene: Scene, funnel_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MAX_VISITORS", 1)
    assert code(post(scene, funnel_id), 400) == "cohort_too_large"
    assert scene.client.get("/api/cohorts").json()["total"] == 0
    rule = save(scene, funnel_id, kind="rule")
    answer = results(scene, funnel_id, in_cohort(rule["id"]))
    assert code(answer, 400) == "cohort_too_large"


def test_a_workspace_has_a_maximum_of_cohorts(
    scene: Scene, funnel_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.SavedCohortService, "maximum", 1)
    save(scene, funnel_id)
    assert code(post(scene, funnel_id, name="another"), 409) == "too_many_cohorts"


@pytest.mark.full("the same list in smaller parts")
def test_a_list_is_saved_in_several_transactions(
    scene: Scene, funnel_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_MEMBERS_PER_WRITE", 1)
    assert visitors(scene, save(scene, funnel_id)["id"]) == ["bob", "cid"]


@pytest.mark.full("a failure or a race between two transactions")
def test_a_list_that_cannot_be_saved_leaves_nothing(
    scene: Scene, funnel_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(service.store, "mark_complete", fail)
        assert post(scene, funnel_id).status_code == 500
    assert scene.client.get("/api/cohorts").json()["total"] == 0
    assert save(scene, funnel_id)["visitors"] == 2


# -- Rules ---------------------------------------------------------------------------------------


def test_a_rule_has_the_visitors_at_the_time_of_use(
    scene: Scene, funnel_id: str, all_c: str
) -> None:
    rule = save(scene, funnel_id, kind="rule")
    assert (rule["kind"], rule["visitors"]) == ("rule", None)
    assert visitors(scene, rule["id"]) == ["bob", "cid"]
    assert entered(scene, all_c, in_cohort(rule["id"])) == ["bob", "cid"]
    scene.story("100/A 150/C", visitor="eve")
    scene.send_event(31, "B", visitor="bob")
    assert visitors(scene, rule["id"]) == ["cid", "eve"]
    assert entered(scene, all_c, in_cohort(rule["id"])) == ["cid", "eve"]


def test_a_rule_without_its_funnel_is_an_error_that_names_the_cohort(
    scene: Scene, funnel_id: str, all_c: str
) -> None:
    rule = save(scene, funnel_id, kind="rule")
    scene.client.delete(f"/api/funnels/{funnel_id}")
    for answer in (
        scene.client.get(f"/api/cohorts/{rule['id']}/visitors"),
        results(scene, all_c, in_cohort(rule["id"])),
    ):
        assert code(answer, 400) == "cohort_not_usable"
        assert "The cohort Lost can no longer be evaluated" in answer.json()["detail"]


def test_a_rule_that_names_something_deleted_is_an_error_that_names_the_cohort(
    scene: Scene, funnel_id: str, all_c: str, workspace: Tenant
) -> None:
    body = {"name": "Pro", "filters": [where("plan", value="pro")]}
    segment = scene.client.post("/api/segments", json=body).json()["id"]
    website = scene.website("Old")
    for reason, parameters, path in (
        ("segment", {"segment": segment}, f"/api/segments/{segment}"),
        ("website", {"websiteId": website}, f"/api/settings/websites/{website}"),
    ):
        rule = save(scene, funnel_id, name=f"by {reason}", kind="rule", parameters=parameters)
        assert workspace.browser.delete(path).status_code in (200, 202, 204)
        answer = results(scene, all_c, in_cohort(rule["id"]))
        assert code(answer, 400) == "cohort_not_usable"
        _, _, why = answer.json()["detail"].partition(f"The cohort by {reason} can no longer")
        assert reason in why


def test_a_rule_does_not_depend_on_another_cohort(scene: Scene, funnel_id: str) -> None:
    filters = {"filters": json.dumps([in_cohort(save(scene, funnel_id)["id"])])}
    answer = post(scene, funnel_id, kind="rule", name="nested", parameters=filters)
    assert faults(answer) == ["parameters.filters cohort_of_cohort"]
    nested = save(scene, funnel_id, name="nested", parameters=filters)
    assert visitors(scene, nested["id"]) == ["bob", "cid"]


def test_a_rule_does_not_depend_on_the_count_of_another_tool(scene: Scene, funnel_id: str) -> None:
    """Its reason could name no unit later, which is an error for a list of units."""
    parameters = {"countLike": "mixpanel", "differs": "true"}
    answer = post(scene, funnel_id, kind="rule", name="differs", parameters=parameters)
    assert faults(answer) == ["parameters.differs not_for_type"]
    save(scene, funnel_id, name="differs", parameters=parameters)


# -- Filters -------------------------------------------------------------------------------------


@lists
def test_a_filter_selects_units_by_the_visitor_of_their_entry(
    scene: Scene, funnel_id: str, all_c: str, kind: str
) -> None:
    lost = in_cohort(save(scene, funnel_id, kind=kind)["id"])
    assert entered(scene, all_c, lost) == ["bob", "cid"]
    assert entered(scene, all_c, {**lost, "operator": "not_equals"}) == ["ann", "dan"]
    for other in (where("plan", value="free"), where("$first_time", "is_true")):
        assert entered(scene, all_c, lost, other) == ["bob", "cid"]


@pytest.mark.parametrize(
    "what",
    full_except(
        ("results", "units/bob"),
        ("results", "trend", "timing", "verdict", "units/bob"),
        "every report asks in one way",
    ),
)
def test_any_report_accepts_the_filter(scene: Scene, funnel_id: str, all_c: str, what: str) -> None:
    lost = in_cohort(save(scene, funnel_id)["id"])
    report = scene.report(all_c, what, filters=[lost])
    assert report["asked"]["filters"] == [lost]
    if what == "results":
        assert report["aggregate"]["entered"] == 2
    if what == "units/bob":
        assert report["selected"]


def test_a_trace_says_that_a_unit_is_not_in_the_cohort(
    scene: Scene, funnel_id: str, all_c: str
) -> None:
    trace = scene.trace(all_c, "ann", filters=[in_cohort(save(scene, funnel_id)["id"])])
    assert "does not pass the filters of the request" in json.dumps(trace)


@pytest.mark.full("the same list in smaller parts")
def test_a_large_cohort_is_sent_to_the_engine_in_several_texts(
    scene: Scene, funnel_id: str, all_c: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_KEYS_PER_TEXT", 1)
    lost = in_cohort(save(scene, funnel_id)["id"])
    assert entered(scene, all_c, lost) == ["bob", "cid"]


def test_an_empty_cohort_has_nobody(scene: Scene, funnel_id: str, all_c: str) -> None:
    nobody = in_cohort(save(scene, funnel_id, parameters={"outcome": "excluded"})["id"])
    assert entered(scene, all_c, nobody) == []
    assert len(entered(scene, all_c, {**nobody, "operator": "not_equals"})) == 4


@every_database_in_full_tier
def test_a_merge_moves_a_visitor_of_a_list(scene: Scene, funnel_id: str, all_c: str) -> None:
    cohort = save(scene, funnel_id)
    scene.identify("u1", "new", "bob")
    merged = scene.client.get("/api/visitors/bob").json()["visitorId"]
    listed = scene.client.get(f"/api/cohorts/{cohort['id']}/visitors").json()["data"]
    assert {record["visitorId"]: record["userId"] for record in listed} == {
        merged: "u1",
        "cid": None,
    }
    assert entered(scene, all_c, in_cohort(cohort["id"])) == sorted([merged, "cid"])


@cases(
    ("item", "expected"),
    [
        (in_cohort("coh_unknown"), "filters cohort_not_found"),
        (in_cohort("coh_1", "contains"), "filters[0].value operator_not_allowed"),
        ({"property": "$cohort", "operator": "equals"}, "filters[0].value required"),
    ],
)
def test_an_unsuitable_filter_is_named(
    scene: Scene, funnel_id: str, item: Json, expected: str
) -> None:
    answer = results(scene, funnel_id, item)
    assert faults(answer, 400) == [expected]
    if "cohort_not_found" in expected:
        assert "GET /api/cohorts" in answer.json()["detail"]


def test_few_filters_of_a_request_name_a_cohort(scene: Scene, funnel_id: str) -> None:
    filters = [in_cohort(save(scene, funnel_id)["id"])] * 4
    assert faults(results(scene, funnel_id, *filters), 400) == ["filters too_many"]


# -- Definitions and breakdowns ------------------------------------------------------------------


@lists
def test_a_step_names_a_cohort(scene: Scene, funnel_id: str, kind: str) -> None:
    lost = in_cohort(save(scene, funnel_id, kind=kind)["id"])
    others = {**lost, "operator": "not_equals"}
    assert scene.counts(scene.funnel(step("C", filters=[lost]), "D")) == [2, 0]
    assert sorted(scene.names(scene.funnel(step("C", filters=[others]), "D"))) == ["ann", "dan"]
    assert scene.counts(scene.funnel("A", step("C", filters=[lost]))) == [3, 2]
    or_rows = [{"type": "Event", "value": "C", "filters": [lost]}]
    named_in_or_row = scene.funnel("A", {**step("B"), "or": or_rows})
    assert scene.counts(named_in_or_row) == [3, 3]
    scene.send_event(15, "Z", visitor="ann")
    scene.send_event(80, "Z", visitor="bob")
    excluding = scene.funnel("A", step("Z", filters=[lost], exclude=True), "C")
    assert scene.counts(excluding) == [3, 2]
    assert scene.results(excluding)["aggregate"]["excluded"] == 1


def test_the_documented_example(scene: Scene, funnel_id: str) -> None:
    """Ann 0/A 10/B 20/C, Bob 30/A 500/C, Cid 60/A 90/C; Bob and Cid are in the cohort."""
    cohort_id = save(scene, funnel_id)["id"]
    lost, others = in_cohort(cohort_id), in_cohort(cohort_id, "not_equals")
    by_lost = scene.funnel("A", "C", breakdownProperties=[f"$cohort.{cohort_id}"])
    scene.story("40/A 600/E", visitor="eve")
    assert scene.counts(by_lost) == [4, 3]
    assert scene.counts(scene.funnel("A", step("C", filters=[lost]))) == [4, 2]
    assert scene.counts(scene.funnel(step("A", filters=[others]), "C")) == [2, 1]
    shown = scene.results(by_lost)["cohorts"]["data"]
    figures = [(*each["cohort"].values(), each["entered"], each["completed"]) for each in shown]
    assert figures == [("in", 2, 2), ("out", 2, 1)]


@lists
def test_a_breakdown_divides_units_into_those_in_a_cohort_and_the_others(
    scene: Scene, funnel_id: str, all_c: str, kind: str
) -> None:
    key = f"$cohort.{save(scene, funnel_id, kind=kind)['id']}"
    saved = scene.funnel("C", "D", breakdownProperties=[key])
    for report in (scene.results(saved), scene.results(all_c, breakdown=key)):
        assert by_cohort(report, key) == {"in": 2, "out": 2}
        assert report["dataQuality"]["unknownEntryValues"] == {key: 0}
    with_plan = scene.results(all_c, breakdown=f"{key},plan")
    assert by_cohort(with_plan, key, "plan") == {
        ("in", "free"): 2,
        ("out", "pro"): 1,
        ("out", None): 1,
    }
    assert sorted(scene.names(saved, cohort={key: "in"})) == ["bob", "cid"]
    compared = scene.report(saved, "compare", property=key)
    assert {json.dumps(each["cohort"][key]) for each in compared["cohorts"]} == {'"in"', '"out"'}
    assert key in scene.client.get(f"/api/funnels/{saved}/export").text.splitlines()[0]
    assert scene.trace(saved, "bob")["entryValues"][key]["value"] == "in"


def test_a_breakdown_by_a_cohort_follows_merges(scene: Scene, funnel_id: str, all_c: str) -> None:
    key = f"$cohort.{save(scene, funnel_id)['id']}"
    scene.identify("u1", "new", "bob")
    scene.identify("u1", "dan")
    assert by_cohort(scene.results(all_c, breakdown=key), key) == {"in": 2, "out": 1}


def test_tied_entries_of_visitors_in_and_out_of_a_cohort_are_unknown(
    scene: Scene, funnel_id: str
) -> None:
    cohort_id = save(scene, funnel_id)["id"]
    for visitor in ("ann", "bob"):
        scene.story("700/X", visitor=visitor, attempt="1")
    scene.story("700/X", visitor="bob", attempt="2")
    attempts, key = scene.attempts("X", "Y"), f"$cohort.{cohort_id}"
    report = scene.results(attempts, breakdown=key)
    assert by_cohort(report, key) == {"in": 1, None: 1}
    assert report["dataQuality"]["tiedEntries"] == 1
    assert entered(scene, attempts, in_cohort(cohort_id)) == ["2"]
    assert entered(scene, attempts, in_cohort(cohort_id, "not_equals")) == ["1"]


def test_a_cohort_that_a_funnel_names_is_not_deleted(scene: Scene, funnel_id: str) -> None:
    cohort_id = save(scene, funnel_id)["id"]
    rows: list[Any] = [step("A", filters=[in_cohort(cohort_id)]), "B"]
    for more in ({}, {"breakdownProperties": [f"$cohort.{cohort_id}"]}):
        named = scene.funnel(*(["A", "B"] if more else rows), name="Named", **more)
        answer = scene.client.delete(f"/api/cohorts/{cohort_id}")
        assert code(answer, 409) == "cohort_in_use"
        assert "Named" in answer.json()["detail"]
        plain = {"name": "Named", "steps": [step("A"), step("B")]}
        assert scene.client.put(f"/api/funnels/{named}", json=plain).status_code == 200
    assert scene.client.delete(f"/api/cohorts/{cohort_id}").status_code == 204
    answer = scene.request(named, "results", revision=1)
    assert code(answer, 409) == "cohort_gone"
    assert cohort_id in answer.json()["detail"]


def test_a_definition_names_stored_cohorts_only(scene: Scene, all_c: str) -> None:
    unknown, key = in_cohort("coh_1"), "$cohort.coh_2"
    or_rows = [{"type": "Event", "value": "B", "filters": [unknown]}]
    body = {"name": "f", "steps": [step("A", filters=[unknown]), {**step("B"), "or": or_rows}]}
    for path in ("/api/funnels", "/api/funnels/validate"):
        answer = scene.client.post(path, json={**body, "breakdownProperties": [key]})
        assert faults(answer) == [
            "steps[0].filters[0].value cohort_not_found",
            "steps[1].or[0].filters[0].value cohort_not_found",
            "breakdownProperties[0] cohort_not_found",
        ]
    assert code(scene.client.post("/api/funnels/preview", json=body), 409) == "cohort_gone"
    assert faults(scene.request(all_c, "results", breakdown=key), 400) == [
        "breakdown cohort_not_found"
    ]


def test_a_definition_names_few_cohorts(scene: Scene, funnel_id: str) -> None:
    cohorts = [save(scene, funnel_id, name=str(at))["id"] for at in range(4)]
    filters = [in_cohort(each, "not_equals") for each in cohorts]
    body = {"name": "f", "steps": [step("A", filters=filters), step("B")]}
    assert faults(scene.client.post("/api/funnels", json=body)) == ["steps too_many"]
    saved = scene.funnel(step("A", filters=filters[:3]), step("B", filters=filters[:3]))
    assert scene.counts(saved) == [1, 1]
    assert counts(scene.results(saved, filters=[filters[3]])) == [1, 1]


def test_a_rule_does_not_depend_on_a_funnel_that_names_a_cohort(
    scene: Scene, funnel_id: str, all_c: str
) -> None:
    key = f"$cohort.{save(scene, funnel_id)['id']}"
    named = scene.funnel("A", "B", breakdownProperties=[key], conversionWindowSeconds=3600)
    answer = post(scene, named, kind="rule", name="rule")
    assert faults(answer) == ["funnelId cohort_of_cohort"]
    assert visitors(scene, save(scene, named, name="list")["id"]) == ["bob", "cid"]
    rule = save(scene, all_c, kind="rule", name="rule")
    body = {"name": "f", "steps": [step("C"), step("D")], "breakdownProperties": [key]}
    assert scene.client.put(f"/api/funnels/{all_c}", json=body).status_code == 200
    answer = results(scene, funnel_id, in_cohort(rule["id"]))
    assert code(answer, 400) == "cohort_not_usable"
    assert "a rule cannot depend on another" in answer.json()["detail"]


def test_segments_goals_and_internal_traffic_do_not_name_a_cohort(
    scene: Scene, workspace: Tenant, funnel_id: str
) -> None:
    filters = [in_cohort(save(scene, funnel_id)["id"])]
    answer = scene.client.post("/api/segments", json={"name": "s", "filters": filters})
    assert faults(answer) == ["filters[0].property builtin_not_allowed"]
    assert "the parameter filters of a report" in answer.text
    goal = {"name": "g", "match": {"type": "Event", "value": "A", "filters": filters}}
    answer = scene.client.post("/api/goals", json=goal)
    assert faults(answer) == ["match.filters[0].property builtin_not_allowed"]
    path = "/api/settings/internal-traffic"
    answer = workspace.browser.put(path, json={"filters": filters})
    assert faults(answer) == ["filters[0].property builtin_not_allowed"]


@cases(
    ("key", "expected"),
    [
        ("$cohort", "breakdownProperties[0] too_short"),
        ("$cohort.", "breakdownProperties[0] too_short"),
    ],
)
def test_a_breakdown_names_a_cohort_by_its_id(scene: Scene, key: str, expected: str) -> None:
    body = {"name": "f", "steps": [step("A"), step("B")], "breakdownProperties": [key]}
    assert faults(scene.client.post("/api/funnels", json=body)) == [expected]


def test_a_filter_does_not_name_the_field_of_a_breakdown(scene: Scene, funnel_id: str) -> None:
    item = where("$cohort.coh_1", "equals", "in")
    assert faults(results(scene, funnel_id, item), 400) == [
        "filters[0].property builtin_not_allowed"
    ]


# -- Records -------------------------------------------------------------------------------------


@cases(
    ("body", "expected"),
    [
        ({"kind": "other"}, "kind not_one_of"),
        ({"name": " "}, "name too_short"),
        ({"parameters": {"step": "0"}}, "parameters.step greater_than_equal"),
        ({"parameters": {"pageSize": "5"}}, "parameters.pageSize unknown_field"),
        ({"parameters": {"step": 1}}, "parameters.step wrong_type"),
        ({"parameters": {f"p{n}": "" for n in range(21)}}, "parameters too_many"),
        ({"parameters": {"websiteId": "\0"}}, "parameters nul_character"),
        ({"colour": "red"}, "colour unknown_field"),
    ],
)
def test_an_unsuitable_field_is_named(
    scene: Scene, funnel_id: str, body: Json, expected: str
) -> None:
    assert faults(post(scene, funnel_id, **body)) == [expected]


def test_a_list_of_an_unknown_funnel_or_step_is_not_saved(scene: Scene, funnel_id: str) -> None:
    assert post(scene, "fun_unknown").status_code == 404
    assert fields(post(scene, funnel_id, parameters={"step": "9"})) == ["step"]


@pytest.mark.full("a failure or a race between two transactions")
@every_database_in_full_tier
def test_a_list_whose_deletion_was_interrupted_is_gone(
    scene: Scene, funnel_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_MEMBERS_PER_WRITE", 1)
    monkeypatch.setattr(service, "_ABANDONED_MS", 0)
    cohort = save(scene, funnel_id)
    with monkeypatch.context() as patched:
        patched.setattr(service.store, "remove_members", fail)
        assert scene.client.delete(f"/api/cohorts/{cohort['id']}").status_code == 500
    assert scene.client.get(f"/api/cohorts/{cohort['id']}").status_code == 404
    assert scene.client.get("/api/cohorts").json()["total"] == 0
    assert visitors(scene, save(scene, funnel_id)["id"]) == ["bob", "cid"]


@every_database_in_full_tier
def test_a_cohort_is_renamed_and_deleted(scene: Scene, funnel_id: str, workspace: Tenant) -> None:
    cohort = save(scene, funnel_id)
    path = f"/api/cohorts/{cohort['id']}"
    assert code(post(scene, funnel_id), 409) == "name_taken"
    other = save(scene, funnel_id, name="Other")
    assert code(scene.client.patch(path, json={"name": "Other"}), 409) == "name_taken"
    assert scene.client.patch(path, json={"name": "Gone"}).json()["name"] == "Gone"
    matching = scene.client.get("/api/cohorts", params={"search": "gon"}).json()["data"]
    assert column(matching, "id") == [cohort["id"]]
    assert scene.client.delete(path).status_code == 204
    assert scene.client.get(path).status_code == 404
    assert scene.client.delete(path).status_code == 404
    log = workspace.browser.get("/api/settings/audit-log").json()["data"]
    assert [f"{entry['action']} {entry['target']}" for entry in log[:4]] == [
        f"cohort_deleted {cohort['id']} Gone",
        f"cohort_changed {cohort['id']} Gone",
        f"cohort_created {other['id']} Other",
        f"cohort_created {cohort['id']} Lost",
    ]


@every_database_in_full_tier
@lists
def test_visitors_are_paged_and_exported(
    scene: Scene, funnel_id: str, kind: str, workspace: Tenant
) -> None:
    scene.story("70/A", visitor="=1+1")
    cohort = save(scene, funnel_id, kind=kind)
    path = f"/api/cohorts/{cohort['id']}"
    seen = []
    for number in (1, 2, 3):
        page = scene.client.get(f"{path}/visitors", params={"page": number, "pageSize": 2}).json()
        assert page["total"] == 3
        seen += column(page["data"], "visitorId")
        assert {record["websiteId"] for record in page["data"]} <= {workspace.website_id}
    assert sorted(seen) == ["=1+1", "bob", "cid"]
    answer = scene.client.get(f"{path}/export", params={"format": "csv"})
    assert answer.headers["content-disposition"].endswith('"lost-visitors-all-time.csv"')
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert sorted(row["visitor_id"] for row in rows) == ["'=1+1", "bob", "cid"]
    [entry, *_] = workspace.browser.get("/api/settings/audit-log").json()["data"]
    assert (entry["action"], entry["target"]) == ("exported", f"{cohort['id']} csv")


# -- Personal data -------------------------------------------------------------------------------


@every_database_in_full_tier
def test_a_deleted_person_leaves_every_list(scene: Scene, funnel_id: str, all_c: str) -> None:
    cohort = save(scene, funnel_id)
    other = save(scene, funnel_id, name="All", parameters={})
    deletion = scene.delete(visitorId="bob")
    assert deletion["removed"]["database"]["cohortVisitors"] == 2
    assert visitors(scene, cohort["id"]) == ["cid"]
    assert [
        scene.client.get(f"/api/cohorts/{item['id']}").json()["visitors"]
        for item in (cohort, other)
    ] == [1, 2]

    scene.story("70/C", visitor="bob")
    assert entered(scene, all_c, in_cohort(cohort["id"])) == ["cid"]


@pytest.mark.full("a failure or a race between two transactions")
@every_database_in_full_tier
def test_a_person_who_was_deleted_is_not_saved(
    scene: Scene, funnel_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The visitors are read from the event store before they are saved."""
    add = service.store.add_members

    def delete_first(*args: Any) -> int:
        args[0].exec_driver_sql("DELETE FROM visitors WHERE visitor_id = 'bob'")
        return add(*args)

    monkeypatch.setattr(service.store, "add_members", delete_first)
    cohort = save(scene, funnel_id)
    assert (cohort["visitors"], visitors(scene, cohort["id"])) == (1, ["cid"])


@every_database_in_full_tier
def test_an_export_of_a_person_names_the_lists(scene: Scene, funnel_id: str) -> None:
    cohort = save(scene, funnel_id)
    for visitor, expected in (("bob", [{"cohortId": cohort["id"], "name": "Lost"}]), ("ann", [])):
        query = {"websiteId": scene.tenant.website_id, "visitorId": visitor}
        lines = scene.client.get("/api/personal-data", params=query).text.splitlines()
        records = [json.loads(line) for line in lines]
        assert [item["data"] for item in records if item["type"] == "cohort"] == expected
    assert model.MAX_VISITORS == 100_000


# -- Named visitors ------------------------------------------------------------------------------


@every_database_in_full_tier
def test_a_list_has_the_visitors_that_are_named_and_stored(
    scene: Scene, funnel_id: str, all_c: str
) -> None:
    named = {scene.tenant.website_id: ["ann", "dan", "nobody", "ann"]}
    cohort = save(scene, funnel_id, visitors=named)
    assert cohort["visitors"] == 2
    assert visitors(scene, cohort["id"]) == ["ann", "dan"]
    report = scene.results(all_c, filters=[in_cohort(cohort["id"])])
    assert report["aggregate"]["entered"] == 2


def test_visitors_are_named_for_own_websites_and_only_in_a_list(
    scene: Scene, funnel_id: str, monkeypatch: pytest.MonkeyPatch, other_workspace: Tenant
) -> None:
    monkeypatch.setattr(schema, "MAX_VISITORS", 2)
    website_id = scene.tenant.website_id
    for kind, named, fault in (
        ("rule", {website_id: ["ann"]}, "not_for_type"),
        ("list", {website_id: ["a", "b"], "web_other": ["c"]}, "too_many"),
        ("list", {website_id: ["a\0"]}, "nul_character"),
        ("list", {website_id: [7]}, "wrong_type"),
    ):
        first, *_ = faults(post(scene, funnel_id, kind=kind, visitors=named))
        assert first.endswith(f" {fault}")
    answer = post(scene, funnel_id, visitors={other_workspace.website_id: ["ann"]})
    assert answer.status_code == 401
    assert scene.client.get("/api/cohorts").json()["total"] == 0
