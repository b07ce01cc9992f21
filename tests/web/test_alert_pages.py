"""Pages of alerts: the list, one with its history, and the form from a report."""

import json
from typing import Any

import httpx
import pytest
from sqlalchemy import update

from penstock.app import Services
from penstock.metadb.tables import users
from penstock.settings import Settings
from tests.conftest import ShiftedClock
from tests.funnels.scenario import DAY_S, Scene
from tests.mail_server import MailServer
from tests.tenant import Tenant
from tests.waiting import eventually
from tests.web.reading import html_of, link_of, query_of, text_of, without_tags

DAY_MS = DAY_S * 1000
FILTERS = json.dumps([{"property": "plan", "operator": "equals", "value": "pro"}])


@pytest.fixture
def settings(settings: Settings, mails: MailServer) -> Settings:
    return settings.model_copy(update=mails.settings())


@pytest.fixture
def reader(workspace: Tenant, services: Services) -> Tenant:
    with services.database.write() as db:
        db.execute(update(users).values(email_confirmed_at=1))
    return workspace


def create(tenant: Tenant, name: str = "Low rate", **condition: Any) -> httpx.Response:
    user_id = tenant.browser.get("/api/auth/session").json()["user"]["id"]
    body = {
        "name": name,
        "condition": condition,
        "channels": [{"kind": "email", "userId": user_id}],
    }
    answer = tenant.browser.post("/api/alerts", json=body)
    assert answer.status_code == 201, answer.text
    return answer


def test_a_report_leads_to_a_filled_form(reader: Tenant, scene: Scene, warehouse: object) -> None:
    funnel_id = scene.attempts("begun", "paid", name="Checkout")
    report = html_of(reader, f"/funnels/{funnel_id}", filters=FILTERS, period="7d")
    address = link_of(report, "Alert")
    assert query_of(address) == {"funnelId": funnel_id, "filters": FILTERS, "period": "7d"}
    form = html_of(reader, address)
    assert 'value="Rate of Checkout"' in form
    assert f'<option value="{funnel_id}" selected>' in form
    assert 'name="condition.parameters.filters"' in form
    assert "The alert keeps these choices of the report: filters." in without_tags(form)
    assert "startAt" not in form  # the alert chooses the period
    assert reader.email.partition("@")[0] in without_tags(form)
    assert " checked>" in form


def test_the_list_and_the_page_show_state_figures_and_messages(
    reader: Tenant, scene: Scene, mails: MailServer, warehouse: object
) -> None:
    scene.story("0/begun 60/paid")
    funnel_id = scene.attempts("begun", "paid", name="Checkout")
    assert "No alerts yet" in text_of(reader, "/alerts")
    create(reader, kind="rate", funnelId=funnel_id, when="below", level=0.6, parameters={})
    window = {"window": "30m"}
    create(reader, "Fast", kind="rate", funnelId=funnel_id, when="unusual", parameters=window)
    create(reader, "Silence", kind="silence", event="begun", minutes=60)
    create(reader, "Rejected", kind="rejections", level=0.05)
    alert_id = create(reader, "Lag", kind="lag", minutes=15).json()["id"]
    listed = text_of(reader, "/alerts")
    for words in (
        "Checkout : below 60% on a day",
        "Checkout within 30 minutes: unusual on a day",
        "No event begun for 60 minutes",
        "More than 5% rejected events",
        "Events wait for more than 15 minutes",
    ):
        assert words in listed
    assert reader.browser.post(f"/api/alerts/{alert_id}/test").status_code == 200
    mails.mail()

    def page() -> str:
        return text_of(reader, f"/alerts/{alert_id}")

    eventually(lambda: "example. com : sent" in page(), within_s=20)
    assert "Lag: test" in page()
    assert "Send test" in page()
    snooze = reader.browser.post(f"/api/alerts/{alert_id}/snooze", json={"until": 4102444800000})
    assert snooze.status_code == 422
    form = html_of(reader, f"/alerts/{alert_id}/edit")
    assert 'value="Lag"' in form
    assert 'data-user="' in form


def test_the_history_shows_the_figures_of_each_period(
    reader: Tenant, clock: ShiftedClock, mails: MailServer, warehouse: object
) -> None:
    noon_ms = (clock() // DAY_MS) * DAY_MS - DAY_MS // 2  # of yesterday, in UTC
    clock.advance(seconds=max(0, noon_ms + DAY_MS // 2 + 7_200_000 - clock()) / 1000)
    scene = Scene(reader, clock, ago_s=(clock() - noon_ms) / 1000)
    items = [scene.item(0, "begun", f"v{at}", attempt=f"a{at}") for at in range(40)]
    items += [scene.item(60, "paid", f"v{at}", attempt=f"a{at}") for at in range(10)]
    scene.track(items)
    funnel_id = scene.attempts("begun", "paid", name="Checkout")
    alert = create(reader, kind="rate", funnelId=funnel_id, when="below", level=0.6, parameters={})
    path = f"/alerts/{alert.json()['id']}"
    eventually(lambda: "Alarming 25.0% of 40 attempts level 60%" in text_of(reader, path))
    shown = text_of(reader, path)
    assert "State Alarming" in shown
    assert "Last change Alarm," in shown
    assert "25.0% of 40 attempts" in text_of(reader, path, "history")


def test_a_deleted_funnel_and_another_workspace(
    reader: Tenant, other_workspace: Tenant, scene: Scene, warehouse: object
) -> None:
    funnel_id = scene.attempts("begun", "paid", name="Checkout")
    record = create(reader, kind="rate", funnelId=funnel_id, when="unusual", parameters={})
    alert_id = record.json()["id"]
    for path in (f"/alerts/{alert_id}", f"/alerts/{alert_id}/edit"):
        assert other_workspace.browser.get(path).status_code == 404
    assert other_workspace.browser.get(f"/alerts/new?funnelId={funnel_id}").status_code == 404
    assert reader.client.delete(f"/api/funnels/{funnel_id}").status_code == 204
    assert "A deleted funnel : unusual on a day" in text_of(reader, "/alerts")
