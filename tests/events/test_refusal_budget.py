"""A refusal costs little, however much is wrong: bounded answers, memory and lists."""

import gzip
import json
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from tests.answers import problem
from tests.cases import cases
from tests.serving import Served
from tests.tenant import Tenant

ITEM = {"type": "event", "name": "e", "visitorId": "v"}
UNKNOWN = {f"x{number}": 0 for number in range(5_000)}
MANY_UNKNOWN = {f"x{number}": 0 for number in range(300_000)}

both_routes = cases(
    "path",
    ["/api/track", pytest.param("/api/v1/events/batch", marks=pytest.mark.full("the other route"))],
)


def zipped(body: Any) -> dict[str, Any]:
    content = gzip.compress(json.dumps(body, separators=(",", ":")).encode())
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    return {"content": content, "headers": headers}


def test_an_item_is_answered_with_100_faults_and_the_number_of_others(
    workspace: Tenant, site: str
) -> None:
    answer = workspace.client.post("/api/track", json={"websiteId": site, **ITEM, **UNKNOWN})
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, "invalid")
    assert (len(problem["errors"]), problem["moreErrors"]) == (100, 4_900)
    assert problem["detail"] == "The input breaks 5,000 rules; errors has the first 100."
    batch = {"websiteId": site, "events": [{**ITEM, **UNKNOWN}, ITEM]}
    rejected, accepted = workspace.client.post("/api/track", json=batch).json()["results"]
    assert (len(rejected["errors"]), rejected["moreErrors"]) == (100, 4_900)
    assert (accepted["status"], "moreErrors" in accepted) == ("accepted", False)


def test_few_faults_have_no_number_of_others(workspace: Tenant, site: str) -> None:
    answer = workspace.client.post("/api/track", json={"websiteId": site, **ITEM, "x": 1, "y": 2})
    assert len(answer.json()["errors"]) == 2
    assert "moreErrors" not in answer.json()


@both_routes
def test_a_body_is_answered_with_1000_faults_and_each_item_with_one_or_more(
    workspace: Tenant, path: str
) -> None:
    items = [{f"x{number}": 0 for number in range(150)}] * 1000
    answer = workspace.client.post(path, **zipped({"events": items}))
    results = answer.json()["results"]
    assert answer.json()["rejected"] == len(results) == 1000
    assert sum(len(result["errors"]) for result in results) <= 1000
    assert all(result["errors"] and result["moreErrors"] for result in results)
    total = len(results[0]["errors"]) + results[0]["moreErrors"]
    assert {len(result["errors"]) + result["moreErrors"] for result in results} == {total}
    assert len(answer.content) < 400_000


def test_the_rejected_items_of_a_large_batch_have_all_their_faults(
    workspace: Tenant, site: str
) -> None:
    wrong = {**ITEM, **{f"x{number}": 0 for number in range(60)}}
    body = {"websiteId": site, "events": [*[ITEM] * 900, *[wrong] * 10]}
    results = workspace.client.post("/api/track", json=body).json()["results"]
    assert [len(result["errors"]) for result in results] == [0] * 900 + [60] * 10


@both_routes
def test_the_size_of_an_item_is_checked_before_its_fields(
    workspace: Tenant, site: str, path: str
) -> None:
    item = {"websiteId": site, **ITEM, **MANY_UNKNOWN}
    good = {"websiteId": site, "visitorId": "v"}
    good |= {"event": "e"} if "v1" in path else {"type": "event", "name": "e"}
    started_s = process_time()
    answer = workspace.client.post(path, **zipped({"events": [item, good]}))
    assert process_time() - started_s < 5
    rejected, accepted = answer.json()["results"]
    assert [error["code"] for error in rejected["errors"]] == ["too_large"]
    assert accepted["status"] == "accepted"


@cases("path", ["/api/auth/login", "/api/auth/signup", "/api/funnels"])
def test_every_route_bounds_its_faults(workspace: Tenant, path: str) -> None:
    for body in (UNKNOWN, {f"x{number}": 0 for number in range(90_000)}):
        answer = workspace.browser.post(path, json=body)
        assert answer.status_code in (413, 422), answer.text[:200]
        assert len(answer.content) < 20_000
        if answer.status_code == 422 and body is UNKNOWN:
            assert answer.json()["moreErrors"] > 4_900


def test_many_query_parameters_take_no_time(workspace: Tenant) -> None:
    started_s = process_time()
    query = "&".join(f"x{number}" for number in range(8_000))
    answer = workspace.client.get(f"/api/funnels?{query}")
    assert process_time() - started_s < 3
    assert problem(answer) == (400, "too_many_parameters")


def test_a_listed_refusal_has_10_faults(workspace: Tenant, site: str) -> None:
    for fields in ({**ITEM, **UNKNOWN}, {**ITEM, "y" * 60_000: 0}):
        workspace.client.post("/api/track", json={"websiteId": site, **fields})
    long_name, many = workspace.client.get("/api/events/refused").json()["data"]
    assert len(many["errors"]) == 10
    assert len(long_name["errors"][0]["field"]) < 300


@pytest.mark.usefixtures("starts_service")
@pytest.mark.slow("starts a service, whose memory it measures")
@pytest.mark.parametrize("rounds", [1, pytest.param(2, marks=pytest.mark.full("more refusals"))])
def test_refusals_leave_the_memory_of_the_service_as_it_was(tmp_path: Path, rounds: int) -> None:
    with Served(tmp_path / "data") as served:
        _, site = served.first_account()
        wide = {f"x{number}": 0 for number in range(1_000)}
        single = zipped({"websiteId": site, **ITEM, **MANY_UNKNOWN})
        batch = zipped({"websiteId": site, "events": [wide] * 1000})
        assert served.client.post("/api/track", json={"websiteId": site, **ITEM}).is_success
        before_mb = memory_mb(served, "VmRSS")
        for body in (single, batch) * rounds:
            answer = served.client.post("/api/track", **body)
            assert answer.status_code in (202, 422)
            assert len(answer.content) < 500_000
        assert memory_mb(served, "VmHWM") - before_mb < 350  # once 21 MB of answer, 1.35 GB


def memory_mb(served: Served, name: str) -> float:
    """VmRSS: memory now. VmHWM: the most so far."""
    status = Path(f"/proc/{served.process.pid}/status")
    if not status.exists():
        pytest.skip("needs /proc")
    lines = status.read_text("utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))
