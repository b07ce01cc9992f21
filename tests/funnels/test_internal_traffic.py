"""Reports leave out internal traffic of a workspace, over HTTP."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.accounts.test_audit import entries
from tests.cases import cases, every_database_in_full_tier, full_except
from tests.conftest import ShiftedClock
from tests.funnels.answers import code, faults
from tests.funnels.scenario import ATTEMPTS, HOUR_S, Json, Scene, outcome, rows_of, step, where
from tests.funnels.test_segments import REPORTS, ask, two_periods
from tests.tenant import Tenant

pytestmark = pytest.mark.usefixtures("warehouse")

PATH = "/api/settings/internal-traffic"
STAFF = where("email", "ends_with", "@example.com")
LOCAL = where("host", value="localhost")
ALL_UNITS = {"won", "lost", "staff", "local"}


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url


@pytest.fixture
def scene(workspace: Tenant, clock: ShiftedClock) -> Scene:
    """Two attempts of customers, one of which completes, and two internal ones."""
    scene = Scene(workspace, clock)
    scene.story("0/A 600/B", attempt="won", email="ann@customer.org", plan="pro")
    scene.story("60/A", attempt="lost", plan="basic")
    scene.story("120/A 180/B", attempt="staff", email="eve@example.com", plan="pro")
    scene.story("240/A 300/B", attempt="local", host="localhost", plan="pro")
    return scene


@pytest.fixture
def funnel_id(scene: Scene) -> str:
    return scene.attempts("A", "B", breakdownProperties=["plan"])


def leave_out(client: httpx.Client, *filters: Json) -> Json:
    answer = client.put(PATH, json={"filters": list(filters)})
    assert answer.status_code == 200, answer.text
    record: Json = answer.json()
    return record


def entered(scene: Scene, funnel_id: str, **query: Any) -> int:
    count: int = ask(scene, funnel_id, **query)["aggregate"]["entered"]
    return count


# -- The setting ---------------------------------------------------------------------------------


@every_database_in_full_tier
def test_the_filters_are_set_read_and_removed(client: httpx.Client, clock: ShiftedClock) -> None:
    assert client.get(PATH).json() == {"filters": [], "revision": 0, "updatedAt": None}
    record = leave_out(client, STAFF, LOCAL)
    expected = {"filters": [STAFF, LOCAL], "revision": 1, "updatedAt": record["updatedAt"]}
    assert record == expected
    assert client.get(PATH).json() == record
    clock.advance(seconds=60)
    assert client.put(PATH, json=record).json() == record, "no change"
    assert leave_out(client)["filters"] == []
    assert code(client.put(PATH, json=record), 409) == "stale_revision"


@pytest.mark.every_database
def test_concurrent_changes_take_turns(client: httpx.Client) -> None:
    def change(number: int) -> int:
        return client.put(PATH, json={"filters": [{**LOCAL, "value": str(number)}]}).status_code

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(change, range(8))) == {200}
    assert client.get(PATH).json()["revision"] == 8


REFUSED: dict[str, tuple[Any, list[str]]] = {
    "nothing": ({}, ["filters required"]),
    "null": ({"filters": None}, ["filters wrong_type"]),
    "too many": ({"filters": [LOCAL] * 21}, ["filters too_many"]),
    "too costly": ({"filters": [where("at", "after", "2026-01-01")] * 7}, ["filters too_costly"]),
    "bad filter": (
        {"filters": [LOCAL, {**STAFF, "operator": "matches_regex", "value": "["}]},
        ["filters[1].value bad_regex"],
    ),
}


@cases("body", REFUSED)
def test_a_broken_rule_is_reported_with_its_field(client: httpx.Client, body: str) -> None:
    sent, expected = REFUSED[body]
    assert faults(client.put(PATH, json=sent)) == expected
    assert client.get(PATH).json()["revision"] == 0


def test_a_change_is_in_the_audit_log(workspace: Tenant) -> None:
    leave_out(workspace.client, STAFF, LOCAL)
    entry = entries(workspace)[0]
    assert entry["action"] == "internal_traffic_changed"
    assert entry["target"].endswith("filters on: email, host")
    assert "example.com" not in entry["target"]


def test_each_workspace_has_its_own_filters(
    scene: Scene, funnel_id: str, other_workspace: Tenant
) -> None:
    leave_out(other_workspace.client, STAFF)
    assert scene.client.get(PATH).json()["filters"] == []
    assert entered(scene, funnel_id) == 4


# -- In reports ----------------------------------------------------------------------------------


def test_entries_that_pass_any_filter_are_left_out_by_default(scene: Scene, funnel_id: str) -> None:
    before = ask(scene, funnel_id)
    assert (before["asked"], outcome(before["aggregate"])) == (None, (4, 3, 0, 1))
    leave_out(scene.client, STAFF, LOCAL)
    report = ask(scene, funnel_id)
    assert outcome(report["aggregate"]) == (2, 1, 0, 1)
    assert report["asked"] == {
        "breakdown": None,
        "breakdownAt": None,
        "filters": None,
        "window": None,
        "settled": False,
        "segment": None,
        "internalTraffic": "leftOut",
    }
    included = ask(scene, funnel_id, internal="true")
    assert outcome(included["aggregate"]) == (4, 3, 0, 1)
    assert included["asked"]["internalTraffic"] == "included"
    leave_out(scene.client, STAFF)
    assert entered(scene, funnel_id) == 3
    leave_out(scene.client)
    assert ask(scene, funnel_id)["asked"] is None


def test_only_the_entry_decides(scene: Scene) -> None:
    scene.story("0/A", attempt="later", visitor="kim")
    scene.story("30/B", attempt="later", visitor="kim", host="localhost")
    leave_out(scene.client, STAFF, LOCAL)
    funnel_id = scene.attempts("A", "B")
    assert ask(scene, funnel_id, "units/later")["selected"]
    trace = ask(scene, funnel_id, "units/staff")
    assert not trace["selected"]
    assert trace["summary"].endswith("The entry is internal traffic.")
    assert ask(scene, funnel_id, "units/staff", internal="true")["selected"]


def test_an_internal_event_is_no_entry_of_a_visitor(scene: Scene) -> None:
    """`0/look(localhost) 10/look 20/buy` enters at 10."""
    scene.story("0/look", visitor="vic", attempt=None, host="localhost")
    scene.story("10/look 20/buy", visitor="vic", attempt=None)
    scene.story("0/look 20/buy", visitor="dev", attempt=None, host="localhost")
    leave_out(scene.client, LOCAL)
    funnel_id = scene.funnel("look", "buy", conversionWindowSeconds=HOUR_S)
    [unit] = ask(scene, funnel_id, "units")["data"]
    assert (unit["unit"], unit["entryAt"], unit["reached"]) == ("vic", scene.at(10), 2)
    first, *_ = ask(scene, funnel_id, "units/vic")["events"]
    assert first["explanation"] == "Matches step 1, but is internal traffic."


def test_the_event_that_fills_the_last_part_of_a_group_decides(scene: Scene) -> None:
    scene.story("0/x", attempt="in", host="localhost")
    scene.story("10/y", attempt="in")
    scene.story("0/x", attempt="out")
    scene.story("10/y", attempt="out", host="localhost")
    leave_out(scene.client, LOCAL)
    funnel_id = scene.attempts(step("x", "y", mode="all_of"), "B")
    assert scene.names(funnel_id) == ["in"]


@pytest.mark.parametrize(
    ("internal", "counted"),
    [
        (where("host", "not_equals", "localhost"), {"local"}),
        (where("email", "is_not_set"), {"won", "staff"}),
        (where("$country", value="XX"), None),
        (where("plan", "matches_regex", "^p"), {"lost"}),
    ],
)
def test_any_filter_can_say_what_is_internal(
    scene: Scene, funnel_id: str, internal: Json, counted: set[str] | None
) -> None:
    leave_out(scene.client, internal)
    assert set(scene.names(funnel_id)) == (counted or ALL_UNITS)


@cases(
    "what",
    full_except(
        ("results", "units", "units/pro", "export"), REPORTS, "every report asks in one way"
    ),
)
def test_every_report_leaves_it_out_and_can_include_it(
    scene: Scene, funnel_id: str, what: str
) -> None:
    leave_out(scene.client, STAFF, LOCAL)
    needed = two_periods(scene) if what == "periods" else dict(REPORTS[what])
    if what == "explain":
        [event, *_] = ask(scene, funnel_id, "units/won")["events"]
        needed = {"eventId": event["eventId"]}
    what = what.replace("units/pro", "units/won")
    for query, expected in (({}, "leftOut"), ({"internal": "true"}, "included")):
        answer = ask(scene, funnel_id, what, **needed, **query)
        if what == "export":
            assert answer[0]["asked_internal_traffic"] == expected
            assert answer[0]["entered"] == (2 if expected == "leftOut" else 4)
        else:
            assert answer["asked"]["internalTraffic"] == expected


@cases(("file", "form"), [("unit-table", "ndjson"), ("export/units", "csv")])
def test_files_of_units_leave_it_out_and_can_include_it(
    scene: Scene, funnel_id: str, file: str, form: str
) -> None:
    leave_out(scene.client, STAFF, LOCAL)
    for query, units in (({}, {"won", "lost"}), ({"internal": "true"}, ALL_UNITS)):
        answer = scene.request(funnel_id, file, format=form, **query)
        assert answer.status_code == 200, answer.text
        assert {unit for unit in ALL_UNITS if unit in answer.text} == units


def test_a_preview_leaves_it_out_as_the_report_will(scene: Scene) -> None:
    leave_out(scene.client, STAFF, LOCAL)
    draft: Json = {**ATTEMPTS, "steps": rows_of("AB")}
    for sent, expected in ((draft, (2, "leftOut")), (draft | {"internal": True}, (4, "included"))):
        answer = scene.client.post("/api/funnels/preview", json=sent).json()
        shown = answer["aggregate"]["entered"], answer["asked"]["internalTraffic"]
        assert shown == expected


def test_attribution_leaves_it_out_of_the_figures_of_a_funnel(scene: Scene, funnel_id: str) -> None:
    leave_out(scene.client, STAFF, LOCAL)

    def attribution(**query: Any) -> tuple[int | None, str | None]:
        answer = scene.client.get("/api/attribution", params=query).json()
        return answer["totals"]["entered"], answer["internalTraffic"]

    assert attribution(funnelId=funnel_id) == (2, "leftOut")
    assert attribution(funnelId=funnel_id, internal="true") == (4, "included")
    assert attribution() == (None, None)


def test_internal_traffic_joins_the_filters_of_a_question(scene: Scene, funnel_id: str) -> None:
    leave_out(scene.client, STAFF)
    pro = [where("plan", value="pro")]
    assert entered(scene, funnel_id, filters=pro) == 2
    assert entered(scene, funnel_id, filters=pro, internal="true") == 3
    trace = ask(scene, funnel_id, "units/staff", filters=pro)
    assert trace["summary"].endswith(
        "The entry does not pass the filters of the request or is internal traffic."
    )


def test_it_adds_nothing_to_the_cost_of_a_funnel(scene: Scene) -> None:
    item = where("plan", "not_equals", "x" * 15_000)  # costs 15
    funnel_id = scene.attempts(*(step(name, filters=[item] * 13) for name in "AB"))
    leave_out(scene.client, *[STAFF] * 20)
    assert ask(scene, funnel_id)["asked"]["internalTraffic"] == "leftOut"
