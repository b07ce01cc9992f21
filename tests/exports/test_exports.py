"""Files of days and identities, on every engine."""

import json
from io import BytesIO

import pytest
from pyarrow import parquet

from penstock.exports import service
from penstock.identity.profiles.model import Identity
from penstock.warehouse import work
from tests.tenant import Tenant
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("warehouse")

MINUTE = "2026-05-0{}T10:{:02}:00.000Z"


def send(workspace: Tenant, day: int, minute: int, **more: object) -> None:
    body = {
        "websiteId": workspace.website_id,
        "visitorId": "v1",
        "event": "step",
        "timestamp": MINUTE.format(day, minute),
        **more,
    }
    assert workspace.client.post("/api/v1/events", json=body).status_code == 202


def get(workspace: Tenant, part: str, **query: str) -> bytes:
    query = {"websiteId": workspace.website_id, **query}
    answer = workspace.client.get(f"/api/exports/{part}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.content


def test_a_day_begins_at_midnight_utc_and_is_in_reading_order(workspace: Tenant) -> None:
    send(workspace, 3, 0)
    send(workspace, 2, 5, properties={"text": "zwölf €", "n": 1.5})
    send(workspace, 2, 1)
    send(workspace, 1, 0)
    days = json.loads(get(workspace, "days"))["data"]
    assert [(day["day"], day["rows"]) for day in days] == [
        ("2026-05-01", 1),
        ("2026-05-02", 2),
        ("2026-05-03", 1),
    ]
    lines = get(workspace, "day", day="2026-05-02", format="ndjson").splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["occurred_at"] for row in rows] == [MINUTE.format(2, 1), MINUTE.format(2, 5)]
    assert json.loads(rows[1]["properties"]) == {"text": "zwölf €", "n": 1.5}
    table = parquet.read_table(BytesIO(get(workspace, "day", day="2026-05-02")))
    assert str(table.schema.field("occurred_at").type) == "timestamp[ms, tz=UTC]"
    assert table["properties"].to_pylist() == [row["properties"] for row in rows]
    assert set(table.column_names) == set(rows[0])


def test_a_day_without_rows_is_an_empty_file(workspace: Tenant) -> None:
    assert get(workspace, "day", day="2026-05-09", format="ndjson") == b""
    table = parquet.read_table(BytesIO(get(workspace, "day", day="2026-05-09")))
    assert table.num_rows == 0


@pytest.mark.parametrize("file_format", ["parquet", "ndjson"])
def test_a_large_day_is_joined_from_slices_in_the_same_order(
    workspace: Tenant, monkeypatch: pytest.MonkeyPatch, file_format: str
) -> None:
    for minute in (7, 3, 3, 9, 1, 5, 3):
        send(workspace, 2, minute, properties={"minute": minute})
    query = {"day": "2026-05-02", "format": file_format}

    def rows() -> list[dict[str, object]]:
        content = get(workspace, "day", **query)
        if file_format == "ndjson":
            return [json.loads(line) for line in content.splitlines()]
        table: list[dict[str, object]] = parquet.read_table(BytesIO(content)).to_pylist()
        return table

    whole = rows()
    assert [json.loads(str(row["properties"]))["minute"] for row in whole] == [1, 3, 3, 3, 5, 7, 9]
    monkeypatch.setattr(service, "_SLICE_ROWS", 2)
    assert rows() == whole


def test_a_fingerprint_changes_with_a_late_event(workspace: Tenant) -> None:
    send(workspace, 1, 0)
    [before] = json.loads(get(workspace, "days"))["data"]
    assert json.loads(get(workspace, "days"))["data"] == [before]
    send(workspace, 1, 30)
    [after] = json.loads(get(workspace, "days"))["data"]
    assert before["fingerprint"] != after["fingerprint"]


def test_clicks_are_exported_without_the_hash_of_their_token(workspace: Tenant) -> None:
    app = workspace.client.post("/api/settings/websites", json={"name": "App", "kind": "mobile"})
    link = {
        "websiteId": app.json()["id"],
        "name": "Spring",
        "slug": "spring-export",
        "destinationPath": "/sale",
        "fallbackUrl": "https://shop.example.com",
    }
    assert workspace.client.post("/api/mobile/deferred-links", json=link).status_code == 201
    workspace.client.get("/l/spring-export", follow_redirects=False)
    query = {"websiteId": app.json()["id"], "table": "clicks"}
    eventually(lambda: json.loads(get(workspace, "days", **query))["data"])
    [day] = json.loads(get(workspace, "days", **query))["data"]
    [line] = get(workspace, "day", **query, day=day["day"], format="ndjson").splitlines()
    assert "token_hash" not in json.loads(line)
    assert json.loads(line)["link_id"].startswith("lnk_")


def test_a_date_that_does_not_exist_names_its_field(workspace: Tenant) -> None:
    query = {"websiteId": workspace.website_id, "day": "2026-02-30"}
    answer = workspace.client.get("/api/exports/day", params=query)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "day")


def test_an_export_of_identities_ends_when_its_client_has_gone(
    workspace: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = []

    def page_and_leave(*_: object) -> tuple[list[Identity], str]:
        pages.append(1)
        current = work.current_work()
        assert current is not None
        current.stop()  # as the service does when the client disconnects
        return [], "next"

    monkeypatch.setattr(service.profiles, "identities_page", page_and_leave)
    answer = workspace.client.get(
        "/api/exports/identities", params={"websiteId": workspace.website_id, "format": "ndjson"}
    )
    assert (answer.status_code, answer.json()["code"], len(pages)) == (503, "stopping", 1)


def test_reading_keys_cannot_export(workspace: Tenant) -> None:
    key = {"name": "reader", "scopes": ["read"]}
    created = workspace.browser.post("/api/settings/api-keys", json=key).json()["key"]
    for part in ("days", "day", "identities", "members"):
        answer = workspace.browser.get(
            f"/api/exports/{part}",
            params={"websiteId": workspace.website_id, "day": "2026-05-01"},
            headers={"Authorization": f"Bearer {created}"},
        )
        assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")
