"""Regular expressions have limits of size, so that checking and matching them takes little time."""

from time import process_time

import httpx
import pytest

from tests.cases import cases
from tests.funnels.scenario import Json

pytestmark = pytest.mark.usefixtures("warehouse")

LARGE = r"(\pL{30}){25}|"
"""Beyond the limit of RE2 itself, which notices that after 57 ms."""
SIZE_3507 = ".{500}"


def matching(*patterns: str) -> list[Json]:
    return [
        {"property": "p", "operator": "matches_regex", "value": pattern} for pattern in patterns
    ]


def refusals(client: httpx.Client, filters: list[Json], path: str = "segments") -> dict[str, str]:
    """Return the code of each refused filter by its path."""
    answer = client.post(f"/api/{path}", json={"name": "S", "filters": filters})
    assert answer.status_code == 422, answer.text
    assert all(
        "regular expression" in e["message"] or "at most" in e["message"]
        for e in answer.json()["errors"]
    )
    return {error["field"]: error["code"] for error in answer.json()["errors"]}


@cases("pattern", [LARGE, ".{600}", "a{1}" * 65, r"\pL" * 65])
def test_a_large_pattern_is_refused_with_its_limit(client: httpx.Client, pattern: str) -> None:
    assert refusals(client, matching("^a", pattern)) == {"filters[1].value": "too_costly"}


@cases(
    "pattern", [r"^\pL+ \pL+$", "[ab]*a[ab]{900}c", "|".join(f"user{n}@x.de" for n in range(200))]
)
def test_a_usual_pattern_is_accepted(client: httpx.Client, pattern: str) -> None:
    body = {"name": pattern[:20], "filters": matching(pattern)}
    assert client.post("/api/segments", json=body).status_code == 201


def test_the_patterns_of_a_request_have_a_total(client: httpx.Client) -> None:
    patterns = [f"{SIZE_3507}{n}" for n in range(7)]
    assert refusals(client, matching(*patterns)) == {
        "filters[5].value": "too_costly",
        "filters[6].value": "too_costly",
    }
    parts = ["a{1}" * 60 + str(n) for n in range(5)]
    assert refusals(client, matching(*parts)) == {"filters[4].value": "too_costly"}


def test_a_pattern_that_occurs_again_counts_once(client: httpx.Client) -> None:
    body = {"name": "S", "filters": matching(*[SIZE_3507] * 20)}
    assert client.post("/api/segments", json=body).status_code == 201


@pytest.mark.slow("before, it took the engine six seconds")
def test_a_hundred_large_patterns_are_refused_at_once(client: httpx.Client) -> None:
    steps = [
        {
            "type": "Event",
            "value": f"e{step}",
            "filters": matching(*[f"{LARGE}{step}-{n}" for n in range(20)]),
        }
        for step in range(5)
    ]
    began_s = process_time()
    answer = client.post("/api/funnels/validate", json={"name": "F", "steps": steps})
    assert process_time() - began_s < 1
    assert answer.status_code == 422
    assert {error["code"] for error in answer.json()["errors"]} == {"too_costly"}
