"""Equal queries run once; an answer is reused while a fresh one would have the same counts."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.events.conftest import imported
from tests.funnels.scenario import DAY_S, HOUR_S, Scene
from tests.one_server import one_server
from tests.records import new_website
from tests.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.usefixtures("warehouse")

REFUSED_OVER_SHARDS = one_server("no tables over shards take this statement")


def from_cache(scene, funnel, **query):
    """A report from the cache."""
    return eventually(
        lambda: (report := scene.results(funnel, **query))["servedFrom"] == "cache" and report
    )


@pytest.mark.usefixtures("without_merges")
def test_equal_requests_at_once_run_one_query(scene, warehouse):
    scene.story("0/A 60/B")
    funnel = scene.funnel("A", "B")
    with ThreadPoolExecutor(8) as threads, warehouse.holding() as hold:
        requests = [threads.submit(scene.results, funnel) for _ in range(8)]
        eventually(lambda: hold.requests == 8)
        hold.release()
        reports = [request.result() for request in requests]
    assert len(warehouse.reports) == 1
    assert all(report == reports[0] for report in reports)
    assert reports[0]["servedFrom"] == "query"
    assert reports[0]["aggregate"]["completed"] == 1


def test_requests_that_differ_run_a_query_each(scene, warehouse):
    scene.story("0/A 60/B", plan="pro")
    funnel = scene.funnel("A", "B", breakdownProperties=["plan"])
    queries = [
        {},
        {"page": 2},
        {"cohort": {"plan": "pro"}},
        {"cohort": {"plan": "1"}},
        {"cohort": {"plan": 1}},
        {"startAt": scene.at(0), "endAt": scene.at(1)},
    ]
    with ThreadPoolExecutor(6) as threads, warehouse.holding() as hold:
        requests = [threads.submit(scene.results, funnel, **query) for query in queries]
        eventually(lambda: hold.statements == 2)  # as many as a workspace may run at once
        hold.release()
        reports = [request.result() for request in requests]
    # Reports without units share a statement that looks for impossible steps.
    assert len(warehouse.reports) == len(queries) + 1
    assert [report["aggregate"]["entered"] for report in reports] == [1, 1, 1, 0, 0, 1]


def test_a_reused_answer_says_so_and_keeps_its_evaluation_time(scene, warehouse, clock):
    scene.story("0/A 60/B")
    funnel = scene.funnel("A", "B")
    first = scene.results(funnel)
    assert first["servedFrom"] == "query"
    assert first["evaluatedAt"] <= first["computedAt"]
    before = from_cache(scene, funnel)
    clock.advance(days=3)
    report_count = len(warehouse.reports)
    later = from_cache(scene, funnel)
    assert later == before
    assert len(warehouse.reports) == report_count


def test_pages_of_cohorts_share_an_evaluation_time(scene, clock):
    for plan in ("a", "b", "c"):
        scene.story("0/A 60/B", visitor=plan, plan=plan)
    funnel = scene.funnel("A", "B", breakdownProperties=["plan"])
    first = from_cache(scene, funnel, pageSize=1)
    second = scene.results(funnel, pageSize=1, page=2)
    assert second["evaluatedAt"] == first["evaluatedAt"]


def test_a_new_event_is_counted_at_once(scene):
    scene.story("0/A 60/B")
    funnel = scene.funnel("A", "B")
    for number in range(1, 8):
        from_cache(scene, funnel)
        scene.story("0/A 60/B", visitor=f"v{number}")
        report = scene.results(funnel)
        assert report["servedFrom"] == "query"
        assert report["aggregate"]["completed"] == number + 1


def test_an_event_of_another_workspace_changes_nothing(scene, other_workspace, clock):
    scene.story("0/A 60/B")
    funnel = scene.funnel("A", "B")
    from_cache(scene, funnel)
    Scene(other_workspace, clock).story("0/A 60/B")
    assert from_cache(scene, funnel)["aggregate"]["completed"] == 1


def test_a_merge_is_counted_at_once(scene, workspace):
    scene.send_event(0, "A", "phone")
    scene.send_event(60, "B", "laptop")
    funnel = scene.funnel("A", "B")
    assert from_cache(scene, funnel)["aggregate"]["completed"] == 0
    for visitor in ("phone", "laptop"):
        body = {"websiteId": workspace.website_id, "visitorId": visitor, "userId": "ann"}
        assert scene.client.post("/api/identify", json=body).status_code == 200
    report = scene.results(funnel)
    assert (report["servedFrom"], report["aggregate"]["completed"]) == ("query", 1)


def test_a_changed_definition_is_computed_anew(scene):
    scene.story("0/A 60/B 90/C")
    funnel = scene.funnel("A", "B")
    from_cache(scene, funnel)
    body = {"name": "Scenario", "steps": [{"type": "Event", "value": name} for name in ("A", "X")]}
    assert scene.client.put(f"/api/funnels/{funnel}", json=body).status_code == 200
    report = scene.results(funnel)
    assert (
        report["servedFrom"],
        report["definitionRevision"],
        report["aggregate"]["completed"],
    ) == ("query", 2, 0)


def test_a_changed_goal_is_computed_anew(scene):
    scene.story("0/A 60/B")
    goal = scene.client.post(
        "/api/goals", json={"name": "Won", "match": {"type": "Event", "value": "B"}}
    ).json()["id"]
    funnel = scene.funnel("A", {"type": "Goal", "value": "Won"})
    assert from_cache(scene, funnel)["aggregate"]["completed"] == 1
    changed = scene.client.patch(
        f"/api/goals/{goal}", json={"match": {"type": "Event", "value": "X"}}
    )
    assert changed.status_code == 200
    report = scene.results(funnel)
    assert (report["servedFrom"], report["aggregate"]["completed"]) == ("query", 0)


def test_a_new_website_is_counted_at_once(scene, workspace):
    scene.story("0/A 60/B")
    funnel = scene.funnel("A", "B")
    from_cache(scene, funnel)
    other = new_website(scene.client, "Second")
    items = [scene.item(0, "A", "eve"), scene.item(9, "B", "eve")]
    answer = scene.client.post("/api/track", json={"websiteId": other, "events": items})
    assert answer.status_code == 202
    assert scene.results(funnel)["aggregate"]["completed"] == 2


def test_an_open_window_is_over_at_its_millisecond(workspace, clock):
    scene = Scene(workspace, clock, ago_s=HOUR_S / 2)
    scene.story("0/A", visitor="one")
    scene.story("600/A", visitor="two")
    funnel = scene.funnel("A", "B", conversionWindowSeconds=HOUR_S)
    report = from_cache(scene, funnel)
    assert (report["aggregate"]["pending"], report["coverage"]["openWindows"]) == (2, 2)
    clock.advance(seconds=HOUR_S / 2 - 60)
    assert from_cache(scene, funnel)["evaluatedAt"] == report["evaluatedAt"]
    clock.advance(seconds=60)
    closed = scene.results(funnel)
    assert closed["servedFrom"] == "query"
    assert (closed["aggregate"]["pending"], closed["aggregate"]["droppedOff"]) == (1, 1)
    clock.advance(seconds=600)
    assert scene.results(funnel)["aggregate"]["droppedOff"] == 2


def test_a_period_that_is_over_does_not_wait_for_windows_of_later_entries(workspace, clock):
    scene = Scene(workspace, clock, ago_s=3 * DAY_S)
    scene.story("0/A 60/B", visitor="one")
    scene.send_event(3 * DAY_S - 60, "A", "two")
    funnel = scene.funnel("A", "B", conversionWindowSeconds=DAY_S)
    period = {"startAt": scene.at(-1), "endAt": scene.at(HOUR_S)}
    from_cache(scene, funnel, **period)
    clock.advance(days=2)
    assert from_cache(scene, funnel, **period)["aggregate"]["entered"] == 1
    assert scene.results(funnel)["aggregate"]["droppedOff"] == 1


def test_an_event_slightly_in_the_future_counts_once_its_time_comes(workspace, clock):
    scene = Scene(workspace, clock, ago_s=0)
    scene.send_event(-60, "A")
    scene.send_event(200, "B")
    funnel = scene.funnel("A", "B", conversionWindowSeconds=DAY_S * 7)
    report = from_cache(scene, funnel)
    assert report["aggregate"]["completed"] == 0
    clock.advance(seconds=100)
    assert from_cache(scene, funnel)["evaluatedAt"] == report["evaluatedAt"]
    clock.advance(seconds=100)
    assert scene.results(funnel)["aggregate"]["completed"] == 1


def test_a_cached_answer_is_not_shared_between_workspaces(scene, other_workspace, clock, warehouse):
    scene.story("0/A 60/B")
    from_cache(scene, scene.funnel("A", "B"))
    other_scene = Scene(other_workspace, clock)
    report = other_scene.results(other_scene.funnel("A", "B"))
    assert (report["servedFrom"], report["aggregate"]["entered"]) == ("query", 0)


def test_a_preview_shares_the_answer_of_the_saved_funnel(scene):
    scene.story("0/A 60/B")
    saved = from_cache(scene, scene.funnel("A", "B"))
    body = {"steps": [{"type": "Event", "value": "A"}, {"type": "Event", "value": "B"}]}
    preview = eventually(
        lambda: (
            (report := scene.client.post("/api/funnels/preview", json=body).json())["servedFrom"]
            == "cache"
            and report
        )
    )
    assert preview["aggregate"] == saved["aggregate"]


def test_coverage_of_a_reused_answer_is_current(scene, workspace):
    """An import that changes no count of an answer changes the coverage of it."""
    scene.story("0/A 60/B")
    funnel = scene.funnel("A", "B")
    from_cache(scene, funnel)
    line = (
        f'{{"type": "event", "name": "A", "timestamp": "{scene.at(-DAY_S)}", "visitorId": "old"}}\n'
    )
    line += line.replace('"A"', '""')  # rejected
    assert imported(workspace, line.encode())["state"] == "done"
    report = scene.results(funnel)
    assert report["aggregate"]["entered"] == 2
    assert [gap["kind"] for gap in report["coverage"]["gaps"]] == ["import"]


OF_ANN = (
    "website_id = {w:String} AND visitor_id = 'ann' "
    "SETTINGS mutations_sync = 1, lightweight_deletes_sync = 1"
)


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE events DELETE WHERE ",
        pytest.param("DELETE FROM events WHERE ", marks=REFUSED_OVER_SHARDS),
    ],
)
def test_events_deleted_from_the_warehouse_are_no_longer_counted(
    scene, workspace, warehouse, statement
):
    scene.story("0/A 60/B", visitor="ann")
    scene.story("0/A 60/B", visitor="eve")
    funnel = scene.funnel("A", "B")
    assert from_cache(scene, funnel)["aggregate"]["entered"] == 2
    warehouse.command(statement + OF_ANN, {"w": workspace.website_id})
    assert scene.results(funnel)["aggregate"]["entered"] == 1


@REFUSED_OVER_SHARDS
def test_merged_parts_keep_the_cache(scene, warehouse):
    for number in range(3):
        scene.story("0/A 60/B", visitor=f"v{number}")
        scene.results(funnel := scene.funnel("A", "B"))
    before = from_cache(scene, funnel)
    warehouse.command("OPTIMIZE TABLE events FINAL")
    assert scene.results(funnel) == before


@REFUSED_OVER_SHARDS
def test_events_inserted_by_another_process_are_counted(scene, workspace, warehouse):
    """By another node, or from a copy: no room of this process takes part."""
    scene.story("0/A 60/B", visitor="ann")
    funnel = scene.funnel("A", "B")
    from_cache(scene, funnel)
    warehouse.command(
        "INSERT INTO events (* EXCEPT (visitor_key)) SELECT * EXCEPT (visitor_key) "
        "REPLACE ('eve' AS visitor_id, concat(event_id, 'x') AS event_id) "
        "FROM events WHERE website_id = {w:String}",
        {"w": workspace.website_id},
    )
    assert scene.results(funnel)["aggregate"]["completed"] == 2


@REFUSED_OVER_SHARDS
def test_replacing_an_event_invalidates_the_cache(scene, workspace, warehouse):
    """The number of rows is as before; the numbers of their inserts are not."""
    scene.story("0/A 60/B", visitor="ann")
    funnel = scene.funnel("A", "B")
    from_cache(scene, funnel)
    warehouse.command(
        "INSERT INTO events SELECT * REPLACE ('X' AS name) FROM events "
        "WHERE website_id = {w:String} AND events.name = 'B'",
        {"w": workspace.website_id},
    )
    [[events]] = warehouse.query(
        "SELECT count() FROM events WHERE website_id = {w:String}", {"w": workspace.website_id}
    )[1]
    assert events == 3
    warehouse.command(
        "ALTER TABLE events DELETE WHERE website_id = {w:String} AND name = 'B' "
        "SETTINGS mutations_sync = 1",
        {"w": workspace.website_id},
    )
    assert scene.results(funnel)["aggregate"]["completed"] == 0


def test_events_stored_during_a_query_are_not_cached_after_their_deletion(
    scene, warehouse, services, monkeypatch
):
    """The data are as before, but their version is not."""
    scene.story("0/A 60/B")
    funnel = scene.funnel("A", "B")
    query = warehouse.query

    def query_with_new_event(sql, *more):
        if "provider_events" in sql:
            monkeypatch.setattr(warehouse, "query", query)
            scene.story("5/A", visitor="ghost")
            assert services.shipper.wait_until_shipped(PATIENCE_S)
        return query(sql, *more)

    monkeypatch.setattr(warehouse, "query", query_with_new_event)
    assert scene.results(funnel)["aggregate"]["entered"] == 2
    deletion = scene.client.post(
        "/api/deletions", json={"websiteId": scene.tenant.website_id, "visitorId": "ghost"}
    ).json()
    eventually(
        lambda: scene.client.get(f"/api/deletions/{deletion['id']}").json()["state"] == "done"
    )
    assert scene.results(funnel)["aggregate"]["entered"] == 1
