"""Every node answers for a job, whichever accepted it."""

import pytest

from penstock.jobs import responses
from tests.funnels.scenario import DAY_S, Scene
from tests.recording_warehouse import BURNING, ENDLESS
from tests.waiting import eventually

ASYNC = {"Prefer": "respond-async"}
of_full_tier = pytest.mark.full("more ways in which a job of one node ends at another")


@pytest.fixture
def scene(workspace, clock):
    return Scene(workspace, clock)


@pytest.fixture
def funnel(scene):
    scene.story("0/A 60/B", tag="x")
    return scene.funnel("A", "B", breakdownProperties=["tag"])


def job_of(node, funnel, part="results", **params):
    accepted = node.client.get(f"/api/funnels/{funnel}/{part}", headers=ASYNC, params=params)
    assert accepted.status_code == 202, accepted.text
    return accepted.headers["location"]


def state(node, job):
    return node.client.get(job).json()["state"]


def reaches(node, job, expected):
    eventually(lambda: state(node, job) == expected)


def test_another_node_has_the_state_and_the_response_of_a_job(nodes, funnel):
    first, second = nodes
    job = job_of(first, funnel)
    reaches(second, job, "done")
    assert second.client.get(job).json() == first.client.get(job).json()
    ours, theirs = (node.client.get(f"{job}/result") for node in nodes)
    assert (theirs.status_code, theirs.headers["content-type"]) == (200, "application/json")
    assert theirs.content == ours.content
    assert theirs.json()["aggregate"]["completed"] == 1
    assert second.client.delete(job).status_code == 204
    assert first.client.get(job).status_code == 404


@of_full_tier
@pytest.mark.parametrize("in_memory", [0, 1024**2])
def test_another_node_has_the_file_of_a_job(nodes, funnel, monkeypatch, in_memory):
    monkeypatch.setattr(responses, "_IN_MEMORY_BYTES", in_memory)
    first, second = nodes
    job = job_of(first, funnel, "export", format="csv")
    reaches(second, job, "done")
    plain = first.client.get(f"/api/funnels/{funnel}/export", params={"format": "csv"})
    fetched = second.client.get(f"{job}/result")
    assert fetched.content == plain.content
    for name in ("content-disposition", "content-type"):
        assert fetched.headers[name] == plain.headers[name]


@of_full_tier
def test_another_node_has_the_problem_of_a_failed_job(nodes, funnel):
    first, second = nodes
    job = job_of(first, funnel, cohort='{"nope": 1}')
    reaches(second, job, "failed")
    fetched = second.client.get(f"{job}/result")
    plain = second.client.get(f"/api/funnels/{funnel}/results", params={"cohort": '{"nope": 1}'})
    assert fetched.status_code == plain.status_code == 422
    assert fetched.headers["content-type"] == "application/problem+json"
    assert fetched.json() == plain.json()


def test_another_node_shows_the_progress_of_a_job_and_cancels_it(nodes, funnel, warehouse):
    first, second = nodes
    with warehouse.running_before_reports(BURNING):
        job = job_of(first, funnel)
        eventually(lambda: second.client.get(job).json()["rowsRead"] > 1_000_000)
        assert second.client.get(f"{job}/result").json()["code"] == "job_not_finished"
        assert second.client.delete(job).status_code == 204
        assert [state(node, job) for node in nodes] == ["cancelled", "cancelled"]
        eventually(lambda: warehouse.running() == 0)
    assert second.client.get(f"{job}/result").json()["code"] == "job_cancelled"


@of_full_tier
def test_a_waiting_job_that_another_node_cancels_never_runs(nodes, funnel, warehouse, scene):
    first, second = nodes
    with warehouse.running_before_reports(ENDLESS):
        jobs = [
            job_of(first, funnel, startAt=scene.at(-n - 1), endAt=scene.at(DAY_S)) for n in range(3)
        ]
        eventually(lambda: warehouse.running() == 1)  # The others wait for their turn.
        for job in reversed(jobs):
            assert second.client.delete(job).status_code == 204
        eventually(lambda: warehouse.running() == 0)
        eventually(lambda: not first.services.jobs._own)
    assert len(warehouse.reports) == 1
    assert [state(second, job) for job in jobs] == ["cancelled"] * 3


@of_full_tier
def test_a_job_ends_with_its_node(nodes, funnel, warehouse, clock):
    first, second = nodes
    with warehouse.running_before_reports(ENDLESS):
        job = job_of(first, funnel)
        reaches(second, job, "running")
        first.services.jobs.worker.stop()  # as if the process were gone
        clock.advance(seconds=29)
        assert state(second, job) == "running"
        clock.advance(seconds=5)
        assert state(second, job) == "failed"
        result = second.client.get(f"{job}/result")
        assert (result.status_code, result.json()["code"]) == (503, "job_interrupted")
        assert result.headers["retry-after"] == "1"
        assert second.client.delete(job).status_code == 204
        assert second.client.get(job).status_code == 404


@of_full_tier
def test_a_job_whose_node_stops_in_order_has_failed_at_once(nodes, funnel, warehouse):
    first, second = nodes
    with warehouse.running_before_reports(ENDLESS):
        job = job_of(second, funnel)
        reaches(first, job, "running")
        second.server.__exit__(None, None, None)
        assert state(first, job) == "failed"
        assert first.client.get(f"{job}/result").json()["code"] == "job_interrupted"
        assert warehouse.running() == 0


@of_full_tier
def test_a_response_that_is_too_long_is_a_failed_job(nodes, funnel, monkeypatch):
    monkeypatch.setattr(responses, "MAX_BYTES", 1000)
    first, second = nodes
    job = job_of(first, funnel)
    reaches(second, job, "failed")
    result = second.client.get(f"{job}/result")
    assert (result.status_code, result.json()["code"]) == (413, "result_too_large")


@of_full_tier
def test_a_deleted_visitor_is_in_no_response_of_a_job(nodes, funnel, workspace):
    first, second = nodes
    job = job_of(first, funnel, "units", step=2)
    reaches(second, job, "done")
    assert "ann" in second.client.get(f"{job}/result").text
    deletion = {"websiteId": workspace.website_id, "visitorId": "ann"}
    assert second.client.post("/api/deletions", json=deletion).status_code == 201
    assert first.client.get(f"{job}/result").status_code == 404
