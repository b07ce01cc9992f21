"""Validation, revisions with descriptions of their changes, and results of old revisions."""

from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.funnels.definitions.revisions import Revision, changes_between
from penstock.funnels.definitions.schema import ValidationContext
from penstock.funnels.saved.schema import FunnelIn
from penstock.http.bodies import parse_model
from tests.conftest import ShiftedClock
from tests.funnels.answers import code, faults
from tests.funnels.examples import example_settings
from tests.funnels.scenario import READ_ONLY, Json, Scene, outcome, step, where
from tests.tenant import Tenant

PLAN = where("plan", value="pro")
AMOUNT = where("amount", "greater_than", "5")
A, B, C, D = (step(name) for name in "ABCD")


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url


def attempts(**fields: Any) -> Json:
    return {
        "name": "Checkout",
        "countingUnit": "attempt",
        "attemptProperty": "id",
        "steps": [A, B],
        **fields,
    }


def save(client: httpx.Client, body: Json) -> str:
    answer = client.post("/api/funnels", json=body)
    assert answer.status_code == 201, answer.text
    path: str = f"/api/funnels/{answer.json()['id']}"
    return path


def put(client: httpx.Client, path: str, body: Json) -> Json:
    answer = client.put(path, json=body)
    assert answer.status_code == 200, answer.text
    record: Json = answer.json()
    return record


def definition(record: Json) -> Json:
    other = (*READ_ONLY, "name", "replacedRevision")
    return {name: value for name, value in record.items() if name not in other}


def test_validation_returns_the_definition_and_saves_nothing(client: httpx.Client) -> None:
    client.post("/api/goals", json={"name": "Paid", "match": {"type": "Event", "value": "paid"}})
    body = attempts(steps=[A, {"type": "Goal", "value": "Paid"}])
    answer = client.post("/api/funnels/validate", json=body)
    assert answer.status_code == 200, answer.text
    assert client.get("/api/funnels").json()["total"] == 0
    saved = client.post("/api/funnels", json=body).json()
    assert answer.json() == {"name": "Checkout", **definition(saved)}
    assert answer.json()["conversionWindowSeconds"] == 604_800
    assert client.post("/api/funnels/validate", json=answer.json()).json() == answer.json(), (
        "what it answers can be sent"
    )


@pytest.mark.usefixtures("warehouse")
def test_validation_names_every_fault_that_saving_would_name(client: httpx.Client) -> None:
    bad = where("x", "matches_regex", "(")
    body = {
        "countingUnit": "attempt",
        "steps": [{"type": "Goal", "value": "None"}, {**B, "filters": [bad]}],
        "more": 1,
    }
    answer = client.post("/api/funnels/validate", json=body)
    refused = client.post("/api/funnels", json=body)
    assert set(faults(answer)) == {
        "name required",
        "attemptProperty required",
        "steps[0].value goal_not_found",
        "steps[1].filters[0].value bad_regex",
        "more unknown_field",
    }
    assert refused.status_code == 422
    assert answer.json()["errors"] == refused.json()["errors"]
    json_type = {"Content-Type": "application/json"}
    broken = client.post("/api/funnels/validate", content=b"{", headers=json_type)
    assert broken.status_code == 400


@pytest.mark.every_database
def test_every_revision_is_kept_with_its_definition_and_its_changes(
    client: httpx.Client, clock: ShiftedClock
) -> None:
    path = save(client, attempts())
    first = client.get(path).json()
    clock.advance(seconds=60)
    put(client, path, attempts(name="Web checkout"))
    clock.advance(seconds=60)
    second = put(
        client, path, attempts(name="Web checkout", steps=[A, C], conversionWindowSeconds=2_592_000)
    )

    answer = client.get(f"{path}/revisions")
    assert answer.status_code == 200, answer.text
    assert answer.json() == {
        "data": [
            {
                "revision": 2,
                "name": "Web checkout",
                "definition": definition(second),
                "createdAt": second["updatedAt"],
                "changes": [
                    "Name Checkout -> Web checkout",
                    "Step 2 now matches Event C instead of Event B",
                    "Conversion window 7 days -> 30 days",
                ],
            },
            {
                "revision": 1,
                "name": "Checkout",
                "definition": definition(first),
                "createdAt": first["createdAt"],
                "changes": [],
            },
        ],
        "page": 1,
        "pageSize": 20,
        "total": 2,
    }


def test_revisions_are_paged_and_compared_with_the_previous_revision(
    client: httpx.Client,
) -> None:
    path = save(client, attempts(sequenceProperty="s1"))
    for number in range(2, 6):
        assert put(client, path, attempts(sequenceProperty=f"s{number}"))["revision"] == number
    page = client.get(f"{path}/revisions", params={"page": 2, "pageSize": 2}).json()
    assert [(revision["revision"], revision["changes"]) for revision in page["data"]] == [
        (3, ["Sequence property s2 -> s3"]),
        (2, ["Sequence property s1 -> s2"]),
    ]
    assert page["total"] == 5
    assert client.get(f"{path}/revisions", params={"page": 9}).json()["data"] == []
    assert client.get(f"{path}/revisions", params={"pageSize": 0}).status_code == 400


def test_a_rejected_or_identical_replacement_creates_no_revision(client: httpx.Client) -> None:
    path = save(client, attempts())
    put(client, path, attempts())
    assert client.put(path, json=attempts(steps=[A])).status_code == 422
    assert client.get(f"{path}/revisions").json()["total"] == 1


def test_revisions_are_deleted_with_their_funnel(
    client: httpx.Client, other_workspace: Tenant
) -> None:
    path = save(client, attempts())
    put(client, path, attempts(steps=[A, C]))
    assert other_workspace.client.get(f"{path}/revisions").status_code == 404
    assert other_workspace.client.get(f"{path}/results", params={"revision": 1}).status_code == 404
    assert client.delete(path).status_code == 204
    assert client.get(f"{path}/revisions").status_code == 404
    assert client.get(f"{path}/results", params={"revision": 1}).status_code == 404


@pytest.mark.usefixtures("warehouse")
def test_results_of_an_earlier_revision(scene: Scene, client: httpx.Client) -> None:
    funnel = scene.attempts("A", "B", breakdownProperties=["plan"])
    scene.story("0/A 10/B", plan="pro")
    put(client, f"/api/funnels/{funnel}", attempts(attemptProperty="attempt", steps=[A, C]))
    now, then = scene.results(funnel), scene.results(funnel, revision=1)
    assert (now["definitionRevision"], outcome(now["aggregate"])) == (2, (1, 0, 0, 1))
    assert now["cohorts"]["data"][0]["cohort"] == {}
    assert (then["definitionRevision"], outcome(then["aggregate"])) == (1, (1, 1, 0, 0))
    assert scene.results(funnel, revision=1, cohort={"plan": "pro"})["aggregate"]["entered"] == 1
    times = {name: now[name] for name in ("evaluatedAt", "computedAt", "servedFrom")}
    assert {**scene.results(funnel, revision=2), **times} == now

    for revision, fault in (
        (3, "unknown_revision"),
        (2**31 - 1, "unknown_revision"),
        (0, "greater_than_equal"),
        ("x", "wrong_type"),
    ):
        answer = scene.request(funnel, "results", revision=revision)
        assert faults(answer, 400) == [f"revision {fault}"]


@pytest.mark.usefixtures("warehouse")
def test_an_earlier_revision_counts_by_the_current_goals(
    scene: Scene, client: httpx.Client
) -> None:
    goal = scene.goal("Paid", B)
    funnel = scene.attempts("A", {"type": "Goal", "value": "Paid"})
    scene.story("0/A 10/C")
    put(client, f"/api/funnels/{funnel}", attempts(attemptProperty="attempt", steps=[A, D]))
    client.patch(f"/api/goals/{goal['id']}", json={"match": C})
    then = scene.results(funnel, revision=1)
    assert then["goals"] == [{"name": "Paid", "id": goal["id"], "revision": 2}]
    assert then["aggregate"]["completed"] == 1
    assert scene.results(funnel)["goals"] == []

    assert client.delete(f"/api/goals/{goal['id']}").status_code == 204
    answer = scene.request(funnel, "results", revision=1)
    assert code(answer, 409) == "goal_gone"
    assert "Paid" in answer.json()["detail"]
    assert scene.results(funnel)["aggregate"]["entered"] == 1


DONE = {"type": "Pageview", "value": "/done"}


def steps(*rows: Json) -> Json:
    return {"steps": list(rows)}


CHANGES: dict[str, tuple[Json, Json, list[str]]] = {
    "a step added": (steps(A, B, C), steps(A, B, C, D), ["Step 4 added after step 3: Event D"]),
    "a step added first": ({}, steps(C, A, B), ["Step 1 added at the beginning: Event C"]),
    "a step removed": (steps(A, B, C), steps(A, C), ["Step 2 (Event B) removed"]),
    "a step moved": (steps(A, B, C), steps(B, C, A), ["Step 1 (Event A) moved: now step 3"]),
    "a step replaced by two": (
        steps(A, B, DONE),
        steps(A, C, {"type": "Screen view", "value": "D"}, DONE),
        [
            "Step 2 now matches Event C instead of Event B",
            "Step 3 added after step 2: Screen view D",
        ],
    ),
    "a step with all it has": (
        {},
        steps(A, B, step("C", filters=[PLAN, AMOUNT]) | {"or": [D, step("A", filters=[PLAN])]}),
        [
            "Step 3 added after step 2: Event C where plan equals pro and amount greater than 5 "
            "or Event D or Event A where plan equals pro"
        ],
    ),
    "a diagnostic row added": (
        {},
        steps(A, step("C", diagnostic=True), B),
        ["Diagnostic row after step 1 added: Event C"],
    ),
    "a diagnostic row above the first step": (
        {},
        steps(step("C", diagnostic=True), A, B),
        ["Diagnostic row before step 1 added: Event C"],
    ),
    "a step made diagnostic": (
        steps(A, B, C),
        steps(A, step("B", diagnostic=True), C),
        ["Step 2 (Event B) is now a diagnostic row after step 1"],
    ),
    "a diagnostic row made a step": (
        steps(A, step("B", diagnostic=True), C),
        steps(A, B, C),
        ["Diagnostic row after step 1 (Event B) is now step 2"],
    ),
    "filters": (
        steps(A, step("B", filters=[PLAN])),
        steps(A, step("B", filters=[AMOUNT])),
        ["Step 2: filter removed: plan equals pro", "Step 2: filter added: amount greater than 5"],
    ),
    "filters in another order": (
        steps(A, step("B", filters=[PLAN, AMOUNT])),
        steps(A, step("B", filters=[AMOUNT, PLAN])),
        ["Step 2: filter: order is now amount greater than 5, plan equals pro"],
    ),
    "options": (
        steps(A, step("B", "C", "D")),
        steps(A, step("B", "A")),
        [
            "Step 2: option removed: Event C",
            "Step 2: option removed: Event D",
            "Step 2: option added: Event A",
        ],
    ),
    "a group": (
        steps(A, step("B", "C")),
        steps(A, step("B", "C", "D", mode="all_of")),
        ["Step 2 now needs all of its parts, in any order", "Step 2: part added: Event D"],
    ),
    "no group": (
        steps(A, step("B", "C", mode="all_of")),
        steps(A, step("B", "C")),
        ["Step 2 now needs any one of its options"],
    ),
    "the unit": (
        {},
        {"countingUnit": "visitor", "attemptProperty": None},
        [
            "Counts visitors instead of attempts",
            "Attempt property id -> none",
            "Conversion window 7 days -> unlimited",
        ],
    ),
    "breakdowns": (
        {"breakdownProperties": ["plan", "$country"]},
        {"breakdownProperties": ["$country", "variant"]},
        ["Breakdown property removed: plan", "Breakdown property added: variant"],
    ),
    "the window": (
        {"conversionWindowSeconds": 3600},
        {"conversionWindowSeconds": 86_400},
        ["Conversion window 1 hour -> 1 day"],
    ),
    "a window in minutes": (
        {},
        {"conversionWindow": {"value": 30, "unit": "minute"}},
        ["Conversion window 7 days -> 30 minutes"],
    ),
    "the field of the window": (
        {"conversionWindowSeconds": 3600},
        {"conversionWindow": {"value": 1, "unit": "hour"}},
        ["Conversion window is written differently: 1 hour"],
    ),
    "a long value": (
        {},
        steps(A, step("x" * 150)),
        [f"Step 2 now matches Event {'x' * 99}… instead of Event B"],
    ),
}


def revision(**fields: Any) -> Revision:
    body = httpx.Request("POST", "http://x", json=attempts(**fields)).content
    sent = parse_model(body, FunnelIn, ValidationContext({}, lambda pattern: None))
    return Revision(1, sent.name, sent.saved(), 0)


@pytest.mark.parametrize(("before", "after", "texts"), CHANGES.values(), ids=CHANGES)
def test_a_change_is_described_in_words(before: Json, after: Json, texts: list[str]) -> None:
    assert list(changes_between(revision(**before), revision(**after))) == texts


matches = st.fixed_dictionaries(
    {
        "type": st.just("Event"),
        "value": st.sampled_from("AB"),
        "filters": st.sampled_from(([], [PLAN])),
    }
)
rows = st.fixed_dictionaries(
    {"type": st.just("Event"), "value": st.sampled_from("ABC"), "or": st.lists(matches, max_size=2)}
)
definitions = st.builds(lambda steps: revision(steps=steps), st.lists(rows, min_size=2, max_size=5))


@example_settings(40)
@given(definitions, definitions)
def test_only_a_changed_definition_has_a_list_of_changes(before: Revision, after: Revision) -> None:
    assert bool(list(changes_between(before, after))) == (before.definition != after.definition)
