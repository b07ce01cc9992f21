"""Lists of the units behind a number, traces and explanations, over HTTP."""

from base64 import urlsafe_b64encode
from dataclasses import replace
from itertools import count
from typing import Any
from urllib.parse import quote

import pytest

from penstock.funnels.queries import engine
from penstock.funnels.units import export as unit_export
from penstock.funnels.units import trace_reader
from penstock.warehouse.client import Warehouse
from tests.cases import cases, full_except
from tests.conftest import ShiftedClock
from tests.funnels import reference
from tests.funnels.answers import code, faults, fields
from tests.funnels.scenario import DAY_S, EVENT, Json, Scene, column, pick, step
from tests.funnels.seed import store
from tests.tenant import Tenant

pytestmark = pytest.mark.usefixtures("warehouse")


def decisions(answer: Json) -> list[str]:
    return [f"{event['name']} {event['decision']}" for event in answer["events"]]


NEWEST_FIRST = ["changed", "tied", "skipped", "stuck", "half", "done"]


@pytest.fixture
def shop(scene: Scene) -> Scene:
    scene.story("0/A 10/B 20/C", attempt="done", plan="pro")
    scene.story("60/A 70/B", attempt="half", plan="free")
    scene.story("120/A 130/oops 131/oops", attempt="stuck", plan="free")
    scene.story("180/A(5) 190/B(4)", attempt="skipped")
    scene.story("240/A(1) 240/B", attempt="tied", visitor="bob", plan=1)
    scene.send_event(250, "B", visitor="cid", attempt="tied", plan="1")
    scene.story("300/A 305/B", attempt="changed", plan="x")
    scene.story("310/C", attempt="changed", plan="y")
    return scene


@pytest.fixture
def funnel_id(shop: Scene) -> str:
    oops = step("oops", diagnostic=True)
    return shop.attempts("A", oops, step("B", "B2"), "C", breakdownProperties=["plan"])


def test_units_are_sorted_by_newest_entry(shop: Scene, funnel_id: str) -> None:
    page = shop.report(funnel_id, "units")
    assert column(page["data"], "unit") == NEWEST_FIRST
    head = pick(page, "total", "nextCursor", "funnelId", "definitionRevision")
    assert head == (6, None, funnel_id, 1)
    assert page["data"][-1] == {
        "unit": "done",
        "userId": None,
        "person": None,
        "entryAt": shop.at(0),
        "windowEndsAt": shop.at(3600),
        "reached": 3,
        "outcome": "completed",
        "completedAt": shop.at(20),
        "excludedAt": None,
        "lastActivityAt": shop.at(20),
        "cohort": {"plan": "pro"},
        "sequenceSkips": 0,
        "unorderedTies": 0,
        "assumedOrder": 0,
        "invalidSequenceValues": 0,
        "tiedEntry": False,
        "conflictingEntryValues": [],
        "severalVisitors": False,
        "coarseTimes": 0,
    }


@cases(
    ("query", "expected"),
    [
        ({"step": 1}, {"changed", "tied", "skipped", "stuck", "half", "done"}),
        ({"step": 2}, {"changed", "tied", "half", "done"}),
        ({"step": 2, "option": 0}, {"changed", "tied", "half", "done"}),
        ({"step": 2, "option": 1}, set()),
        ({"step": 3}, {"changed", "done"}),
        ({"step": 2, "outcome": "droppedOff"}, {"tied", "half"}),
        ({"outcome": "completed"}, {"changed", "done"}),
        ({"outcome": "pending"}, set()),
        ({"step": "1,2", "outcome": "droppedOff"}, {"skipped", "stuck", "tied", "half"}),
        ({"step": "2,3", "outcome": "pending,droppedOff"}, {"tied", "half"}),
        ({"step": 2, "outcome": "completed,droppedOff"}, {"tied", "half", "changed", "done"}),
        ({"step": "2,3"}, {"changed", "tied", "half", "done"}),
        ({"diagnostic": 1}, {"stuck"}),
        ({"quality": "sequenceSkip"}, {"skipped"}),
        ({"quality": "unorderedTie"}, {"tied"}),
        ({"quality": "orderingIssue"}, {"skipped", "tied"}),
        ({"quality": "unknownEntryValue"}, {"skipped"}),
        ({"quality": "conflict", "property": "plan"}, {"changed", "tied"}),
        ({"quality": "severalVisitors"}, {"tied"}),
        ({"quality": "tiedEntry"}, set()),
        ({"cohort": {"plan": "free"}, "step": 2}, {"half"}),
        ({"cohort": {"plan": 1}}, {"tied"}),
        ({"cohort": {"plan": None}}, {"skipped"}),
    ],
)
def test_units_behind_each_number(
    shop: Scene, funnel_id: str, query: dict[str, Any], expected: set[str]
) -> None:
    assert set(shop.names(funnel_id, **query)) == expected


def test_a_list_of_several_steps_and_outcomes_is_a_file_and_a_cohort_too(
    shop: Scene, funnel_id: str
) -> None:
    query = {"step": "1,2", "outcome": "pending,droppedOff"}
    assert set(column(export(shop, funnel_id, **query), "unit")) == {
        *shop.names(funnel_id, step=1, outcome="droppedOff"),
        *shop.names(funnel_id, step=2, outcome="droppedOff"),
    }
    body = {"name": "Lost", "kind": "rule", "funnelId": funnel_id, "parameters": query}
    assert shop.client.post("/api/cohorts", json=body).status_code == 201


def test_each_number_of_a_report_has_that_many_units_behind_it(shop: Scene, funnel_id: str) -> None:
    report = shop.results(funnel_id)
    quality, [diagnostic] = report["dataQuality"], report["aggregate"]["diagnostics"]

    def total(**query: Any) -> Any:
        return shop.report(funnel_id, "units", **query)["total"]

    for number in report["aggregate"]["steps"]:
        assert total(step=number["step"]) == number["count"]
        assert total(step=number["step"], outcome="droppedOff") == number["droppedOff"]
    assert total(diagnostic=diagnostic["row"]) == diagnostic["units"] == 1
    skips = shop.report(funnel_id, "units", quality="sequenceSkip")["data"]
    assert sum(unit["sequenceSkips"] for unit in skips) == quality["sequenceSkips"] == 1
    assert total(quality="orderingIssue") == quality["unitsWithOrderingIssues"]
    assert total(quality="conflict") == quality["conflictingEntryValues"]["plan"]


def test_pages_have_no_gaps_and_one_evaluation_time(
    shop: Scene, funnel_id: str, clock: ShiftedClock
) -> None:
    seen: list[str] = []
    evaluation_times = set()
    for page in shop.pages(funnel_id, pageSize=4):
        seen += column(page["data"], "unit")
        evaluation_times.add(page["evaluatedAt"])
        clock.ahead_ms += 5_000
        shop.story("400/A", attempt="newer than all, told between two pages")
    assert seen == NEWEST_FIRST
    assert len(evaluation_times) == 1


def test_a_cursor_is_valid_only_for_its_own_query(shop: Scene, funnel_id: str) -> None:
    cursor = shop.report(funnel_id, "units", pageSize=2)["nextCursor"]
    other = shop.attempts("A", "C")
    assert shop.report(funnel_id, "units", pageSize=3, cursor=cursor)["data"]
    forged_cursor = urlsafe_b64encode(b"[0,4102444800000,4102444800000,5]").decode()
    for funnel, query in (
        (funnel_id, {"step": 2, "cursor": cursor}),
        (other, {"cursor": cursor}),
        (funnel_id, {"cursor": forged_cursor}),
    ):
        assert fields(shop.request(funnel, "units", **query)) == ["cursor"]


MORE_ORDERS = pytest.mark.full("pages and files in all orders")
EVERY_ORDER = [
    ({}, NEWEST_FIRST),
    ({"order": "asc"}, NEWEST_FIRST[::-1]),
    ({"sort": "completion", "outcome": "completed"}, ["changed", "done"]),
    ({"sort": "completion", "outcome": "completed", "order": "asc"}, ["done", "changed"]),
    ({"sort": "lastActivity"}, ["done", "changed", "tied", "skipped", "stuck", "half"]),
    ({"sort": "lastActivity", "order": "asc"}, [*NEWEST_FIRST[-2:0:-1], "changed", "done"]),
]


@cases(
    ("query", "expected"),
    [
        EVERY_ORDER[0],
        EVERY_ORDER[-1],
        *(pytest.param(*case, marks=MORE_ORDERS) for case in EVERY_ORDER[1:-1]),
    ],
)
def test_units_are_sorted_by_a_time_on_all_pages(
    shop: Scene, funnel_id: str, query: dict[str, Any], expected: list[str]
) -> None:
    shop.story("700/other", attempt="done")
    pages = shop.pages(funnel_id, pageSize=2, **query)
    assert [unit["unit"] for page in pages for unit in page["data"]] == expected


def test_units_without_the_time_that_sorts_come_last(shop: Scene, funnel_id: str) -> None:
    for order, first in (("desc", ["changed", "done"]), ("asc", ["done", "changed"])):
        listed = shop.names(funnel_id, sort="completion", order=order)
        assert (listed[:2], len(listed)) == (first, 6)


def test_the_last_activity_of_a_visitor_is_any_event(scene: Scene) -> None:
    scene.story("0/A 10/B 900/other", visitor="ann")
    scene.story("20/A", visitor="bob")
    funnel_id = scene.funnel("A", "B")
    last = {
        unit["unit"]: unit["lastActivityAt"] for unit in scene.report(funnel_id, "units")["data"]
    }
    assert last == {"ann": scene.at(900), "bob": scene.at(20)}
    assert scene.names(funnel_id, sort="lastActivity") == ["ann", "bob"]


def export(scene: Scene, funnel_id: str, **query: Any) -> list[dict[str, str]]:
    return scene.table(funnel_id, "export/units", **query)


@cases(
    ("query", "expected"),
    [
        *EVERY_ORDER[-1:],
        ({"step": 2, "pageSize": 1}, ["changed", "tied", "half", "done"]),
        *(pytest.param(*case, marks=MORE_ORDERS) for case in EVERY_ORDER[:-1]),
    ],
)
def test_a_file_has_the_units_of_the_list(
    shop: Scene, funnel_id: str, query: dict[str, Any], expected: list[str]
) -> None:
    shop.story("700/other", attempt="done")
    assert column(export(shop, funnel_id, **query), "unit") == expected


def test_a_file_has_the_fields_of_the_list(shop: Scene, funnel_id: str) -> None:
    rows = {row["unit"]: row for row in export(shop, funnel_id)}
    assert rows["done"] == {
        "row": "unit",
        "plan": "pro",
        "unit": "done",
        "user_id": "",
        "person": "",
        "entry_at": shop.at(0),
        "window_ends_at": shop.at(3600),
        "reached": "3",
        "outcome": "completed",
        "completed_at": shop.at(20),
        "excluded_at": "",
        "last_activity_at": shop.at(20),
        "sequence_skips": "0",
        "unordered_ties": "0",
        "assumed_order": "0",
        "invalid_sequence_values": "0",
        "tied_entry": "false",
        "conflicting_entry_values": "[]",
        "several_visitors": "false",
        "coarse_times": "0",
    }
    assert rows["changed"]["conflicting_entry_values"] == '["plan"]'
    assert rows["skipped"]["plan"] == "Unknown"


def test_a_file_of_units_cannot_run_formulas(scene: Scene) -> None:
    scene.story("0/A", attempt="=1+1", plan="@SUM(1)")
    funnel_id = scene.attempts("A", "B", breakdownProperties=["plan"])
    [row] = export(scene, funnel_id)
    assert pick(row, "unit", "plan") == ("'=1+1", "'@SUM(1)")


def test_a_file_of_units_is_named_after_the_funnel_and_audited(
    shop: Scene, funnel_id: str, workspace: Tenant
) -> None:
    answer = shop.request(funnel_id, "export/units", format="json", step=3)
    assert column(answer.json(), "unit") == ["changed", "done"]
    assert answer.headers["content-disposition"].endswith('attempts-all-time.json"')
    [entry, *_] = workspace.browser.get("/api/settings/audit-log").json()["data"]
    assert (entry["action"], entry["target"]) == ("exported", f"{funnel_id} units json")


def test_a_list_that_is_too_long_for_a_file_is_refused(
    shop: Scene, funnel_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit_export, "MAX_UNITS", 5)
    assert code(shop.request(funnel_id, "export/units"), 400) == "too_many_units"
    assert len(export(shop, funnel_id, step=2)) == 4


def test_a_large_file_reads_the_names_of_its_units_in_shares(
    shop: Scene, funnel_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit_export, "_UNITS_PER_READ", 4)
    assert column(export(shop, funnel_id), "unit") == NEWEST_FIRST


@cases(
    ("query", "field"),
    [
        ({"step": 4}, "step"),
        ({"step": 0}, "step"),
        ({"option": 0}, "option"),
        ({"step": 2, "option": 2}, "option"),
        ({"outcome": "won"}, "outcome"),
        ({"outcome": "pending,won"}, "outcome"),
        ({"outcome": "pending,"}, "outcome"),
        ({"step": "2,4"}, "step"),
        ({"step": "2;3"}, "step"),
        ({"step": "1,2", "option": 0}, "option"),
        ({"step": "1,2", "eventType": "Event", "eventName": "x"}, "step"),
        ({"diagnostic": 0}, "diagnostic"),
        ({"quality": "bad"}, "quality"),
        ({"property": "plan"}, "property"),
        ({"quality": "conflict", "property": "colour"}, "property"),
        ({"cursor": "x"}, "cursor"),
        ({"cursor": "WzEsMl0"}, "cursor"),
        ({"pageSize": 101}, "pageSize"),
        ({"sort": "name"}, "sort"),
        ({"order": "up"}, "order"),
        ({"startAt": "2025-01-01T00:00:00Z"}, "endAt"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_an_unsuitable_parameter_is_named(
    shop: Scene, funnel_id: str, query: dict[str, Any], field: str
) -> None:
    assert fields(shop.request(funnel_id, "units", **query)) == [field]


def test_units_and_comparisons_have_the_same_code_for_an_unknown_breakdown(
    shop: Scene, funnel_id: str
) -> None:
    for answer in (
        shop.request(funnel_id, "units", quality="conflict", property="colour"),
        shop.request(funnel_id, "compare", property="colour"),
    ):
        assert faults(answer, 400) == ["property not_a_breakdown"]


def test_trace_shows_every_event_in_the_order_read_with_its_decision(
    shop: Scene, funnel_id: str
) -> None:
    answer = shop.trace(funnel_id, "done")
    assert decisions(answer) == ["A entry", "B accepted", "C accepted"]
    figures = pick(answer, "selected", "reached", "outcome", "completedAt")
    assert figures == (True, 3, "completed", shop.at(20))
    assert column(answer["steps"], "at") == [shop.at(0), shop.at(10), shop.at(20)]
    assert answer["visitors"] == ["ann"]
    assert answer["events"][0]["properties"] == {"attempt": "done", "plan": "pro"}
    assert column(answer["events"], "explanation") == [
        f"Completes step 1: the entry. The window lasts until {shop.at(3600)}, inclusive.",
        "Accepted: completes step 2.",
        "Accepted: completes step 3.",
    ]
    entry = answer["events"][0]["eventId"]
    assert answer["entryValues"] == {
        "plan": {"value": "pro", "how": "entryEvent", "eventIds": [entry]}
    }


def test_trace_explains_a_sequence_skip(shop: Scene, funnel_id: str) -> None:
    [_, skipped] = shop.trace(funnel_id, "skipped")["events"]
    assert pick(skipped, "decision", "step", "sequenceNumber") == ("sequenceSkip", 2, 4)
    reason = "Skipped: sequence number 4 is not greater than 5, the last accepted."
    assert skipped["explanation"] == reason


def test_trace_explains_ties_visitors_and_conflicts(shop: Scene, funnel_id: str) -> None:
    answer = shop.trace(funnel_id, "tied")
    assert decisions(answer) == ["A entry", "B unorderedTie", "B accepted"]
    assert answer["events"][1]["explanation"].startswith(
        "Not accepted for step 2: it has the same timestamp as the event that completed step 1"
    )
    assert answer["visitors"] == ["bob", "cid"]
    [conflict] = answer["conflicts"]
    assert pick(conflict, "property", "entryValue", "value") == ("plan", 1, "1")
    assert conflict["eventId"] == answer["events"][2]["eventId"]


def test_trace_shows_diagnostics_and_events_without_a_match(shop: Scene, funnel_id: str) -> None:
    shop.story("125/other 140/A", attempt="stuck")
    answer = shop.trace(funnel_id, "stuck")
    oops = "oops diagnostic"
    assert decisions(answer) == ["A entry", "other noMatch", oops, oops, "A noMatch"]
    assert answer["events"][2]["diagnosticRows"] == [1]
    reason = "Matches step 1, but an attempt enters only once; step 2 was next."
    assert answer["events"][4]["explanation"] == reason
    assert answer["summary"] == (
        f"Entered at {shop.at(120)} and reached step 1 of 3; the window ended at {shop.at(3720)}."
    )


def test_trace_of_events_outside_the_window(scene: Scene) -> None:
    scene.story("0/B 5/A 3606/B 3700/C", attempt="slow")
    answer = scene.trace(scene.attempts("A", "B", "C"), "slow")
    assert decisions(answer) == ["B noMatch", "A entry", "B outsideWindow", "C noMatch"]
    assert answer["events"][0]["explanation"] == "Matches step 2, but it comes before the entry."
    late = f"Matches step 2, but comes after the window, which ended at {scene.at(3605)}."
    assert answer["events"][2]["explanation"] == late


def test_trace_of_a_group_shows_its_parts(scene: Scene) -> None:
    scene.story("0/A 10/C 20/B 30/D", attempt="grouped")
    funnel_id = scene.attempts("A", step("B", "C", mode="all_of"), "D")
    answer = scene.trace(funnel_id, "grouped")
    assert [event["explanation"] for event in answer["events"][1:3]] == [
        "Accepted: fills part 2 of 2 of step 2.", "Accepted: completes step 2.",
    ]  # fmt: skip


def test_trace_of_a_tied_entry_shows_where_its_values_come_from(scene: Scene) -> None:
    scene.send_event(0, "A", attempt="t", plan="x", app=1)
    scene.send_event(0, "A", attempt="t", plan="y", app=1)
    funnel_id = scene.attempts("A", "B", breakdownProperties=["plan", "app", "none"])
    answer = scene.trace(funnel_id, "t")
    sources = {
        name: (entry["value"], entry["how"], len(entry["eventIds"]))
        for name, entry in answer["entryValues"].items()
    }
    assert sources == {
        "plan": (None, "disagreed", 2),
        "app": (1, "agreed", 2),
        "none": (None, "missing", 2),
    }


def test_trace_of_a_unit_that_is_not_in_the_report(scene: Scene) -> None:
    scene.story("0/B", attempt="never")
    scene.story("0/A", attempt="early")
    funnel_id = scene.attempts("A", "B")
    never = scene.trace(funnel_id, "never")
    assert pick(never, "selected", "entryAt", "outcome") == (False, None, None)
    assert never["summary"] == "The attempt never completed step 1, so it is not in the report."
    early = scene.trace(funnel_id, "early", **scene.period(DAY_S, 2 * DAY_S))
    assert pick(early, "selected", "entryAt") == (False, scene.at(0))
    assert early["summary"].endswith("The entry is outside the period.")


def test_trace_of_a_visitor_uses_the_furthest_entry_and_follows_merges(
    scene: Scene,
) -> None:
    scene.story("0/A", visitor="phone", attempt=None)
    scene.story("5000/A 5010/B", visitor="laptop", attempt=None)
    scene.identify("u-1", "laptop", "phone")
    funnel_id = scene.funnel("A", "B", conversionWindowSeconds=3600)
    assert scene.names(funnel_id) == ["laptop"]
    answer = scene.trace(funnel_id, "phone")
    assert pick(answer, "unit", "reached") == ("laptop", 2)
    assert decisions(answer) == ["A noMatch", "A entry", "B accepted"]
    assert answer["events"][0]["explanation"].startswith(
        "Matches step 1, but another entry of this visitor counts"
    )


def test_any_attempt_id_can_be_traced(scene: Scene) -> None:
    attempts = ["a/b", "100%", "a b?c=d&e", "ünï#1", "/lead", "..", "1"]
    for attempt in attempts:
        scene.story("0/A", attempt=attempt)
    funnel_id = scene.attempts("A", "B")
    assert sorted(scene.names(funnel_id)) == sorted(attempts)
    for attempt in attempts:
        path = quote(attempt, safe="").replace(".", "%2E")
        assert scene.trace(funnel_id, path)["unit"] == attempt


def test_a_number_and_its_text_are_one_attempt(scene: Scene) -> None:
    scene.story("0/A", attempt=7)
    scene.story("10/B", attempt="7")
    assert decisions(scene.trace(scene.attempts("A", "B"), "7")) == ["A entry", "B accepted"]


def test_an_unknown_unit_is_404(shop: Scene, funnel_id: str) -> None:
    assert code(shop.request(funnel_id, "units/nobody"), 404) == "unit_not_found"


def test_trace_of_a_unit_with_too_many_events_is_truncated_with_a_note(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_reader, "MAX_EVENTS", 3)
    funnel_id = scene.attempts("A", "B", "C")
    scene.story("0/A 5/oops 10/B 20/B", attempt="three")
    scene.story("0/A 10/B 20/B 30/B 40/C", attempt="many")
    three, many = scene.trace(funnel_id, "three"), scene.trace(funnel_id, "many")
    assert (three["matchingOnly"], three["truncated"], len(three["events"])) == (True, False, 3)
    assert (many["matchingOnly"], many["truncated"]) == (True, True)
    assert decisions(many) == ["A entry", "B accepted", "B noMatch"]
    assert "first 3 events that match the funnel" in many["summary"]
    page = scene.tenant.browser.get(
        f"/funnels/{funnel_id}/units/many",
        headers={"HX-Request": "true", "HX-Target": "timeline"},
    )
    assert "Only the first" in page.text


LONG_UNITS = {
    # story: the events that are not decided when the first three that match are read
    "0/A 1/A 2/A 3/B 4/A 5/X": {3, 4},
    "0/A 1/B 2/B 3/B 4/A": set(),
    "0/A 7000/A 8000/B 9000/B": set(),
    "0/A 1/A 2/A 7000/B": {3},
    "0/B 1/B 2/B 3/A 4/B": {3, 4},
}


@pytest.mark.parametrize(
    "unit", full_except(["attempt"], ("attempt", "visitor"), "the same stories of visitors")
)
def test_an_event_beyond_a_truncated_trace_is_explained_if_the_trace_decides(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, unit: str
) -> None:
    sent: dict[str, list[str]] = {}
    for story in LONG_UNITS:
        sent[story] = []
        for seconds, name, _ in EVENT.findall(story):
            properties = {"attempt": story}
            event = scene.server_event(int(seconds), name, userId=story, properties=properties)
            sent[story].append(event["eventId"])
    definition = {} if unit == "attempt" else {"countingUnit": "visitor", "attemptProperty": None}
    funnel_id = scene.attempts("A", "B", **definition)

    def late_answers() -> dict[tuple[str, int], Json]:
        return {
            (story, index): explain(scene, funnel_id, event_id)
            for story, ids in sent.items()
            for index, event_id in enumerate(ids)
            if index >= 3
        }

    whole = late_answers()
    monkeypatch.setattr(trace_reader, "MAX_EVENTS", 3)
    for (story, index), answer in late_answers().items():
        assert not whole[story, index]["truncated"]
        assert answer["truncated"]
        assert "first 3 events" in answer["unitSummary"]
        if answer["counts"] is None:
            assert pick(answer, "decision", "step", "row") == (None, None, None)
            assert answer["explanation"].startswith("Not decided")
            assert answer["selected"] in (None, True)
        else:
            same = ("counts", "decision", "step", "row")
            assert pick(answer, *same) == pick(whole[story, index], *same), (story, index)
        is_decided = index not in LONG_UNITS[story]
        if unit == "attempt" or not is_decided:  # a later entry of a visitor may lead further
            assert (answer["counts"] is not None) is is_decided, (story, index)


def test_a_trace_that_takes_longer_than_the_limit_of_a_query_ends(
    shop: Scene, funnel_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = count(step=100)
    monkeypatch.setattr(engine, "monotonic", lambda: float(next(seconds)))
    assert code(shop.request(funnel_id, "units/done"), 503) == "query_timeout"


def explain(scene: Scene, funnel_id: str, event_id: str) -> Json:
    return scene.report(funnel_id, "explain", eventId=event_id)


def test_explain_says_whether_an_event_counts(scene: Scene) -> None:
    first = scene.server_event(0, "A", userId="u", properties={"attempt": "a", "n": 5})
    skipped = scene.server_event(10, "B", userId="u", properties={"attempt": "a", "n": 5})
    other = scene.server_event(20, "nothing", userId="u", properties={"attempt": "z"})
    without = scene.server_event(30, "B", userId="u", properties={"n": 6})
    funnel_id = scene.attempts("A", "B")
    answer = explain(scene, funnel_id, first["eventId"])
    assert pick(answer, "counts", "decision", "unit") == (True, "entry", "a")
    answer = explain(scene, funnel_id, skipped["eventId"])
    assert pick(answer, "counts", "decision") == (False, "sequenceSkip")
    reason = "Skipped: sequence number 5 is not greater than 5, the last accepted."
    assert answer["explanation"] == reason
    answer = explain(scene, funnel_id, other["eventId"])
    assert pick(answer, "counts", "decision", "unit") == (False, "noMatch", "z")
    answer = explain(scene, funnel_id, without["eventId"])
    assert pick(answer, "counts", "unit") == (False, None)
    assert answer["explanation"] == (
        "The event has no attempt ID: attempt must be an integer, or a text other than null, "
        "undefined and blanks."
    )


def test_explain_finds_an_event_by_the_id_of_its_sender(
    scene: Scene, warehouse: Warehouse, workspace: Tenant
) -> None:
    funnel_id = scene.attempts("A", "B")
    ids = {"evt_1": "order-1", "evt_2": "evt_1", "evt_3": "twice", "evt_4": "twice", "evt_5": ""}
    events = [
        reference.Event(
            event_id,
            workspace.website_id,
            "event",
            "A",
            scene.start_ms + index,
            "ann",
            workspace.website_id,
            properties={"attempt": event_id},
            client_event_id=client_event_id,
        )
        for index, (event_id, client_event_id) in enumerate(ids.items())
    ]
    store(warehouse, reference.History(tuple(events)))
    for event_id, own, client_event_id in (
        ("order-1", "evt_1", "order-1"),
        ("evt_1", "evt_1", "order-1"),
        ("evt_2", "evt_2", "evt_1"),
        ("evt_5", "evt_5", None),
    ):
        answer = explain(scene, funnel_id, event_id)
        assert pick(answer, "eventId", "clientEventId") == (own, client_event_id)
        assert pick(answer, "counts", "decision", "unit") == (True, "entry", own)
    trace = scene.trace(funnel_id, "evt_1")
    assert column(trace["events"], "clientEventId") == ["order-1"]
    assert fields(scene.request(funnel_id, "explain", eventId="twice")) == ["eventId"]


def test_explain_needs_a_retained_event(shop: Scene, funnel_id: str) -> None:
    missing = shop.request(funnel_id, "explain", eventId="evt_made_up")
    assert code(missing, 404) == "event_not_found"
    assert fields(shop.request(funnel_id, "explain")) == ["eventId"]


def test_one_visitor_id_on_two_websites_is_two_visitors(scene: Scene, clock: ShiftedClock) -> None:
    """On the first website, `dup` was merged into `keep`. On the second, it is someone else."""
    site = scene.website("Second")
    other = Scene(replace(scene.tenant, website_id=site), clock)
    scene.story("0/A", visitor="keep", attempt=None)
    scene.story("10/A", visitor="dup", attempt=None)
    scene.identify("u", "keep", "dup")
    entry = other.server_event(20, "A", visitorId="dup")
    other.story("30/B", visitor="dup", attempt=None)
    funnel_id = scene.funnel("A", "B")
    answer = explain(scene, funnel_id, entry["eventId"])
    assert pick(answer, "counts", "decision", "unit") == (True, "entry", "dup")
    assert fields(scene.request(funnel_id, "units/dup")) == ["websiteId"]
    assert scene.trace(funnel_id, "dup", websiteId=site)["reached"] == 2
    assert scene.trace(funnel_id, "dup", websiteId=scene.tenant.website_id)["unit"] == "keep"
