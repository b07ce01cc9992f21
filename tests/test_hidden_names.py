"""Names that people choose consist of characters that people can see.

The fields come from the API document, so a new one is tested automatically.
"""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from sqlalchemy import update

from penstock.app import Services
from penstock.metadb.tables import funnels, websites
from tests.cases import cases
from tests.tenant import Tenant
from tests.test_tenancy import FUNNEL, RECORDS, STEP

HIDDEN = {
    "zero-width space": "\u200b",
    "Hangul filler": "\u3164",
    "braille blank": "\u2800",
    "selector after a blank": "\u2800\ufe0f",
    "inside": "Sign\u200bup",
    "soft hyphen": "Sign\u00adup",
    "word joiner": "\u2060Signup",
    "byte order mark": "\ufeffSignup",
    "grapheme joiner": "Sign\u034fup",
    "joiner between letters that do not join": "Sign\u200dup",
    "joiner between ideographs": "日\u200d本",
    "joiner at the end": "می\u200c",
    "two joiners": "😀\u200d\u200d😀",
    "selector after a letter": "Signup\ufe0f",
    "selector and joiner between letters": "م\ufe0f\u200cم",
    "tags": "Signup\U000e0041\U000e0042",
    "tags behind an emoji": "😀\U000e0067\U000e0062\U000e007f",
    "right-to-left override": "\u202epuengiS",
    "isolate": "Sign\u2066up",
    "right-to-left mark": "Signup\u200f",
    "line separator": "Sign\u2028up",
}
VISIBLE = (
    "Sign-up 2026", "Bücher für Café", "e\u0301", "no\u00a0break", "東京の店", "שלום",
    "متجر أكمي (abc)", "می\u200cخواهم", "क्\u200dष", "ශ්\u200dරී", "葛\U000e0100",
    "👩\u200d👩\u200d👧\u200d👦", "👩🏽\u200d⚕\ufe0f", "❤\ufe0f\u200d🔥", "🏳\ufe0f\u200d🌈",
    "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "1\ufe0f\u20e3",
    "™\ufe0f", "☎\ufe0e", "🙂\u200d↔\ufe0f",
)  # fmt: skip


def named_fields(document: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Method, path and field of each name in a body. An ID is no name."""
    schemas = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            content = operation.get("requestBody", {}).get("content", {})
            reference = content.get("application/json", {}).get("schema", {}).get("$ref", "")
            fields = schemas.get(reference.rpartition("/")[2], {}).get("properties", {})
            for field, schema in fields.items():
                kinds = [schema, *schema.get("anyOf", ())]
                is_text = any(kind.get("pattern") == r"\S" for kind in kinds)
                if is_text and not field.endswith("Id"):
                    yield method, path, field


def codes(answer: httpx.Response, field: str) -> set[str]:
    return {error["code"] for error in answer.json().get("errors", ()) if error["field"] == field}


def test_every_name_in_a_body_is_refused_if_it_has_a_hidden_character(workspace: Tenant) -> None:
    document = workspace.client.get("/api/openapi.json").json()
    unrefused = {}
    fields = list(named_fields(document))
    for method, path, field in fields:
        url = path.replace("{", "").replace("}", "")
        answer = workspace.browser.request(method, url, json={field: HIDDEN["inside"]})
        if answer.status_code != 422 or codes(answer, field) != {"hidden_character"}:
            unrefused[f"{method} {path} {field}"] = f"{answer.status_code} {answer.text[:200]}"
    assert unrefused == {}
    assert {path.split("/")[2] for _, path, _ in fields} >= {
        *("auth", "cohorts", "funnels", "goals", "import-mappings", "mobile", "segments"),
        "settings",
    }


@cases("name", HIDDEN.values())
def test_a_name_with_a_hidden_character_is_refused_with_a_way_out(
    workspace: Tenant, name: str
) -> None:
    answer = workspace.client.post("/api/goals", json={"name": name, "match": STEP})
    assert (answer.status_code, codes(answer, "name")) == (422, {"hidden_character"})
    assert "Type it again" in answer.json()["detail"]


@cases("name", VISIBLE)
def test_a_name_with_visible_characters_is_stored_as_sent(workspace: Tenant, name: str) -> None:
    answer = workspace.client.post("/api/goals", json={"name": name, "match": STEP})
    assert answer.status_code == 201, answer.text
    assert workspace.client.get(f"/api/goals/{answer.json()['id']}").json()["name"] == name


def test_rows_and_tags_are_names_too(workspace: Tenant) -> None:
    steps = [{**STEP, "name": "Sign\u200bup"}, STEP]
    answer = workspace.client.post("/api/funnels", json={**FUNNEL, "steps": steps})
    assert codes(answer, "steps[0].name") == {"hidden_character"}
    link = {"tags": ["spr\u200bing"]}
    answer = workspace.client.post("/api/mobile/deferred-links", json=link)
    assert codes(answer, "tags[0]") == {"hidden_character"}


def test_names_of_events_may_have_any_character(workspace: Tenant) -> None:
    name = "Sign\u200bup\u202e"
    event = {"websiteId": workspace.website_id, "event": name, "userId": "ada"}
    assert workspace.client.post("/api/v1/events", json=event).status_code == 202
    step = {"type": "Event", "value": name}
    assert workspace.client.post("/api/funnels", json={**FUNNEL, "steps": [step, step]}).is_success


@pytest.mark.usefixtures("warehouse")
def test_a_record_from_before_keeps_working(workspace: Tenant, services: Services) -> None:
    name = "Old\u200b\u202e"
    funnel_id = RECORDS["funnel_id"](workspace)
    with services.database.write() as db:
        db.execute(update(funnels).where(funnels.c.id == funnel_id).values(name=name))
        db.execute(update(websites).values(name=name))
    client, path = workspace.client, f"/api/funnels/{funnel_id}"
    assert client.get(path).json()["name"] == name
    assert [record["name"] for record in client.get("/api/funnels").json()["data"]] == [name]
    assert client.get(f"{path}/results").status_code == 200
    assert client.patch(path, json={"folder": "Shop"}).json()["name"] == name
    website = f"/api/settings/websites/{workspace.website_id}"
    assert client.patch(website, json={"domain": "example.com"}).json()["name"] == name
    assert client.patch(website, json={"name": "New"}).json()["name"] == "New"
    assert client.delete(path).status_code == 204
