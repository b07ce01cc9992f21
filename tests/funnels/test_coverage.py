"""Coverage describes the history behind a report, and what limits the report."""

import json

import pytest

from tests.conftest import ShiftedClock
from tests.funnels.scenario import DAY_S, HOUR_S, Scene
from tests.tenant import Tenant
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("warehouse")

NO_WINDOW = "No conversion window: unfinished visitors stay pending."


@pytest.mark.parametrize("name", ["A", "unrelated"])
def test_an_event_of_1970_does_not_hide_that_the_period_begins_before_history(
    scene: Scene, name: str
) -> None:
    item = scene.item(0, name, "lost", attempt="lost")
    scene.track([{**item, "timestamp": "1970-01-20T16:13:20Z"}])
    scene.story("0/A 60/B")
    funnel = scene.attempts("A", "B")
    period = scene.period(-DAY_S, DAY_S)
    coverage = scene.results(funnel, **period)["coverage"]
    assert (coverage["periodBeginsBeforeHistory"], coverage["complete"]) == (True, False)
    assert coverage["firstEventAt"] == "1970-01-20T16:13:20.000Z"
    assert coverage["notes"] == [
        "The period begins before history: no event is retained from the two years before "
        f"{scene.at(0)}."
    ]
    later = scene.period(30, DAY_S)
    assert scene.results(funnel, **later)["coverage"]["complete"] is True
    assert scene.results(funnel)["coverage"]["complete"] is True


def test_a_period_after_all_events_is_within_history(scene: Scene) -> None:
    scene.story("0/A 60/B")
    period = scene.period(DAY_S, 2 * DAY_S)
    coverage = scene.results(scene.attempts("A", "B"), **period)["coverage"]
    assert (coverage["periodBeginsBeforeHistory"], coverage["complete"]) == (False, True)


def test_a_funnel_without_a_window_is_complete_while_visitors_are_unfinished(scene: Scene) -> None:
    scene.story("0/A")
    funnel = scene.funnel("A", "B")
    coverage = scene.results(funnel)["coverage"]
    assert (coverage["complete"], coverage["openWindows"]) == (True, 1)
    assert coverage["notes"] == [NO_WINDOW]
    scene.story("60/B")
    assert scene.results(funnel)["coverage"]["notes"] == []


def test_an_open_window_makes_a_report_incomplete(workspace: Tenant, clock: ShiftedClock) -> None:
    scene = Scene(workspace, clock, ago_s=60)
    scene.story("0/A")
    coverage = scene.results(scene.funnel("A", "B", conversionWindowSeconds=HOUR_S))["coverage"]
    assert coverage["complete"] is False
    assert coverage["notes"] == ["1 visitor still in progress."]


def test_a_dismissed_gap_is_listed_with_a_note_but_the_report_is_complete(
    scene: Scene, workspace: Tenant
) -> None:
    lines = "\n".join(json.dumps(scene.item(0, name, attempt="a1")) for name in ("A", ""))
    sent = scene.client.post(
        "/api/imports",
        params={"websiteId": workspace.website_id},
        content=lines,
        headers={"Content-Type": "application/x-ndjson"},
    ).json()
    path = f"/api/imports/{sent['id']}"
    eventually(lambda: scene.client.get(path).json()["state"] == "done")
    funnel = scene.attempts("A", "B")
    before = scene.results(funnel)["coverage"]
    [rejected] = before["notes"]
    assert before["complete"] is False
    assert workspace.browser.post(f"{path}/dismiss-gap").status_code == 200
    after = scene.results(funnel)["coverage"]
    assert (after["complete"], after["gaps"]) == (True, before["gaps"])
    [note] = after["notes"]
    assert note.startswith(f"{rejected} An owner dismissed this gap on ")
