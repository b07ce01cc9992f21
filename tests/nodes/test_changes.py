"""What one node changes, the others know at once, though they have cached it."""

from functools import partial

import psycopg
import pytest

from penstock.base import ttl_cache
from tests.links.conftest import APP, LINKS
from tests.tenant import join, visitor
from tests.waiting import eventually

NDJSON = {"Content-Type": "application/x-ndjson"}
of_full_tier = pytest.mark.full("more kinds of records, announced as a revoked key is")
LINE = b'{"event":"A","visitorId":"v","timestamp":"2026-01-01T00:00:00Z"}\n'


@pytest.fixture(autouse=True)
def no_expiry(monkeypatch):
    """No cached record expires: only a notification brings a change."""
    monkeypatch.setattr(ttl_cache, "monotonic", lambda: 0.0)


@pytest.fixture(autouse=True)
def listening(servers, no_expiry):
    for services, _ in servers:
        eventually(lambda: services.change_listener.health().last_success_at_ms)  # noqa: B023


def post(node, website_id, key=None, **fields):
    """The status of an event that is posted at a node."""
    client = visitor(node.server, {"Authorization": f"Bearer {key}"}) if key else node.client
    event = {"websiteId": website_id, "visitorId": "v", "event": "A"}
    return client.post("/api/v1/events", json=event | fields).status_code


def key_of(browser):
    return browser.post("/api/settings/api-keys", json={"name": "other"}).json()


def test_a_revoked_key_is_refused_by_every_node(nodes, workspace):
    first, second = nodes
    key = key_of(first.browser)
    assert post(second, workspace.website_id, key["key"]) == 202
    assert first.browser.delete(f"/api/settings/api-keys/{key['id']}").status_code == 204
    eventually(lambda: post(second, workspace.website_id, key["key"]) == 401)


@of_full_tier
def test_the_keys_of_a_removed_member_are_refused_by_every_node(nodes, workspace):
    first, second = nodes
    member = join(workspace, "owner")
    key = key_of(member)["key"]
    assert post(second, workspace.website_id, key) == 202
    user_id = member.get("/api/auth/session").json()["user"]["id"]
    removal = f"/api/settings/members/{user_id}?revokeKeys=true"
    assert first.browser.delete(removal).status_code == 204
    eventually(lambda: post(second, workspace.website_id, key) == 401)


@of_full_tier
def test_a_deleted_website_is_refused_by_every_node(nodes):
    first, second = nodes
    website = {"name": "Second", "kind": "web"}
    website_id = first.client.post("/api/settings/websites", json=website).json()["id"]
    assert post(second, website_id) == 202
    assert first.client.delete(f"/api/settings/websites/{website_id}").status_code == 204
    eventually(lambda: post(second, website_id) == 401)


@of_full_tier
def test_a_changed_website_is_known_to_every_node(nodes, workspace):
    first, second = nodes
    path = f"/api/settings/websites/{workspace.website_id}"
    assert second.client.get(path).json()["name"] == "Shop"
    assert first.client.patch(path, json={"name": "Store"}).status_code == 200
    eventually(lambda: second.client.get(path).json()["name"] == "Store")


@of_full_tier
def test_apps_are_in_the_association_file_of_every_node(nodes):
    first, second = nodes
    path = "/.well-known/apple-app-site-association"
    assert APP["iosTeamId"] not in second.server.get(path).text
    app = first.client.post("/api/settings/websites", json=APP | {"kind": "mobile"}).json()
    eventually(lambda: APP["iosTeamId"] in second.server.get(path).text)
    change = {"iosTeamId": "ZZZZZZZZZZ"}
    first.client.patch(f"/api/settings/websites/{app['id']}", json=change).raise_for_status()
    eventually(lambda: "ZZZZZZZZZZ" in second.server.get(path).text)


@of_full_tier
@pytest.mark.parametrize("by", ["form", "file"])
def test_a_changed_link_leads_to_its_new_destination_at_every_node(nodes, by):
    first, second = nodes
    app = first.client.post("/api/settings/websites", json=APP | {"kind": "mobile"}).json()["id"]
    link = {"websiteId": app, "name": "Spring", "slug": f"spring-{by}", "destinationPath": "/1"}
    link |= {"fallbackUrl": "https://acme.example/old"}
    link_id = first.client.post(LINKS, json=link).json()["id"]

    def target():
        return second.server.get(f"/l/{link['slug']}", follow_redirects=False).headers["location"]

    assert target().startswith("https://acme.example/old")
    if by == "form":
        change = {"id": link_id, "fallbackUrl": "https://acme.example/new"}
        changed = first.client.patch(LINKS, json=change)
    else:
        row = f"id,slug,fallbackUrl\n{link_id},{link['slug']},https://acme.example/new\n"
        changed = first.client.post(
            f"{LINKS}/csv", content=row, headers={"Content-Type": "text/csv"}
        )
    changed.raise_for_status()
    eventually(lambda: target().startswith("https://acme.example/new"))


@of_full_tier
def test_the_limits_of_a_workspace_hold_at_every_node(nodes, workspace, servers):
    first, second = nodes
    limits = second.services.limits
    before = limits.engine_limits(workspace.id)
    change = {"queryTimeoutSeconds": 5}
    first.browser.patch("/api/settings/workspace", json=change).raise_for_status()
    assert before["max_execution_time"] != 5
    eventually(lambda: limits.engine_limits(workspace.id)["max_execution_time"] == 5)


@of_full_tier
def test_a_change_that_is_rolled_back_is_not_announced(nodes):
    first, second = nodes
    announced = []
    for topic in ("rolled back", "committed"):
        second.services.database.changes.subscribe(topic, partial(announced.append, topic))

    def announce(topic, error=None):
        with first.services.database.write() as db:
            first.services.database.changes.announce(db, topic)
            if error:
                raise error

    with pytest.raises(ZeroDivisionError):
        announce("rolled back", ZeroDivisionError())
    announce("committed")
    eventually(lambda: announced)
    assert announced == ["committed"]


@of_full_tier
def test_a_node_whose_connection_broke_forgets_what_it_had_cached(
    nodes, workspace, postgres_server, monkeypatch
):
    first, second = nodes
    path = f"/api/settings/websites/{workspace.website_id}"
    assert second.client.get(path).json()["name"] == "Shop"
    second.services.change_listener.stop()
    assert first.client.patch(path, json={"name": "Store"}).status_code == 200
    with psycopg.connect(first.services.settings.database_url, autocommit=True) as connection:
        ended = connection.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND query LIKE 'LISTEN%'"
        ).fetchone()
    assert ended[0] == 2
    assert second.client.get(path).json()["name"] == "Shop"
    second.services.change_listener.start()
    eventually(lambda: second.client.get(path).json()["name"] == "Store")


@of_full_tier
def test_the_file_of_a_waiting_import_is_removed_when_another_node_cancels_it(nodes, workspace):
    first, second = nodes
    files = first.services.settings.data / "imports"
    imports = first.services.imports
    imports.worker.stop()
    path = f"/api/imports?websiteId={workspace.website_id}"
    job = first.client.post(path, content=LINE, headers=NDJSON).json()
    assert len(list(files.iterdir())) == 1
    assert second.client.post(f"/api/imports/{job['id']}/cancel").json()["state"] == "cancelled"
    imports.worker.start()
    eventually(lambda: not list(files.iterdir()))
    assert first.client.get(f"/api/imports/{job['id']}").json()["state"] == "cancelled"


def test_no_secret_is_announced(nodes, workspace):
    first, _ = nodes
    with psycopg.connect(first.services.settings.database_url, autocommit=True) as connection:
        connection.execute("LISTEN penstock_changes")
        key = key_of(first.browser)
        first.browser.delete(f"/api/settings/api-keys/{key['id']}").raise_for_status()
        path = f"/api/settings/websites/{workspace.website_id}"
        first.client.patch(path, json={"name": "Store"}).raise_for_status()
        received = connection.notifies(timeout=10, stop_after=2)
        payloads = [notification.payload for notification in received]
    assert payloads == ["api_keys", "websites"]
