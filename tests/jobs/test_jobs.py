"""`Prefer: respond-async`: an answer as a job that is watched, fetched or cancelled."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from litestar.testing import TestClient

from penstock.base.errors import StoreUnavailable
from tests.answers import problem
from tests.applications import application
from tests.cases import cases
from tests.funnels.scenario import DAY_S
from tests.recording_warehouse import BURNING, ENDLESS
from tests.tenant import BASE_URL, sign_up
from tests.waiting import eventually

ASYNC = {"Prefer": "respond-async"}


@pytest.fixture
def funnel(scene):
    scene.story("0/A 60/B")
    return scene.funnel("A", "B")


@pytest.fixture
def results(client, funnel):
    """Requests results of the funnel."""

    def read_results(headers=None, **params):
        return client.get(f"/api/funnels/{funnel}/results", headers=headers or {}, params=params)

    return read_results


def state(client, job):
    return client.get(f"/api/jobs/{job['id']}").json()["state"]


def reaches_state(client, job, expected):
    return eventually(lambda: state(client, job) == expected)


@pytest.mark.usefixtures("warehouse")
def test_a_job_goes_from_accepted_to_the_answer_that_the_route_gives(client, results):
    accepted = results(ASYNC)
    assert accepted.status_code == 202
    assert accepted.headers["preference-applied"] == "respond-async"
    job = accepted.json()
    assert accepted.headers["location"] == f"/api/jobs/{job['id']}"
    reaches_state(client, job, "done")
    done = client.get(accepted.headers["location"]).json()
    assert done["request"].startswith("GET /api/funnels/")
    assert done["createdAt"] <= done["startedAt"] <= done["finishedAt"]
    assert done["rowsRead"] == done["rowsToRead"] > 0
    fetched = client.get(done["resultUrl"])
    assert fetched.status_code == 200
    assert fetched.headers["content-type"] == "application/json"
    plain = results().json()
    source = {"servedFrom": None, "directReason": None}
    assert fetched.json() | source == plain | source


@pytest.mark.usefixtures("warehouse")
def test_a_preview_can_be_a_job_too(client, funnel, workspace):
    definition = {"steps": [{"type": "Event", "value": "A"}, {"type": "Event", "value": "B"}]}
    job = client.post("/api/funnels/preview", json=definition, headers=ASYNC).json()
    reaches_state(client, job, "done")
    assert client.get(f"/api/jobs/{job['id']}/result").json()["aggregate"]["completed"] == 1


def test_a_running_job_shows_how_many_rows_it_has_read(client, results, warehouse):
    with warehouse.running_before_reports(BURNING):
        job = results(ASYNC).json()
        first = eventually(
            lambda: (
                (job_record := client.get(f"/api/jobs/{job['id']}").json())["rowsRead"] > 1_000_000
                and job_record
            )
        )
        assert (first["state"], first["resultUrl"], first["finishedAt"]) == ("running", None, None)
        assert 0 < first["elapsedSeconds"] < 60
        assert first["rowsToRead"] >= first["rowsRead"]
        eventually(
            lambda: client.get(f"/api/jobs/{job['id']}").json()["rowsRead"] > first["rowsRead"]
        )
        assert problem(client.get(f"/api/jobs/{job['id']}/result")) == (409, "job_not_finished")
        assert client.delete(f"/api/jobs/{job['id']}").status_code == 204
        eventually(lambda: warehouse.running() == 0)


def test_jobs_run_on_while_the_event_store_does_not_say_how_far_they_are(
    client, results, scene, warehouse, clock, monkeypatch
):
    states = list[list[str]]()

    def hang(work):
        clock.advance(seconds=20)
        states.append([state(client, job) for job in jobs])
        raise StoreUnavailable(reason="no answer")

    with warehouse.running_before_reports(ENDLESS):
        jobs = [
            results(ASYNC, startAt=scene.at(-n - 1), endAt=scene.at(DAY_S)).json() for n in range(2)
        ]
        eventually(lambda: warehouse.running() == 1)
        with monkeypatch.context() as patch:
            patch.setattr(warehouse, "progress", hang)
            eventually(lambda: len(states) > 3)
        for job in jobs:
            client.delete(f"/api/jobs/{job['id']}")
        eventually(lambda: warehouse.running() == 0)
    assert states[:4] == [["running", "queued"]] * 4


def test_a_cancelled_job_ends_in_the_engine_and_has_no_answer(client, results, warehouse):
    with warehouse.running_before_reports(ENDLESS):
        job = results(ASYNC).json()
        eventually(lambda: warehouse.running() == 1)
        assert client.delete(f"/api/jobs/{job['id']}").status_code == 204
        assert state(client, job) == "cancelled"
        eventually(lambda: warehouse.running() == 0)
    assert problem(client.get(f"/api/jobs/{job['id']}/result")) == (409, "job_cancelled")
    assert state(client, job) == "cancelled"
    assert results().json()["aggregate"]["completed"] == 1


def test_jobs_beyond_half_of_the_queries_wait_and_a_waiting_one_can_be_cancelled(
    client, funnel, results, warehouse, scene
):
    periods = [{"startAt": scene.at(-n - 1), "endAt": scene.at(DAY_S)} for n in range(4)]
    with warehouse.running_before_reports(ENDLESS):
        jobs = [results(ASYNC, **period).json() for period in periods]
        eventually(lambda: warehouse.running() == 1)
        assert [state(client, job) for job in jobs] == ["running", "queued", "queued", "queued"]
        assert client.delete(f"/api/jobs/{jobs[3]['id']}").status_code == 204
        warehouse.before = None  # the job still runs; a client is answered in the meantime
        assert results().status_code == 200
        assert client.delete(f"/api/jobs/{jobs[0]['id']}").status_code == 204
        reaches_state(client, jobs[2], "done")
    assert [state(client, job) for job in jobs] == ["cancelled", "done", "done", "cancelled"]
    assert len(warehouse.reports) == 4


def test_a_failed_job_has_the_problem_that_the_route_has(client, results):
    job = results(ASYNC, cohort='{"nope": 1}').json()
    reaches_state(client, job, "failed")
    fetched, plain = client.get(f"/api/jobs/{job['id']}/result"), results(cohort='{"nope": 1}')
    assert fetched.status_code == plain.status_code == 422
    assert fetched.headers["content-type"] == "application/problem+json"
    assert fetched.json() == plain.json()


@pytest.mark.usefixtures("warehouse")
def test_a_finished_job_can_be_forgotten(client, results):
    job = results(ASYNC).json()
    reaches_state(client, job, "done")
    assert client.delete(f"/api/jobs/{job['id']}").status_code == 204
    assert client.get(f"/api/jobs/{job['id']}").status_code == 404


@pytest.mark.usefixtures("warehouse")
def test_a_finished_job_is_kept_for_an_hour(client, results, clock):
    job = results(ASYNC).json()
    reaches_state(client, job, "done")
    clock.advance(seconds=3500)
    assert state(client, job) == "done"
    clock.advance(seconds=200)
    assert client.get(f"/api/jobs/{job['id']}").status_code == 404


def test_a_workspace_has_at_most_twenty_unfinished_jobs(
    client, results, warehouse, other_workspace
):
    with warehouse.running_before_reports(ENDLESS):
        jobs = [results(ASYNC).json() for _ in range(20)]
        refused = results(ASYNC)
        assert problem(refused) == (503, "too_many_jobs")
        assert int(refused.headers["retry-after"]) > 0
        assert len(warehouse.reports) <= 1  # equal ones: one statement, whoever waits
        for job in jobs:
            assert client.delete(f"/api/jobs/{job['id']}").status_code == 204
        eventually(lambda: warehouse.running() == 0)


@pytest.mark.usefixtures("warehouse")
@cases("method", ["GET", "DELETE"])
def test_a_job_of_another_workspace_is_as_unknown_as_none(client, results, other_workspace, method):
    job = results(ASYNC).json()
    reaches_state(client, job, "done")
    foreign = other_workspace.client.request(method, f"/api/jobs/{job['id']}")
    unknown = other_workspace.client.request(method, "/api/jobs/job_unknown")
    assert foreign.status_code == unknown.status_code == 404
    assert foreign.json() | {"instance": ""} == unknown.json() | {"instance": ""}
    assert other_workspace.client.get(f"/api/jobs/{job['id']}/result").status_code == 404
    assert state(client, job) == "done"


@pytest.mark.usefixtures("warehouse")
@cases(
    "header",
    [
        "",
        "respond-sync",
        "respond-async=true",
        'note="a, respond-async"',
        "respond-async respond-async",
        ";;;",
        '"respond-async"',
        "handling=strict",
    ],
)
def test_a_prefer_header_that_asks_for_no_job_is_ignored(results, header):
    answer = results({"Prefer": header})
    assert answer.status_code == 200
    assert "preference-applied" not in answer.headers


@cases(
    "header",
    [
        "Respond-Async",
        "wait=10, respond-async",
        "respond-async; foo=bar",
        'x="a\\"b" , respond-async',
        ",,respond-async",
    ],
)
def test_the_preference_is_read_wherever_it_stands(results, header):
    assert results({"Prefer": header}).status_code == 202


def test_a_malformed_request_is_refused_at_once(results):
    assert results(ASYNC, page="0").status_code == 400


def test_a_missing_record_is_404_and_starts_no_job(client, funnel, results):
    unknown = client.get("/api/funnels/fun_unknown/results", headers=ASYNC)
    assert problem(unknown) == (404, "not_found")
    for part in ("results", "export", "trend", "units"):
        answer = client.get(f"/api/funnels/{funnel}/{part}", headers=ASYNC, params={"revision": 2})
        assert (answer.status_code, answer.json()["errors"][0]["code"]) == (400, "unknown_revision")
    assert results(ASYNC, revision=1).status_code == 202


def test_several_prefer_headers_count_as_one(client, funnel):
    answer = client.get(
        f"/api/funnels/{funnel}/results",
        headers=[("Prefer", "wait=5"), ("Prefer", "respond-async")],
    )
    assert answer.status_code == 202


def test_long_answers_leave_room_for_the_rest_of_the_service(client, results, warehouse, scene):
    periods = [{"startAt": scene.at(-n - 1), "endAt": scene.at(DAY_S)} for n in range(6)]
    with ThreadPoolExecutor() as threads, warehouse.holding() as hold:
        requests = [threads.submit(results, **period) for period in periods]
        eventually(lambda: hold.statements == 2)
        ready = client.get("/health/ready").json()
        assert (ready["status"], ready["database"], ready["warehouse"]) == ("ready", True, True)
        hold.release()
        assert {answer.result().status_code for answer in requests} == {200}


def test_stopping_the_service_stops_its_jobs(services, warehouse):
    with (
        TestClient(application(services), base_url=BASE_URL) as running,
        warehouse.running_before_reports(ENDLESS),
    ):
        client = sign_up(running, services.accounts.setup_token).client
        steps = [{"type": "Event", "value": "A"}, {"type": "Event", "value": "B"}]
        answer = client.post("/api/funnels/preview", json={"steps": steps}, headers=ASYNC)
        assert answer.status_code == 202
        eventually(lambda: warehouse.running() == 1)
    assert warehouse.running() == 0
