"""Segments name filters for any report, over HTTP."""

from typing import Any

import httpx
import pytest

from tests.conftest import ShiftedClock
from tests.funnels.answers import faults
from tests.funnels.scenario import DAY_S, Json, Scene, by_cohort, where
from tests.tenant import Tenant
from tests.tiers import TIER, Tier

PRO = where("plan", value="pro")
GERMAN = where("country", "in", '["DE"]')
PAYING: Json = {"name": "Paying", "filters": [PRO]}

REPORTS = {
    "results": {},
    "trend": {},
    "timing": {},
    "next": {"step": 1},
    "compare": {"property": "plan"},
    "verdict": {},
    "drivers": {"step": 1},
    "flows": {},
    "units": {},
    "units/pro": {},
    "explain": {},
    "periods": {},
    "export": {"format": "json"},
}
"""Every report that accepts questions, with the parameters that it needs."""


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url


@pytest.fixture
def scene(workspace: Tenant, clock: ShiftedClock) -> Scene:
    scene = Scene(workspace, clock)
    scene.story("0/A 600/B", attempt="pro", plan="pro", country="DE")
    scene.story("60/A 720/B", attempt="french", plan="pro", country="FR")
    scene.story("120/A 180/B", attempt="basic", plan="basic", country="DE")
    scene.story("240/A", attempt="lost", plan="basic", country="FR")
    return scene


@pytest.fixture
def funnel_id(scene: Scene) -> str:
    return scene.attempts("A", "B", breakdownProperties=["plan"])


def save(client: httpx.Client, body: Json = PAYING) -> Json:
    answer = client.post("/api/segments", json=body)
    assert answer.status_code == 201, answer.text
    record: Json = answer.json()
    return record


def ask(scene: Scene, funnel_id: str, what: str = "results", **query: Any) -> Any:
    return scene.report(funnel_id, what, **query)


def reports(scene: Scene, funnel_id: str) -> dict[str, Json]:
    """Return the parameters that each report needs."""
    [event, *_] = scene.trace(funnel_id, "pro")["events"]
    return REPORTS | {"explain": {"eventId": event["eventId"]}, "periods": two_periods(scene)}


def two_periods(scene: Scene) -> Json:
    """Return the parameters that compare two days from the day before the start with the two
    days before.
    """
    before = {"compareStartAt": scene.at(-3 * DAY_S), "compareEndAt": scene.at(-DAY_S)}
    return {**scene.period(-DAY_S, DAY_S), **before}


# -- The record ----------------------------------------------------------------------------------


REFUSED: dict[str, tuple[Any, list[str]]] = {
    "nothing": ({}, ["name required", "filters required"]),
    "no filter": ({**PAYING, "filters": []}, ["filters too_few"]),
    "a filter instead of a list": ({**PAYING, "filters": PRO}, ["filters wrong_type"]),
    "unknown field": ({**PAYING, "match": {}}, ["match unknown_field"]),
    "too many": ({**PAYING, "filters": [PRO] * 21}, ["filters too_many"]),
    "too costly": (
        {**PAYING, "filters": [{**PRO, "value": "x" * 16_000}] * 40},
        ["filters too_costly"],
    ),
    "several at once": (
        {"name": " ", "filters": [where("p", "matches_regex", "["), where("$p", "is_set")]},
        ["name too_short", "filters[0].value bad_regex", "filters[1].property unknown_builtin"],
    ),
}


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("body", REFUSED)
def test_a_broken_rule_is_reported_with_its_field(client: httpx.Client, body: str) -> None:
    sent, expected = REFUSED[body]
    assert faults(client.post("/api/segments", json=sent)) == expected
    segment = save(client)
    if sent:
        assert faults(client.patch(f"/api/segments/{segment['id']}", json=sent)) == expected
    assert client.get("/api/segments").json()["data"] == [segment]


# -- In reports ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize(
    "pro", [PRO, {**PRO, "operator": "matches_regex", "value": "^pro$"}], ids=["text", "pattern"]
)
@pytest.mark.slow("runs every report")
def test_a_segment_chooses_units_by_their_entry_in_every_report(
    scene: Scene, funnel_id: str, pro: Json
) -> None:
    segment = save(scene.client, {**PAYING, "filters": [pro]})
    named = {"id": segment["id"], "name": "Paying", "revision": 1}
    needed = reports(scene, funnel_id)
    for what in needed if TIER is Tier.FULL else ("export", "units"):
        answer = ask(scene, funnel_id, what, segment=segment["id"], **needed[what])
        head = answer[0]["asked_segment"] if what == "export" else answer["asked"]["segment"]
        assert head == named, what
    report = ask(scene, funnel_id, segment=segment["id"])
    assert by_cohort(report, "plan") == {"pro": 2}
    assert set(scene.names(funnel_id, segment=segment["id"])) == {"pro", "french"}
    assert not ask(scene, funnel_id, "units/lost", segment=segment["id"])["selected"]


@pytest.mark.usefixtures("warehouse")
def test_a_segment_joins_the_filters_of_the_question(scene: Scene, funnel_id: str) -> None:
    segment = save(scene.client)
    report = ask(scene, funnel_id, segment=segment["id"], filters=[GERMAN])
    assert report["aggregate"]["entered"] == 1
    assert report["asked"]["filters"] == [GERMAN]


@pytest.mark.usefixtures("warehouse")
def test_a_changed_segment_changes_the_next_report(scene: Scene, funnel_id: str) -> None:
    segment = save(scene.client)
    assert ask(scene, funnel_id, segment=segment["id"])["aggregate"]["completed"] == 2
    scene.client.patch(
        f"/api/segments/{segment['id']}", json={"filters": [PRO, GERMAN], "name": "Both"}
    )
    report = ask(scene, funnel_id, segment=segment["id"])
    assert report["aggregate"]["completed"] == 1
    assert report["asked"]["segment"]["revision"] == 2


@pytest.mark.usefixtures("warehouse")
def test_a_deleted_segment_is_refused_with_the_way_out(
    scene: Scene, funnel_id: str, other_workspace: Tenant
) -> None:
    segment, foreign = save(scene.client), save(other_workspace.client)
    scene.client.delete(f"/api/segments/{segment['id']}")
    for what, needed in reports(scene, funnel_id).items():
        for gone in (segment["id"], foreign["id"], "", "plan"):
            answer = scene.request(funnel_id, what, **needed, segment=gone)
            assert faults(answer) == ["segment segment_not_found"], what
            assert "GET /api/segments" in answer.json()["detail"]


@pytest.mark.usefixtures("warehouse")
def test_the_filters_of_segment_question_and_funnel_cost_at_most_as_much_as_a_definition(
    scene: Scene, funnel_id: str
) -> None:
    costly = where("plan", "not_equals", "x" * 15_000)
    segment = save(scene.client, {"name": "Costly", "filters": [costly] * 20})
    assert ask(scene, funnel_id, segment=segment["id"])["aggregate"]["entered"] == 4
    filters = [where("plan", "before", "2026-01-01")] * 20
    answer = scene.request(funnel_id, "results", segment=segment["id"], filters=filters)
    assert faults(answer, 400) == ["filters too_costly"]
    assert "segment" in answer.json()["detail"]
