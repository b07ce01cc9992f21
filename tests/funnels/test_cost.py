"""No definition exceeds the cost limit, and every saved definition can be evaluated."""

import json
import os
from collections.abc import Mapping
from random import Random
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.funnels.definitions.cost import MAX_COST, read_step, row_costs
from penstock.funnels.definitions.operands import (
    LIST,
    NONE,
    NUMBER,
    PART,
    RANGE,
    REGEX,
    TEXT,
    TIME,
    Operand,
)
from penstock.funnels.definitions.operators import Operator
from tests.cases import cases
from tests.funnels.answers import code
from tests.funnels.scenario import where
from tests.funnels.test_definition import event, funnel

EXAMPLES = max(6, int(os.environ.get("PENSTOCK_EXAMPLES", "0")) // 100)
Json = dict[str, Any]


BEFORE = [where("plan", "before", f"2026-01-{day:02d}") for day in range(1, 21)]
REGEXES = [where("plan", "matches_regex", f"^{n}.*x$") for n in range(20)]


def refusal(client: httpx.Client, body: Json, path: str = "/api/funnels") -> Json:
    answer = client.post(path, json=body)
    assert answer.status_code == 422, answer.text
    [fault] = answer.json()["errors"]
    assert fault["code"] == "too_costly"
    return dict(fault)


@cases("path", ["/api/funnels", "/api/funnels/validate", "/api/funnels/preview"])
def test_twenty_steps_of_twenty_time_filters_are_rejected_with_advice(client, path):
    body = funnel(steps=[event(f"e{n}", filters=BEFORE) for n in range(20)])
    if path.endswith("preview"):
        del body["name"]
    fault = refusal(client, body, path)
    assert fault["field"] == "steps"
    assert "The filters cost 2,400 in total; the limit is 400" in fault["message"]
    assert "Drop or simplify filters that cost 2,000" in fault["message"]
    assert "steps[0] (120)" in fault["message"]
    assert "With before or after it costs 6" in fault["message"]


def test_thousands_of_regular_expressions_are_refused_before_any_is_compiled(
    client, warehouse, monkeypatch
):
    statements = []
    query = warehouse.query_at_once
    monkeypatch.setattr(
        warehouse, "query_at_once", lambda *given: statements.append(given) or query(*given)
    )
    step = event("a", filters=REGEXES, or_=[event(f"o{n}", filters=REGEXES) for n in range(11)])
    refusal(client, funnel(steps=[step] * 20))
    assert statements == []


def test_long_values_and_page_patterns_cost_too(client):
    long = [
        where("plan", "in", json.dumps([f"{n}{'x' * 150}" for n in range(100)])) for _ in range(14)
    ]
    refusal(client, funnel(steps=[event("a", filters=long), event("b", filters=long)]))
    pages = [{"type": "Pageview", "value": f"/{n}/*"} for n in range(21)]
    refusal(client, funnel(steps=[pages[0] | {"or": pages[1:]} for _ in range(10)]))


def test_the_filters_of_goals_count_wherever_the_goal_is_used(client):
    match = {"type": "Event", "value": "paid", "filters": BEFORE}
    goal = client.post("/api/goals", json={"name": "Paid", "match": match})
    assert goal.status_code == 201, goal.text
    use = {"type": "Goal", "value": "Paid"}
    assert client.post("/api/funnels", json=funnel(steps=[use] * 3)).status_code == 201
    assert "steps[0] (120)" in refusal(client, funnel(steps=[use] * 4))["message"]


def test_a_goal_that_no_funnel_could_use_is_refused(client):
    filters = [where("plan", "contains", "x" * 16_000) for _ in range(20)]
    match = {"type": "Event", "value": "paid", "filters": filters + BEFORE}
    fault = refusal(client, {"name": "Paid", "match": match}, "/api/goals")
    assert (fault["field"], "this goal" in fault["message"]) == ("match.filters", True)


@pytest.mark.usefixtures("warehouse")
def test_a_saved_funnel_that_a_goal_made_too_costly_says_so_and_can_be_changed(client):
    match: Json = {"type": "Event", "value": "paid"}
    goal = client.post("/api/goals", json={"name": "Paid", "match": match}).json()
    use = {"type": "Goal", "value": "Paid"}
    saved = client.post("/api/funnels", json=funnel(steps=[use] * 10)).json()
    changed = client.patch(f"/api/goals/{goal['id']}", json={"match": match | {"filters": BEFORE}})
    assert changed.status_code == 200
    answer = client.get(f"/api/funnels/{saved['id']}/results")
    assert code(answer, 409) == "definition_too_costly"
    assert "cost 1,200 in total" in answer.json()["detail"]
    assert client.get(f"/api/funnels/{saved['id']}").status_code == 200
    smaller = client.put(f"/api/funnels/{saved['id']}", json=funnel(steps=[use] * 2))
    assert smaller.status_code == 200
    assert client.get(f"/api/funnels/{saved['id']}/results").status_code == 200


VALUES: Mapping[Operand[Any], list[str | None]] = {
    TEXT: ["", "pro", "ü" * 2_000],
    PART: ["", "pro", "ü" * 2_000],
    NONE: [None],
    LIST: [
        '["a", 1, true]',
        json.dumps([f"v{n}" for n in range(100)]),
        '["\\u00e9\\ud83d\\ude00"]',
    ],
    RANGE: ["[-1, 1e300]", "[0, 0]"],
    NUMBER: ["1", "-0.5", "1e3", "0"],
    TIME: ["2026-01-01", "1704164645000"],
    REGEX: ["^a.*b$", "(?i)[0-9]{1,200}|\\\\pL+", "x|y"],
}


def random_match(random: Random, units: int) -> Json:
    """A match whose filters cost at most about this many units."""
    match: Json = random.choice(
        [
            {"type": "Event", "value": f"e{random.randrange(300)}"},
            {"type": "Screen view", "value": "Home 😀"},
            {"type": "Transaction", "value": "it's \\ {p0:String}"},
            {"type": "Pageview", "value": f"/{'a' * 500}/{random.randrange(300)}"},
            {"type": "Pageview", "value": f"/**/x-{random.randrange(300)}/*"},
        ]
    )
    filters: list[Json] = []
    while len(filters) < 20 and units > 6:
        operator = random.choice([*Operator])
        value = random.choice(VALUES[operator.traits.operand])
        key = random.choice(["plan", "$country", "a.b", "k" * 200])
        filters.append(where(key, operator, value))
        units -= row_costs([read_step({"filters": filters[-1:]})], {})[0].units
    return match | {"filters": filters}


def random_funnel(random: Random) -> Json:
    """Any valid definition, often close to the cost limit."""
    rows: list[Json] = []
    left = random.choice([20, MAX_COST, MAX_COST])
    count = random.choice([2, 8, 20, 30])
    for at in range(count):
        many = random.choice([0, 0, 2, 8])
        share = max(0, left // (count - at))
        own = random_match(random, share)
        row = own | {"or": [random_match(random, share // (many + 1)) for _ in range(many)]}
        if at >= 20 or (at and random.random() < 0.1):
            row["diagnostic"] = True
        elif many and random.random() < 0.4:
            row["mode"] = "all_of"
        rows.append(row)
        left -= row_costs([read_step(row)], {})[0].units
    body: Json = {"steps": rows, "breakdownProperties": random.choice([[], ["plan", "$os", "x"]])}
    if random.random() < 0.5:
        body |= {"countingUnit": "attempt", "attemptProperty": "a"}
    if random.random() < 0.5:
        body["sequenceProperty"] = "n"
    return body


@pytest.mark.slow("statements at the limit take seconds each to analyse")
def test_every_definition_that_can_be_saved_can_be_evaluated(client):
    evaluated = []

    @settings(
        max_examples=EXAMPLES,
        suppress_health_check=list(HealthCheck),
        database=None,
        derandomize=True,
    )
    @given(st.integers(0, 2**32))
    def check(seed: int) -> None:
        body = random_funnel(Random(seed))
        verdict = client.post("/api/funnels/validate", json=body | {"name": "F"})
        assert verdict.status_code in (200, 422), verdict.text
        answer = client.post("/api/funnels/preview", json=body)
        assert answer.status_code == verdict.status_code, answer.text[:2000]
        if answer.status_code == 200:
            evaluated.append(seed)

    check()
    assert evaluated
