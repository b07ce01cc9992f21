"""Pages of webhooks: the list, one with its deliveries, and the form."""

from dataclasses import replace
from typing import Any

import pytest

from penstock.settings import Settings
from tests.outbound.sinks import LOOPBACK
from tests.tenant import Tenant, join
from tests.waiting import eventually
from tests.web.reading import html_of, link_of, text_of, without_tags
from tests.webhooks.receiver import receiver

pytestmark = pytest.mark.usefixtures("warehouse")
ALL = "/settings/webhooks"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(
        update={"stored_outcomes": 10, "outbound_networks": LOOPBACK}
    ).with_limits(stored_outcomes_after_ms=0)


def share(tenant: Tenant, level: str) -> None:
    tenant.browser.patch("/api/settings/workspace", json={"sharedContents": level})


@pytest.fixture
def hook(workspace: Tenant, scene: Any) -> dict[str, Any]:
    """The body of a webhook about a funnel, in a workspace that shares units."""
    share(workspace, "units")
    funnel_id = scene.attempts("begun", "paid", name="Checkout")
    events = ["entered", "expiring"]
    body = {"name": "Reminders", "funnelId": funnel_id, "events": events}
    return body | {"expiringBeforeSeconds": 600, "url": "https://shop.invalid/hooks/s3cret"}


def create(tenant: Tenant, body: dict[str, Any]) -> str:
    answer = tenant.browser.post("/api/webhooks", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def test_the_pages_say_what_the_workspace_must_allow(
    workspace: Tenant, hook: dict[str, Any]
) -> None:
    assert "No webhooks yet" in text_of(workspace, ALL)
    path = f"{ALL}/{create(workspace, hook)}"
    share(workspace, "figures")
    for page in (ALL, f"{ALL}/new", path, f"{path}/edit"):
        html = html_of(workspace, page)
        assert "Webhooks send nothing. The workspace shares figures only" in without_tags(html)
        assert link_of(html, "Change what may be shared") == "/settings/workspace#sharing"
    assert "New webhook" not in text_of(workspace, ALL)
    eventually(lambda: "On hold" in text_of(workspace, ALL))
    share(workspace, "units")
    for page in (ALL, f"{ALL}/new", f"{path}/edit"):
        assert "Webhooks send nothing" not in text_of(workspace, page)


def test_the_list_and_the_page_show_state_messages_and_deliveries(
    workspace: Tenant, hook: dict[str, Any]
) -> None:
    with receiver() as inbox:
        inbox.statuses = [503]
        hook_id = create(workspace, hook | {"url": inbox.url})
        path = f"{ALL}/{hook_id}"
        assert "No deliveries yet" in text_of(workspace, path)
        workspace.browser.post(f"/api/webhooks/{hook_id}/test").raise_for_status()
    expected = "Reminders Checkout Entered, Expiring Active 0 503"
    eventually(lambda: expected in text_of(workspace, ALL, "list"))  # its outcomes are stored
    shown = text_of(workspace, path, "webhook")
    assert "Entered, Expiring ( 600 before the window ends)" in shown
    assert inbox.url in html_of(workspace, path, "state").replace("<wbr>", "")
    assert "503 1 ok" in text_of(workspace, path, "deliveries")
    workspace.browser.post(f"/api/webhooks/{hook_id}/pause").raise_for_status()
    assert "Paused since" in text_of(workspace, ALL)
    assert "Resume" in text_of(workspace, path)
    form = " ".join(html_of(workspace, f"{path}/edit").split())
    assert 'value="expiring" data-as="item" checked' in form
    assert 'name="expiringBeforeSeconds" type="text" value="10" data-as="minutes"' in form


def test_a_viewer_reads_webhooks_without_what_may_be_a_secret(
    workspace: Tenant, hook: dict[str, Any]
) -> None:
    with receiver() as inbox:
        hook_id = create(workspace, hook | {"url": inbox.url})
        workspace.browser.post(f"/api/webhooks/{hook_id}/test").raise_for_status()
    viewer = replace(workspace, browser=join(workspace, "viewer"))
    for page in (ALL, f"{ALL}/{hook_id}", f"{ALL}/{hook_id}/edit"):
        html = html_of(viewer, page)
        assert "Reminders" in html
        assert inbox.url not in html.replace("<wbr>", "")
        for control in (
            "/api/webhooks",
            "data-opens",
            "New webhook",
            "Send test",
            "Replay",
            "New secret",
        ):
            assert control not in html.partition("<main")[2], (page, control)
    log = text_of(viewer, f"{ALL}/{hook_id}", "deliveries")
    assert "Time Status Messages Duration" in log
    assert "ok" not in log.split()
    assert viewer.browser.get("/api/webhooks").status_code == 403


def test_without_a_funnel_the_form_leads_to_a_new_one(workspace: Tenant) -> None:
    assert link_of(html_of(workspace, f"{ALL}/new"), "New funnel") == "/funnels/new"
