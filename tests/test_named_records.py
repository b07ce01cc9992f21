"""Goals, segments and saved mappings: records whose name is unique in their workspace."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import httpx
import pytest

from penstock.events.imports.mappings.service import ImportMappingService
from penstock.funnels.goals.service import GoalService
from penstock.funnels.segments.service import SavedSegmentService
from penstock.named_records.service import RevisedRecords
from tests.conftest import ShiftedClock
from tests.funnels.answers import code
from tests.records import create
from tests.tenant import Tenant

Json = dict[str, Any]


class Kind(NamedTuple):
    """A kind of named records.

    body: creates a record. content: as the record returns it. other: a change of the content.
    """

    path: str
    service: type[RevisedRecords[Any]]
    body: Json
    content: Json
    other: Json


PRO = {"property": "plan", "operator": "equals", "value": "pro"}
COLUMNS = [
    {"column": "at", "use": "time", "unit": "seconds"},
    {"column": "what", "use": "event"},
    {"column": "who", "use": "user"},
    {"column": "n", "use": "property", "name": "orderNumber"},
]
MATCH = {"type": "Transaction", "value": "purchase"}
KINDS = (
    Kind(
        "/api/goals",
        GoalService,
        {"match": MATCH},
        {"match": MATCH | {"filters": []}},
        {"match": {"type": "Event", "value": "paid", "filters": [PRO]}},
    ),
    Kind(
        "/api/segments",
        SavedSegmentService,
        {"filters": [PRO]},
        {"filters": [PRO]},
        {"filters": [PRO, {"property": "country", "operator": "in", "value": '["DE"]'}]},
    ),
    Kind(
        "/api/import-mappings",
        ImportMappingService,
        {"mapping": {"columns": COLUMNS}},
        {},
        {"mapping": {"columns": COLUMNS[:3]}},
    ),
)


def test_every_kind_of_record_is_tested() -> None:
    assert {kind.service for kind in KINDS} == {*RevisedRecords.__subclasses__()}


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url


@pytest.fixture(params=KINDS, ids=lambda kind: kind.service.noun)
def kind(request: pytest.FixtureRequest) -> Kind:
    chosen: Kind = request.param
    return chosen


def save(client: httpx.Client, kind: Kind, name: str = "Paid") -> Json:
    return create(client, kind.path, {"name": name, **kind.body})


@pytest.mark.every_database
def test_a_record_is_created_read_changed_listed_and_deleted(
    client: httpx.Client, clock: ShiftedClock, kind: Kind
) -> None:
    record = save(client, kind)
    path = f"{kind.path}/{record['id']}"
    [content] = kind.body
    expected = {"id": record["id"], "name": "Paid", content: record[content], "revision": 1}
    times = {"createdAt": record["createdAt"], "updatedAt": record["createdAt"]}
    assert record == {**expected, **kind.content, **times}
    assert client.get(path).json() == record

    clock.advance(seconds=60)
    for nothing_new in ({}, {"name": "Paid", **kind.body}, {"name": "Paid"}, record):
        assert client.patch(path, json=nothing_new).json() == record
    changed = client.patch(path, json=kind.other).json()
    assert changed == {
        **record,
        content: changed[content],
        "revision": 2,
        "updatedAt": changed["updatedAt"],
    }
    assert changed[content] != record[content]
    assert changed["updatedAt"] > record["updatedAt"]
    clock.advance(seconds=60)
    renamed = client.patch(path, json={"name": "Bought"}).json()
    revision = 2 + kind.service.revises_names
    new = {"name": "Bought", "revision": revision, "updatedAt": renamed["updatedAt"]}
    assert renamed == {**changed, **new}
    assert renamed["updatedAt"] > changed["updatedAt"]

    other = save(client, kind)
    pages = {"page": 1, "pageSize": 20, "total": 2}
    assert client.get(kind.path).json() == {"data": [other, renamed], **pages}
    second = client.get(f"{kind.path}?page=2&pageSize=1").json()
    assert second == {"data": [renamed], "page": 2, "pageSize": 1, "total": 2}
    assert client.get(f"{kind.path}?search=OUGH").json()["data"] == [renamed]

    assert client.delete(path).status_code == 204
    for answer in (client.get(path), client.patch(path, json={}), client.delete(path)):
        assert code(answer, 404) == "not_found"


def test_a_name_is_unique_in_a_workspace(
    client: httpx.Client, other_workspace: Tenant, kind: Kind
) -> None:
    save(client, kind)
    again = client.post(kind.path, json={"name": "Paid", **kind.body})
    assert code(again, 409) == "name_taken"
    lower = save(client, kind, "paid")
    path = f"{kind.path}/{lower['id']}"
    assert code(client.patch(path, json={"name": "Paid"}), 409) == "name_taken"
    assert client.get(path).json() == lower
    save(other_workspace.client, kind)


@pytest.mark.every_database
def test_only_one_of_many_concurrent_posts_of_a_name_is_saved(
    client: httpx.Client, kind: Kind
) -> None:
    body = {"name": "Paid", **kind.body}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.post(kind.path, json=body), range(16)))
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 15
    assert client.get(kind.path).json()["total"] == 1


@pytest.mark.every_database
@pytest.mark.parametrize("kind", KINDS[1:], ids=lambda kind: kind.service.noun)
def test_a_workspace_has_a_maximum_of_records(
    client: httpx.Client, other_workspace: Tenant, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    monkeypatch.setattr(kind.service, "maximum", 3)
    bodies = [{"name": f"Paid {number}", **kind.body} for number in range(6)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda body: client.post(kind.path, json=body), bodies))
    refused = [answer for answer in answers if answer.status_code != 201]
    nouns = f"{kind.service.noun}s"
    assert {code(answer, 409) for answer in refused} == {f"too_many_{nouns.split()[-1]}"}
    assert len(refused) == 3
    assert f"3 {nouns}, the most it can have. Delete one first" in refused[0].json()["detail"]
    save(other_workspace.client, kind)
    [first, *_] = client.get(kind.path).json()["data"]
    client.delete(f"{kind.path}/{first['id']}")
    save(client, kind)


def test_a_change_of_an_earlier_revision_is_a_conflict(client: httpx.Client, kind: Kind) -> None:
    record = save(client, kind)
    path = f"{kind.path}/{record['id']}"
    changed = client.patch(path, json=kind.other).json()
    for stale in (record, {**record, "name": "Mine"}, {"name": "Old", "revision": 1}):
        assert code(client.patch(path, json=stale), 409) == "stale_revision"
    refused = client.patch(path, json={**changed, "name": "Bought", "revision": 7})
    assert code(refused, 422) == "invalid"
    [fault] = refused.json()["errors"]
    assert (fault["field"], fault["code"]) == ("revision", "read_only")
    assert client.get(path).json() == changed
    assert code(client.delete(path, params={"revision": 1}), 409) == "stale_revision"
    assert client.delete(path, params={"revision": "x"}).status_code == 400
    assert client.delete(path, params={"revision": 2}).status_code == 204
    assert client.delete(path).status_code == 404


def test_a_record_of_another_workspace_is_unknown(
    client: httpx.Client, other_workspace: Tenant, kind: Kind
) -> None:
    record, other = save(client, kind), other_workspace.client
    path = f"{kind.path}/{record['id']}"
    for answer in (
        other.get(path),
        other.patch(path, json={"name": "Mine"}),
        other.delete(path),
        client.get(f"{kind.path}/none"),
    ):
        assert code(answer, 404) == "not_found"
    assert other.get(kind.path).json()["total"] == 0
    assert client.get(path).json() == record
