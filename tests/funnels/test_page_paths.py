"""Steps, goals, filters, cohorts and the catalogue treat all spellings of a path as one."""

import json
from typing import Any

import pytest

from tests.cases import cases, full_except
from tests.funnels.scenario import Json, Scene, by_cohort, column, outcome

pytestmark = pytest.mark.usefixtures("warehouse")

CAFE = ["/café", "/caf%C3%A9", "/caf%c3%a9", "/cafe\u0301", "/cafe%CC%81"]


@pytest.fixture
def cafe(scene: Scene) -> Scene:
    """Each visitor opens the page by a different spelling, then a page below, and orders there."""
    for number, path in enumerate(CAFE):
        fields: Json = {"visitorId": f"visitor-{number}"}
        scene.track(
            [
                {"type": "pageview", "path": path, "timestamp": scene.at(0), **fields},
                {"type": "pageview", "path": f"{path}/a b", "timestamp": scene.at(1), **fields},
                {**scene.item(2, "ordered"), "path": f"{path}/a%20b", **fields},
            ]
        )
    return scene


def page(value: str, *filters: Json) -> Json:
    return {"type": "Pageview", "value": value, "filters": list(filters)}


def path_filter(operator: str, value: Any) -> Json:
    text = value if isinstance(value, str) else json.dumps(value)
    return {"property": "$path", "operator": operator, "value": text}


@cases("path", full_except(CAFE[1:2], CAFE, "more spellings in the definition"))
def test_steps_match_every_spelling(cafe: Scene, path: str) -> None:
    report = cafe.results(cafe.funnel(page(path), page(f"{path}/a%20b"), "ordered"))
    steps = report["aggregate"]["steps"]
    assert column(steps, "count") == [5, 5, 5]
    assert steps[0]["value"] == path  # The value is shown as saved.


def test_patterns_match_every_spelling(cafe: Scene) -> None:
    patterns = [
        "/caf%C3%A9/*", "/café/a *", "/caf*/a%20*", "*/*/a b", "/**/a b", "/caf%c3%a9/**"
    ]  # fmt: skip
    rows = [{**page(pattern), "diagnostic": True} for pattern in patterns]
    report = cafe.results(cafe.funnel(page("/caf*"), *rows, "ordered"))["aggregate"]
    assert column(report["steps"], "count") == [5, 5]
    units = {row["value"]: row["units"] for row in report["diagnostics"]}
    assert units == dict.fromkeys(patterns, 5)


def test_goals_match_every_spelling(cafe: Scene) -> None:
    goal = {"name": "At the café", "match": {"type": "Pageview", "value": "/caf%c3%a9/?x"}}
    assert cafe.client.post("/api/goals", json=goal).status_code == 201
    assert cafe.counts(cafe.funnel({"type": "Goal", "value": "At the café"}, "ordered")) == [5, 5]


FILTERS: list[tuple[str, Any, int]] = [
    # operator, value, visitors whose order passes
    ("equals", "/caf%c3%a9/a b", 5),
    ("equals", "/cafe\u0301/a%20b/", 5),
    ("not_equals", "/caf%C3%A9/a b", 0),
    ("in", ["/x", "/caf%c3%a9/a b"], 5),
    ("not_in", ["/x", "/caf%c3%a9/a b"], 0),
    ("starts_with", "/caf%C3%A9/", 5),
    ("ends_with", "%c3%a9/a b", 5),
    ("contains", "fe\u0301/a ", 5),
    ("not_contains", "é/a ", 0),
    ("equals_ignore_case", "/CAF%C3%89/A b/", 5),
    ("contains_ignore_case", "%c3%89/A ", 5),
    ("matches_regex", "^/caf./a%20b$", 5),
    ("equals", "", 0),
]


def test_filters_of_the_path_match_every_spelling(cafe: Scene, subtests: pytest.Subtests) -> None:
    """Each filter is that of a row of orders, in two funnels because a funnel has few rows."""
    for group in (FILTERS[:7], FILTERS[7:]):
        rows: list[Json] = [
            {
                "type": "Event",
                "value": "ordered",
                "filters": [path_filter(operator, value)],
                "diagnostic": True,
            }
            for operator, value, _ in group
        ]
        report = cafe.results(cafe.funnel(page("/café"), page("/café/a b"), *rows))["aggregate"]
        assert column(report["steps"], "count") == [5, 5]
        for (operator, value, count), row in zip(group, report["diagnostics"], strict=True):
            with subtests.test(operator, value=value):
                assert row["units"] == count


def test_reports_and_their_cohorts_have_one_path(cafe: Scene) -> None:
    funnel = cafe.funnel(page("/caf*"), "ordered", breakdownProperties=["$path"])
    assert by_cohort(cafe.results(funnel), "$path") == {"/café": 5}
    for path in CAFE:
        assert outcome(cafe.results(funnel, cohort={"$path": path})["aggregate"])[:2] == (5, 5)


def test_the_catalogue_has_one_path_and_finds_it_by_every_spelling(cafe: Scene) -> None:
    def fetch(what: str, **parameters: Any) -> Any:
        answer = cafe.client.get(f"/api/schema/{what}", params=parameters)
        return answer.raise_for_status().json()["data"]

    pages = {seen["name"]: seen["count"] for seen in fetch("events", kind="pageview")}
    assert pages == {"/café": 5, "/café/a%20b": 5}
    for search in ("caf%c3%a9/a ", "CAFÉ/A%20B"):
        [name] = fetch("events", search=search)
        assert name["name"] == "/café/a%20b"
        [value] = fetch("values", property="$path", search=search)
        assert (value["value"], value["count"]) == ("/café/a%20b", 10)
    for path in CAFE:
        assert column(fetch("properties", event=path, search="$path"), "property") == ["$path"]
        assert fetch("values", property="$path", event=path)
