"""Only its own workspace can create, read, list, replace and delete a saved funnel."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from tests.cases import cases
from tests.conftest import ShiftedClock
from tests.funnels.answers import code, faults, fields
from tests.funnels.scenario import Json, column, rows_of, step, where
from tests.tenant import Tenant, visitor

FUNNEL_TO_FIND = {"steps": rows_of(("started", "paid"))}
GOAL_TO_FIND = {"match": step("paid")}
STEPS = [{"type": "Pageview", "value": "/cart"}, {"type": "Transaction", "value": "purchase"}]
FUNNEL: Json = {"name": "Checkout", "steps": STEPS}


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url


def save(client: httpx.Client, **changes: Any) -> Json:
    answer = client.post("/api/funnels", json={**FUNNEL, **changes})
    assert answer.status_code == 201, answer.text
    record: Json = answer.json()
    return record


def test_a_saved_funnel_reads_back_as_it_was_returned(client: httpx.Client) -> None:
    plan = where('a.b:c "d" `e` ключ', "not_in", '["pro", 1, true]')
    cart = [{"type": "Screen view", "value": "Cart", "filters": []}]
    first = {**STEPS[0], "filters": [plan], "mode": "all_of", "or": cart}
    record = save(
        client,
        name="Checkout 🛒",
        countingUnit="attempt",
        attemptProperty="attempt_id",
        sequenceProperty="n",
        breakdownProperties=["variant", "$country"],
        conversionWindowSeconds=86400,
        steps=[first, step("failed", diagnostic=True), STEPS[1]],
    )
    assert record["steps"][0] == {**first, "diagnostic": False}
    assert client.get(f"/api/funnels/{record['id']}").json() == record


def test_names_of_funnels_need_not_be_unique(client: httpx.Client) -> None:
    assert save(client)["id"] != save(client)["id"]


@pytest.mark.every_database
def test_a_request_with_a_draft_is_safe_to_repeat(
    client: httpx.Client, other_workspace: Tenant
) -> None:
    def post(browser: httpx.Client, draft: str = "first", **changes: Any) -> str:
        body = {**FUNNEL, **changes}
        answer = browser.post("/api/funnels", params={"draft": draft}, json=body)
        assert answer.status_code == 201, answer.text
        funnel_id: str = answer.json()["id"]
        return funnel_id

    with ThreadPoolExecutor(4) as pool:
        [funnel_id] = set(pool.map(lambda _: post(client), range(8)))
    changed = {"name": "Renamed", "steps": STEPS}
    client.put(f"/api/funnels/{funnel_id}", json=changed).raise_for_status()
    assert post(client) == funnel_id
    others = {post(client, "second"), post(client, folder="Shop"), post(other_workspace.client)}
    assert len(others | {funnel_id}) == 4


def test_the_revision_rises_with_each_change_of_the_definition(
    client: httpx.Client, clock: ShiftedClock
) -> None:
    record = save(client)
    path = f"/api/funnels/{record['id']}"

    def put(**changes: Any) -> Json:
        clock.advance(seconds=60)
        answer = client.put(path, json={**FUNNEL, **changes})
        assert answer.status_code == 200, answer.text
        body: Json = answer.json()
        assert body.pop("replacedRevision") <= body["revision"]
        assert client.get(path).json() == body
        return body

    assert put() == record, "a replacement that changes nothing leaves the record as it is"
    assert put(countingUnit="visitor", breakdownProperties=[]) == record, (
        "nor does a default that is spelled out"
    )

    renamed = put(name="Web checkout")
    assert renamed == {**record, "name": "Web checkout", "updatedAt": renamed["updatedAt"]}
    assert renamed["updatedAt"] > record["updatedAt"]

    changed = put(name="Web checkout", conversionWindowSeconds=3600)
    assert (changed["revision"], changed["createdAt"]) == (2, record["createdAt"])
    assert put(name="Web checkout", conversionWindowSeconds=3600)["revision"] == 2
    back = put()
    assert back == {**record, "revision": 3, "updatedAt": back["updatedAt"]}, (
        "a replacement takes the whole definition"
    )


@pytest.mark.every_database
def test_concurrent_changes_get_separate_revisions(client: httpx.Client) -> None:
    path = f"/api/funnels/{save(client)['id']}"

    def put(number: int) -> int:
        steps = [*STEPS, {"type": "Event", "value": f"thanks {number}"}]
        revision: int = client.put(path, json={**FUNNEL, "steps": steps}).json()["revision"]
        return revision

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(put, range(16))) == list(range(2, 18))


def test_a_refused_replacement_changes_nothing(client: httpx.Client) -> None:
    record = save(client)
    answer = client.put(f"/api/funnels/{record['id']}", json={**FUNNEL, "steps": STEPS[:1]})
    assert answer.status_code == 422
    assert client.get(f"/api/funnels/{record['id']}").json() == record


def test_the_list_is_sorted_by_name_or_by_the_last_change(
    client: httpx.Client, clock: ShiftedClock
) -> None:
    for name in ("b", "A", "c"):
        clock.advance(seconds=1)
        save(client, name=name)
    clock.advance(seconds=1)
    first = client.get("/api/funnels?search=b").json()["data"][0]
    client.put(f"/api/funnels/{first['id']}", json={**FUNNEL, "name": "B"}).raise_for_status()

    def names(sort: str) -> list[str]:
        data = client.get("/api/funnels", params={"sort": sort}).json()["data"]
        return column(data, "name")

    assert names("name") == ["A", "B", "c"]
    assert names("updated") == ["B", "c", "A"]
    assert names("created") == ["c", "A", "B"]
    assert client.get("/api/funnels?sort=size").status_code == 400


def test_the_list_has_pages_newest_first(client: httpx.Client, clock: ShiftedClock) -> None:
    records = []
    for number in range(5):
        clock.advance(seconds=1)
        records.append(save(client, name=f"Funnel {number}"))
    newest = records[::-1]
    for query, records, page, size in (
        ("", newest, 1, 20),
        ("page=2&pageSize=2", newest[2:4], 2, 2),
        ("page=9", [], 9, 20),
    ):
        expected = {"data": records, "page": page, "pageSize": size, "total": 5}
        assert client.get(f"/api/funnels?{query}").json() == expected


def test_a_malformed_query_names_the_parameter(client: httpx.Client) -> None:
    numbers = ("0", "x", "1e3", "1_0", "1.0", "%2B1", "%201", str(10**30))
    for query in (
        *(f"page={number}" for number in numbers),
        "pageSize=0",
        "pageSize=101",
        "page=1&page=2",
        "size=5",
    ):
        answer = client.get(f"/api/funnels?{query}")
        assert answer.status_code == 400, query
        assert answer.json()["errors"][0]["field"] == query.partition("=")[0]


def test_a_deleted_funnel_no_longer_exists(client: httpx.Client) -> None:
    record = save(client)
    path = f"/api/funnels/{record['id']}"
    deleted = client.delete(path)
    assert (deleted.status_code, deleted.content) == (204, b"")
    for answer in (client.get(path), client.put(path, json=FUNNEL), client.delete(path)):
        assert answer.status_code == 404
    assert client.get("/api/funnels").json()["data"] == []


def test_a_funnel_of_another_workspace_is_unknown(
    client: httpx.Client, other_workspace: Tenant
) -> None:
    record = save(client)
    path = f"/api/funnels/{record['id']}"
    other = other_workspace.client
    unknown = other.get("/api/funnels/fun_none")
    for answer in (other.get(path), other.put(path, json=FUNNEL), other.delete(path)):
        assert answer.status_code == 404
        assert answer.json() == {**unknown.json(), "instance": path}
    assert other.get("/api/funnels").json()["data"] == []
    assert client.get(path).json() == record


def test_every_request_needs_a_key(server: TestClient[Litestar]) -> None:
    anonymous = visitor(server)
    for room, change in (("/api/funnels", "PUT"), ("/api/goals", "PATCH")):
        for method, path in (
            ("GET", room),
            ("POST", room),
            ("GET", f"{room}/x"),
            (change, f"{room}/x"),
            ("DELETE", f"{room}/x"),
        ):
            answer = anonymous.request(
                method, path, json=FUNNEL if method in ("POST", change) else None
            )
            assert answer.status_code == 401, (method, path)
            assert answer.headers["www-authenticate"] == "Bearer"


def test_the_session_cookie_serves_the_same_routes(workspace: Tenant) -> None:
    record = workspace.browser.post("/api/funnels", json=FUNNEL).json()
    assert workspace.client.get(f"/api/funnels/{record['id']}").json() == record
    for headers, status in (
        ({"Content-Type": "text/plain"}, 415),
        ({"Origin": "https://evil.example"}, 403),
    ):
        answer = workspace.browser.post("/api/funnels", json=FUNNEL, headers=headers)
        assert answer.status_code == status


BAD_BODIES: dict[str, tuple[bytes, dict[str, str], int]] = {
    "empty": (b"", {}, 400),
    "cut off": (b'{"name": "x"', {}, 400),
    "invalid UTF-8": (b'{"name": "\xff"}', {}, 400),
    "lone surrogate": (b'{"name": "\\ud800", "steps": []}', {}, 400),
    "NaN": (b'{"conversionWindowSeconds": NaN}', {}, 422),
    "3,000 deep": (b"[" * 3000 + b"]" * 3000, {}, 400),
    "3,000 deep inside": (b'{"steps":' + b"[" * 3000 + b"]" * 3000 + b"}", {}, 400),
    "not JSON": (b"name=x", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
    "unknown encoding": (b"{}", {"Content-Encoding": "br"}, 415),
    "too large": (b'{"name": "' + b"x" * 1_100_000 + b'"}', {}, 413),
    "100,000 rows": (b'{"name": "x", "steps": [' + b"{}," * 100_000 + b"{}]}", {}, 422),
    "huge integer": (b'{"name": 1' + b"0" * 400 + b"}", {}, 422),
}


@pytest.mark.parametrize("path", ["/api/funnels", "/api/goals"])
def test_a_bad_body_is_refused_with_a_problem_and_nothing_is_stored(
    client: httpx.Client, path: str
) -> None:
    for name, (body, headers, status) in BAD_BODIES.items():
        answer = client.post(
            path, content=body, headers={"Content-Type": "application/json", **headers}
        )
        assert answer.status_code == status, (name, answer.text[:500])
        assert answer.headers["content-type"] == "application/problem+json", name
        assert len(answer.content) < 20_000, name
    assert client.get(path).json()["total"] == 0


def test_a_route_without_parameters_refuses_them_by_name(workspace: Tenant) -> None:
    """A preview with the period in its URL would silently cover all history."""
    funnel = {"name": "F", "steps": rows_of("AB")}
    query = {"startAt": "2026-01-01T00:00:00Z", "x": "1"}
    answer = workspace.client.post("/api/funnels/preview", params=query, json=funnel)
    assert fields(answer) == ["startAt", "x"]


@pytest.mark.every_database
@pytest.mark.parametrize(
    ("path", "sent"), [("/api/funnels", FUNNEL_TO_FIND), ("/api/goals", GOAL_TO_FIND)]
)
def test_search_finds_part_of_a_name_in_any_case(client, path, sent):
    for name in ("Checkout of 2026", "100%_sure", "checkers"):
        assert client.post(path, json=sent | {"name": name}).status_code == 201

    def names(text):
        answer = client.get(path, params={"search": text}).json()
        assert answer["total"] == len(answer["data"])
        return {record["name"] for record in answer["data"]}

    assert names("CHECK") == {"Checkout of 2026", "checkers"}
    assert names("%_") == {"100%_sure"}
    assert names("no such") == set()
    assert len(names("")) == 3
    refused = client.get(path, params={"search": "a\0b"})
    assert fields(refused) == ["search"]


def test_a_funnel_may_be_replaced_with_its_own_record(client: httpx.Client) -> None:
    path = f"/api/funnels/{save(client)['id']}"
    record = client.get(path).json()
    answer = client.put(path, json=record)
    assert (answer.status_code, answer.json()) == (200, record)
    renamed = client.put(path, json={**record, "name": "Purchase"})
    assert (renamed.status_code, renamed.json()["name"]) == (200, "Purchase")


@cases(
    ("field", "value"),
    [
        ("id", "fun_other"),
        ("revision", 2),
        ("revision", True),
        ("createdAt", "2020-01-01T00:00:00.000Z"),
        ("updatedAt", None),
    ],
)
def test_a_read_only_field_that_is_not_the_stored_one_is_refused(
    client: httpx.Client, field: str, value: object
) -> None:
    record = save(client)
    path = f"/api/funnels/{record['id']}"
    answer = client.put(path, json={**record, "name": "Purchase", field: value})
    assert faults(answer) == [f"{field} read_only"]
    assert client.get(path).json() == record


@pytest.mark.every_database
def test_a_funnel_that_changed_since_it_was_read_is_not_overwritten(client: httpx.Client) -> None:
    stale = save(client)
    path = f"/api/funnels/{stale['id']}"
    changed = client.put(path, json={**FUNNEL, "steps": STEPS[::-1]}).json()
    answer = client.put(path, json=stale)
    assert code(answer, 409) == "stale_revision"
    assert "revision 2 by now" in answer.json()["detail"]
    deleted = client.delete(path, params={"revision": 1})
    assert code(deleted, 409) == "stale_revision"
    assert {**client.get(path).json(), "replacedRevision": 1} == changed
    assert client.delete(path, params={"revision": 2}).status_code == 204


def test_a_replacement_returns_the_revision_that_it_replaced(client: httpx.Client) -> None:
    path = f"/api/funnels/{save(client)['id']}"
    other = {**FUNNEL, "steps": STEPS[::-1]}

    def revisions(definition: dict[str, Any]) -> tuple[int, int]:
        answer = client.put(path, json=definition)
        assert answer.status_code == 200, answer.text
        return answer.json()["replacedRevision"], answer.json()["revision"]

    replacements = (FUNNEL, other, FUNNEL, {**FUNNEL, "name": "New"})
    assert [revisions(sent) for sent in replacements] == [(1, 1), (1, 2), (2, 3), (3, 3)]
    answer = client.put(path, json=other).json()
    assert client.put(path, json=answer).json() == client.get(path).json(), (
        "the answer may be sent back; with a revision, the client knows which it replaces"
    )


def test_an_unknown_field_is_refused_beside_read_only_ones(client: httpx.Client) -> None:
    record = save(client)
    answer = client.put(f"/api/funnels/{record['id']}", json={**record, "owner": "ann"})
    assert faults(answer) == ["owner unknown_field"]


def test_a_new_funnel_has_no_read_only_fields(client: httpx.Client) -> None:
    answer = client.post("/api/funnels", json={**FUNNEL, "id": "fun_mine"})
    assert fields(answer, 422) == ["id"]
