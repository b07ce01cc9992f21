"""Who may create webhooks, for which funnels and addresses, and what they never show."""

from time import monotonic

import pytest
from sqlalchemy import select

from penstock.app import Services
from penstock.metadb.tables import webhook_messages, webhook_secrets
from tests.answers import body_of, faults, problem
from tests.conftest import ShiftedClock
from tests.funnels.scenario import step
from tests.tenant import audit_log
from tests.waiting import eventually
from tests.webhooks.conftest import Shop
from tests.webhooks.receiver import Json, Receiver, receiver

pytestmark = pytest.mark.usefixtures("warehouse")


def hook_of(shop: Shop, **more: object) -> Json:
    body = {"name": "Shop", "url": "https://example.com/", "funnelId": shop.funnel_id}
    return {**body, "events": ["entered"], **more}


def test_a_workspace_that_shares_figures_has_no_webhooks_about_units(
    shop: Shop, inbox: Receiver
) -> None:
    shop.share("figures")
    answer = shop.tenant.client.post("/api/webhooks", json=hook_of(shop))
    assert problem(answer) == (409, "figures_only")
    assert "Settings, Workspace" in answer.json()["detail"]
    shop.share("units")
    hook = shop.hook(inbox.url, "entered")
    shop.is_watching(hook)
    shop.share("figures")
    eventually(lambda: shop.read(hook)["state"] == "held")
    shop.scene.story("1/A")
    assert "shares figures only" in shop.read(hook)["problem"]
    shop.share("units")
    eventually(lambda: len(inbox.messages) == 1)


def test_faults_name_the_field_and_the_way_out(shop: Shop) -> None:
    create = shop.tenant.client.post
    wrong = [
        ({"url": "http://192.168.1.1/"}, {"url": "url_not_allowed"}),
        ({"url": "https://192.168.1.1/"}, {"url": "url_not_allowed"}),
        ({"url": "https://me:secret@example.com/"}, {"url": "url_not_allowed"}),
        ({"events": ["expiring"]}, {"expiringBeforeSeconds": "required"}),
        ({"expiringBeforeSeconds": 600}, {"expiringBeforeSeconds": "required"}),
        ({"events": []}, {"events": "too_few"}),
        ({"events": ["left"]}, {"events[0]": "not_one_of"}),
        ({"events": ["entered", "entered"]}, {"events": "repeated"}),
    ]
    for change, codes in wrong:
        assert faults(create("/api/webhooks", json=hook_of(shop, **change))) == codes
    assert create("/api/webhooks", json=hook_of(shop, funnelId="fun_0")).status_code == 404
    answer = create("/api/webhooks", json=hook_of(shop, websiteId="web_0"))
    assert answer.status_code == 401


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ({"countingUnit": "visitor"}, "counts visitors"),
        (
            {"countingUnit": "attempt", "attemptProperties": ["$session"]},
            "depend on the visitor",
        ),
        (
            {
                "countingUnit": "attempt",
                "attemptProperty": "attempt",
                "breakdownProperties": ["plan"],
                "breakdownAt": 2,
            },
            "another event than the entry",
        ),
    ],
)
def test_a_funnel_whose_outcomes_cannot_be_stored_is_refused_with_the_reason(
    shop: Shop, definition: Json, reason: str
) -> None:
    body = {"name": "F", "steps": [step("A"), step("B")], "conversionWindowSeconds": 3600}
    funnel = body_of(shop.tenant.client.post("/api/funnels", json={**body, **definition}), 201)
    answer = shop.tenant.client.post("/api/webhooks", json=hook_of(shop, funnelId=funnel["id"]))
    assert faults(answer) == {"funnelId": "not_stored"}
    assert reason in answer.json()["detail"]


def test_a_secret_is_shown_once_and_replaced_with_an_overlap(
    shop: Shop, inbox: Receiver, services: Services, clock: ShiftedClock
) -> None:
    hook = shop.hook(inbox.url, "entered")
    first = hook["secret"]
    second = shop.post(hook, "secret", 201, previousValidSeconds=3600)["secret"]
    assert "secret" not in shop.read(hook)
    assert [each["validUntil"] is None for each in shop.read(hook)["secrets"]] == [True, False]
    shop.post(hook, "test")
    inbox.verify(first)
    inbox.verify(second)
    with services.database.read() as db:
        stored = db.execute(select(webhook_secrets.c.secret)).scalars().all()
    assert len(stored) == 2
    assert all(secret.startswith("fernet:") for secret in stored)
    clock.advance(seconds=3601)
    shop.post(hook, "test")
    inbox.verify(second)
    assert " " not in inbox.requests[-1][0]["webhook-signature"]
    log = str(audit_log(shop.tenant.browser))
    assert "webhook_created" in log
    assert not any(secret in log for secret in (first, second))
    for _ in range(3):
        shop.post(hook, "secret", 201, previousValidSeconds=3600)
    answer = shop.tenant.client.post(f"/api/webhooks/{hook['id']}/secret", json={})
    assert problem(answer) == (201, None)
    answer = shop.tenant.client.post(f"/api/webhooks/{hook['id']}/secret", json={})
    assert problem(answer) == (409, "too_many_secrets")


def test_a_test_says_what_the_receiver_said(shop: Shop, inbox: Receiver) -> None:
    hook = shop.hook(inbox.url, "entered")
    inbox.statuses = [403]
    refused = shop.post(hook, "test")
    assert (refused["accepted"], refused["status"], refused["text"]) == (False, 403, "ok")
    assert shop.post(hook, "test")["accepted"] is True
    [message] = inbox.messages
    assert (message["type"], message["data"]) == ("test", {"funnelId": shop.funnel_id})
    change = {"url": "http://127.0.0.1:1/"}
    body_of(shop.tenant.client.patch(f"/api/webhooks/{hook['id']}", json=change))
    failed = shop.post(hook, "test")
    assert (failed["status"], failed["text"]) == (None, "No connection to the host could be made.")
    assert [each["status"] for each in shop.deliveries(hook)] == [None, 200, 403]


def test_a_workspace_has_at_most_20_webhooks(shop: Shop, inbox: Receiver) -> None:
    hooks = [shop.hook(inbox.url, "entered") for _ in range(20)]
    answer = shop.tenant.client.post("/api/webhooks", json=hook_of(shop))
    assert problem(answer) == (409, "too_many_webhooks")
    assert shop.tenant.client.delete(f"/api/webhooks/{hooks[0]['id']}").status_code == 204
    listed = body_of(shop.tenant.client.get("/api/webhooks"))
    assert (listed["total"], listed["data"][0]["id"]) == (19, hooks[-1]["id"])


@pytest.mark.slow("waits for slow responses")
def test_a_slow_receiver_does_not_delay_another(shop: Shop, inbox: Receiver) -> None:
    with receiver() as slow:
        slow.delay_s = 8.0
        hooks = [shop.hook(slow.url, "entered") for _ in range(6)]
        shop.is_watching(hooks[-1])
        shop.scene.story("1/A", attempt="first")
        eventually(lambda: len(slow.requests) == 4)  # of one host at a time
        fast = shop.hook(inbox.url.replace("127.0.0.1", "localhost"), "step_completed")
        shop.is_watching(fast)
        eventually(lambda: len(slow.requests) == 6)
        before_s = monotonic()
        shop.scene.story("1/B", attempt="first")
        eventually(lambda: inbox.messages)
        assert monotonic() - before_s < 6


@pytest.mark.slow("waits for a deletion")
def test_the_deletion_of_a_person_deletes_the_messages_that_wait(
    shop: Shop, inbox: Receiver, services: Services
) -> None:
    hook = shop.hook(inbox.url, "entered")
    shop.is_watching(hook)
    inbox.statuses = [500]
    shop.scene.story("1/A", visitor="ann", attempt="of ann")
    shop.scene.story("1/A", visitor="bob", attempt="of bob")
    eventually(lambda: shop.read(hook)["waiting"] == 2)
    body = {"websiteId": shop.tenant.website_id, "visitorId": "ann"}
    deletion = body_of(shop.tenant.client.post("/api/deletions", json=body), 201)
    path = f"/api/deletions/{deletion['id']}"
    eventually(lambda: body_of(shop.tenant.client.get(path))["state"] == "done")
    with services.database.read() as db:
        assert db.execute(select(webhook_messages.c.visitor_id)).scalars().all() == ["bob"]
