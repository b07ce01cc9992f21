"""NUL in what a request looks up: PostgreSQL stores none, and the answer is never 500."""

import pytest

from tests.cases import cases
from tests.conftest import BASE_URL
from tests.tenant import Tenant, new_browser

pytestmark = pytest.mark.every_database


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url


def test_a_log_in_names_the_field(workspace: Tenant) -> None:
    form = {"email": "a\0b", "password": "x"}
    answer = new_browser(workspace).post(f"{BASE_URL}/api/auth/login", json=form)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "email")


@cases(
    ("path", "field"),
    [
        ("/api/mobile/deferred-links/attribution?websiteId={website}&visitorId=a%00b", "visitorId"),
        ("/api/attribution?funnelId=a%00b", "funnelId"),
        ("/api/attribution/export?funnelId=a%00b", "funnelId"),
    ],
)
def test_a_query_names_the_parameter(workspace: Tenant, path: str, field: str) -> None:
    answer = workspace.client.get(path.format(website=workspace.website_id))
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field)


def test_an_opened_url_names_no_link(workspace: Tenant) -> None:
    app = workspace.browser.post(
        "/api/settings/websites", json={"name": "App", "kind": "mobile"}
    ).json()
    opened = {"websiteId": app["id"], "installId": "i", "platform": "ios", "firstOpen": True}
    opened |= {"url": "shop://open?lk=%00"}
    answer = new_browser(workspace).post("/api/mobile/deferred-links/resolve", json=opened)
    assert (answer.status_code, answer.json().get("reason")) == (200, "no_click"), answer.text
