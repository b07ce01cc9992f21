"""Examples for the API reference: requests to a running application, and its responses."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event
from typing import Any
from unittest.mock import patch

from penstock.base.clock import iso
from penstock.funnels.queries.schema import DirectReason
from penstock.webhooks.model import Delivery, Webhook
from tests.docsite.account_examples import use_accounts
from tests.docsite.recorder import Json, Recorder
from tests.providers.conftest import stripe_headers
from tests.records import create, event_steps, new_website
from tests.tenant import new_browser
from tests.waiting import PATIENCE_S, eventually

_SIGNING_SECRET = "whsec_example_of_the_reference"
_NDJSON, _CSV = {"Content-Type": "application/x-ndjson"}, {"Content-Type": "text/csv"}
_DAY = "2026-05-02"


def record_examples(recorder: Recorder) -> list[Json]:
    """Use each route of the API once, from a website to its deletion."""
    call = recorder.call
    website = call("POST", "/api/settings/websites", {"name": "Shop", "kind": "web"})
    app = call("POST", "/api/settings/websites", {"name": "Shop app", "kind": "mobile"})
    shop = {"websiteId": website["id"]}
    call("GET", "/api/settings/workspace")
    call("GET", "/api/settings/disk")
    call("GET", "/api/settings/internal-traffic")
    _send_events(recorder, website["id"])
    _read_activity(recorder, shop)
    _use_goals(recorder)
    _use_segments(recorder)
    _use_funnels(recorder, shop)
    tool = {"name": "find_events", "arguments": {"pageSize": 1}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool}
    call("POST", "/mcp", message)
    _use_links(recorder, app["id"])
    _use_jobs(recorder)
    call("GET", "/api/attribution", query=shop)
    two_days = {"startAt": "2026-05-01T00:00:00Z", "endAt": "2026-05-03T00:00:00Z"}
    call("GET", "/api/attribution/trend", query={**shop, **two_days})
    call("GET", "/api/attribution/export", query={**shop, "groupBy": "source"})
    _use_imports(recorder, shop)
    _use_providers(recorder, website["id"])
    _send_with_segment(recorder, website["id"])
    _use_quarantine(recorder, shop)
    _use_settings(recorder, website["id"])
    _use_session(recorder)
    use_accounts(recorder)
    _use_exports(recorder)
    _use_webhooks(recorder)
    call("GET", "/api/personal-data", query={**shop, "userId": "u-2"})
    deletion = call("POST", "/api/deletions", {**shop, "userId": "u-2"})
    _wait_for(recorder, f"/api/deletions/{deletion['id']}")
    call("GET", "/api/deletions/{deletion_id}", deletion_id=deletion["id"])
    call("GET", "/api/deletions", query={"pageSize": 1})
    call("DELETE", "/api/settings/websites/{website_id}", website_id=app["id"])
    return recorder.examples


def _use_settings(recorder: Recorder, website_id: str) -> None:
    """Read and change a workspace, its people, websites and keys."""
    call, browser = recorder.call, recorder.tenant.browser
    ids = {"website_id": website_id}
    call("GET", "/api/settings/websites", query={"pageSize": 1})
    call("GET", "/api/settings/websites/{website_id}", **ids)
    call("PATCH", "/api/settings/websites/{website_id}", {"domain": "shop.example"}, **ids)
    call("PATCH", "/api/settings/workspace", {"queryTimeoutSeconds": 30}, client=browser)
    internal = [{"property": "host", "operator": "equals", "value": "localhost"}]
    call("PUT", "/api/settings/internal-traffic", {"filters": internal}, client=browser)
    call("GET", "/api/settings/members", client=browser)
    invited = {"email": "ben@example.com", "role": "member"}
    invitation = call("POST", "/api/settings/invitations", invited, client=browser)
    call("GET", "/api/settings/invitations", client=browser)
    withdrawn = {"invitation_id": invitation["id"]}
    call("DELETE", "/api/settings/invitations/{invitation_id}", client=browser, **withdrawn)
    key = {"name": "Shop backend", "scopes": ["ingest"], "websiteId": website_id}
    created = call("POST", "/api/settings/api-keys", key, client=browser)
    call("GET", "/api/settings/api-keys", query={"pageSize": 1}, client=browser)
    call("DELETE", "/api/settings/api-keys/{key_id}", client=browser, key_id=created["id"])
    secrets = "/api/settings/websites/{website_id}/identity-secrets"
    call("POST", secrets, client=browser, **ids)
    call("GET", secrets, client=browser, **ids)
    call("DELETE", secrets, client=browser, **ids)
    call("GET", "/api/settings/audit-log", query={"pageSize": 1}, client=browser)


def _use_session(recorder: Recorder) -> None:
    call, browser = recorder.call, recorder.tenant.browser
    for part in ("session", "sessions", "workspaces", "second-factor"):
        call("GET", f"/api/auth/{part}", client=browser)


def _send_events(recorder: Recorder, website_id: str) -> None:
    started = {
        "websiteId": website_id,
        "event": "checkout_started",
        "userId": "u-1",
        "timestamp": "2026-05-01T10:00:00Z",
        "properties": {"checkoutId": "c-1", "plan": "pro"},
    }
    recorder.call("POST", "/api/v1/events", started)
    other = {**started, "userId": "u-2", "properties": {"checkoutId": "c-2"}}
    recorder.call("POST", "/api/v1/events/batch", {"events": [other, {"websiteId": website_id}]})
    purchase = {
        "websiteId": website_id,
        "event": "purchase",
        "transactionId": "order-1",
        "userId": "u-1",
        "amount": "19.90",
        "currency": "EUR",
        "timestamp": "2026-05-01T10:04:00Z",
        "properties": {"checkoutId": "c-1"},
    }
    recorder.call("POST", "/api/v1/transactions", purchase)
    view = {
        "websiteId": website_id,
        "type": "pageview",
        "url": "https://shop.example/pricing?utm_source=news",
        "visitorId": "8c0b6d1e",
        "timestamp": "2026-05-01T09:00:00Z",
    }
    recorder.call("POST", "/api/track", view)
    identity = {"websiteId": website_id, "visitorId": "8c0b6d1e", "userId": "u-1"}
    recorder.call("POST", "/api/identify", identity)


def _read_activity(recorder: Recorder, shop: Json) -> None:
    def all_stored() -> bool:
        recent = recorder.tenant.client.get("/api/events/recent", params=shop).json()
        return len(recent["data"]) == 4

    eventually(all_stored)
    recent = recorder.call("GET", "/api/events/recent", query={**shop, "limit": 1})
    recorder.call("GET", "/api/visitors", query={**shop, "search": "u-1"})
    visitor = {"visitor_id": recent["data"][0]["visitorId"]}
    recorder.call("GET", "/api/visitors/{visitor_id}", query=shop, **visitor)
    events = "/api/visitors/{visitor_id}/events"
    recorder.call("GET", events, query={**shop, "pageSize": 1}, **visitor)
    recorder.call("GET", "/api/events/counts")
    recorder.call("GET", "/api/events/refused", query=shop)
    recorder.call("GET", "/api/schema/events", query=shop)
    recorder.call("GET", "/api/schema/properties", query=shop)
    recorder.call("GET", "/api/schema/values", query={**shop, "property": "plan"})


def _use_records(
    recorder: Recorder, name: str, record: Json, new_name: str, parts: Sequence[str] = ()
) -> None:
    """Create, list, read, rename and delete a record. parts: paths below it that are read too."""
    created = recorder.call("POST", f"/api/{name}s", record)
    path, ids = f"/api/{name}s/{{{name}_id}}", {f"{name}_id": created["id"]}
    recorder.call("GET", f"/api/{name}s", query={"pageSize": 1})
    for part in ("", *parts):
        recorder.call("GET", path + part, **ids)
    recorder.call("PATCH", path, {"name": new_name}, **ids)
    recorder.call("DELETE", path, **ids)


def _use_goals(recorder: Recorder) -> None:
    match = {"type": "Transaction", "value": "purchase", "filters": []}
    _use_records(recorder, "goal", {"name": "Paid", "match": match}, "Has paid")


def _use_segments(recorder: Recorder) -> None:
    filters = [{"property": "plan", "operator": "equals", "value": "pro"}]
    _use_records(recorder, "segment", {"name": "Paying", "filters": filters}, "Customers")


def _use_funnels(recorder: Recorder, shop: Json) -> None:
    call = recorder.call
    definition = {
        "name": "Checkout",
        "countingUnit": "attempt",
        "attemptProperty": "checkoutId",
        "breakdownProperties": ["plan"],
        "steps": [
            {"type": "Event", "value": "checkout_started"},
            {"type": "Transaction", "value": "purchase", "name": "Paid"},
        ],
    }
    call("POST", "/api/funnels/validate", definition)
    funnel = call("POST", "/api/funnels", definition)
    ids = {"funnel_id": funnel["id"]}
    call("GET", "/api/funnels", query={"pageSize": 1})
    call("PATCH", "/api/funnels/{funnel_id}", {"folder": "Shop"}, **ids)
    call("GET", "/api/funnels/{funnel_id}", **ids)
    days = {**shop, "startAt": "2026-05-01T00:00:00Z", "endAt": "2026-05-03T00:00:00Z"}
    for part in ("results", "verdict", "trend", "timing", "units", "export", "export/units"):
        call("GET", f"/api/funnels/{{funnel_id}}/{part}", query=days, **ids)
    table = {**days, "cohort": '{"plan": "pro"}', "format": "ndjson"}
    call("GET", "/api/funnels/{funnel_id}/unit-table", query=table, **ids)
    _use_cohorts(recorder, funnel["id"])
    _use_shares(recorder, funnel["id"])
    _use_receipts(recorder, funnel["id"])
    _use_alerts(recorder)
    _use_annotations(recorder)
    trace = "/api/funnels/{funnel_id}/units/{unit}"
    events = call("GET", trace, query=shop, unit="c-1", **ids)["events"]
    event = {**days, "eventId": events[0]["eventId"]}
    call("GET", "/api/funnels/{funnel_id}/explain", query=event, **ids)
    call("GET", "/api/funnels/{funnel_id}/forecast/replays", query=days, **ids)
    by_plan, after_start = {**days, "property": "plan"}, {**days, "step": 1}
    call("GET", "/api/funnels/{funnel_id}/compare", query=by_plan, **ids)
    for part in ("next", "drivers"):
        call("GET", f"/api/funnels/{{funnel_id}}/{part}", query=after_start, **ids)
    unhelped = {"eventType": "Event", "eventName": "help_opened", "hasEvent": "false"}
    call("GET", "/api/funnels/{funnel_id}/units", query={**after_start, **unhelped}, **ids)
    call("GET", "/api/funnels/{funnel_id}/flows", query=after_start, **ids)
    earlier = {"compareStartAt": "2026-04-29T00:00:00Z", "compareEndAt": "2026-05-01T00:00:00Z"}
    call("GET", "/api/funnels/{funnel_id}/periods", query={**days, **earlier}, **ids)
    call("GET", "/api/funnels/{funnel_id}/outcomes", **ids)
    call("DELETE", "/api/funnels/{funnel_id}/outcomes", **ids)
    call("POST", "/api/funnels/preview", {**days, **definition})
    call("POST", "/api/funnels/attempt-keys", {**days, **definition})
    renamed = {**definition, "name": "Checkout to purchase"}
    call("PUT", "/api/funnels/{funnel_id}", renamed, **ids)
    call("GET", "/api/funnels/{funnel_id}/revisions", query={"pageSize": 1}, **ids)
    call("DELETE", "/api/funnels/{funnel_id}", **ids)


def _use_cohorts(recorder: Recorder, funnel_id: str) -> None:
    body = {"kind": "list", "funnelId": funnel_id, "parameters": {"step": "1"}}
    parts = ("/visitors", "/export")
    _use_records(recorder, "cohort", {"name": "Started", **body}, "Started a checkout", parts)


def _use_shares(recorder: Recorder, funnel_id: str) -> None:
    selection = {"period": "30d", "timezone": "Europe/Berlin", "breakdown": "plan"}
    body = {"funnelId": funnel_id, "name": "Checkout", "parameters": selection}
    share = recorder.call("POST", "/api/shares", body)
    recorder.call("GET", "/api/shares", query={"funnelId": funnel_id})
    recorder.call("DELETE", "/api/shares/{share_id}", share_id=share["id"])


def _use_receipts(recorder: Recorder, funnel_id: str) -> None:
    body = {"funnelId": funnel_id, "name": "Board, December", "parameters": {"period": "30d"}}
    ids = {"receipt_id": recorder.call("POST", "/api/receipts", body)["id"]}
    recorder.call("GET", "/api/receipts", query={"funnelId": funnel_id})
    recorder.call("GET", "/api/receipts/{receipt_id}", **ids)
    file = recorder.call("GET", "/api/receipts/{receipt_id}/file", **ids)
    recorder.call("POST", "/api/receipts/open", file)
    recorder.call("DELETE", "/api/receipts/{receipt_id}", **ids)
    recorder.call("GET", "/.well-known/penstock-receipt-keys.json")


def _use_alerts(recorder: Recorder) -> None:
    """Save an alert, whose event has stayed away, and wait for its email."""
    call, tenant = recorder.call, recorder.tenant
    user_id = tenant.browser.get("/api/auth/session").json()["user"]["id"]
    body = {
        "name": "No checkouts",
        "condition": {"kind": "silence", "event": "checkout_started", "minutes": 60},
        "channels": [{"kind": "email", "userId": user_id}],
        "quietHours": {"from": "03:00", "to": "03:01", "timezone": "Europe/Berlin"},
    }
    path, ids = "/api/alerts/{alert_id}", {"alert_id": call("POST", "/api/alerts", body)["id"]}

    def is_sent() -> bool:
        listed = tenant.client.get(path.format(**ids) + "/messages").json()["data"]
        return bool(listed) and listed[0]["deliveries"][0]["state"] == "sent"

    eventually(is_sent)
    call("GET", "/api/alerts", query={"pageSize": 1})
    for part in ("", "/checks", "/messages"):
        call("GET", path + part, **ids)
    call("PATCH", path, {"quietHours": None}, **ids)
    call("POST", f"{path}/snooze", {"until": None}, **ids)
    call("POST", f"{path}/test", **ids)
    call("DELETE", path, **ids)


def _use_annotations(recorder: Recorder) -> None:
    body = {"id": "release-4.2", "text": "Release 4.2", "at": "2026-11-20T09:30:00.000Z"}
    recorder.call("POST", "/api/annotations", body)
    recorder.call("GET", "/api/annotations")
    path, ids = "/api/annotations/{annotation_id}", {"annotation_id": body["id"]}
    recorder.call("PATCH", path, {"text": "Release 4.2: one-page checkout"}, **ids)
    recorder.call("DELETE", path, **ids)


def _use_jobs(recorder: Recorder) -> None:
    """Read a figure as a job, and delete the job."""
    client = recorder.tenant.client
    funnel = create(client, "/api/funnels", {"name": "Sign-up", "steps": event_steps("a", "b")})
    path = f"/api/funnels/{funnel['id']}/timing"
    job = {"job_id": client.get(path, headers={"Prefer": "respond-async"}).json()["id"]}
    _wait_for(recorder, f"/api/jobs/{job['job_id']}")
    recorder.call("GET", "/api/jobs/{job_id}", **job)
    recorder.call("GET", "/api/jobs/{job_id}/result", **job)
    recorder.call("DELETE", "/api/jobs/{job_id}", **job)


def _wait_for(recorder: Recorder, path: str, state: str = "done") -> None:
    """Wait until a job, import or deletion is done, or in another state."""
    eventually(lambda: recorder.tenant.client.get(path).json()["state"] == state)


def _use_imports(recorder: Recorder, shop: Json) -> None:
    call, path = recorder.call, "/api/imports/{import_id}"
    file = (
        "timestamp,name,userId,properties.checkoutId\n"
        "2026-05-02T10:00:00Z,checkout_started,u-3,c-3\n"
        "2026-05-02T10:05:00Z,,u-3,c-3\n"
    )
    query = {**shop, "fileName": "checkouts.csv"}
    uploaded = call("POST", "/api/imports", file, query=query, headers=_CSV)
    done = {"import_id": uploaded["id"]}
    _wait_for(recorder, f"/api/imports/{uploaded['id']}")
    call("GET", "/api/imports")
    call("GET", path, **done)
    call("GET", f"{path}/rejects", **done)
    call("POST", f"{path}/dismiss-gap", client=recorder.tenant.browser, **done)
    call("POST", f"{path}/undo", query={"dryRun": "true"}, **done)
    with _paused_imports(recorder):
        line = {"type": "event", "name": "late", "timestamp": "2026-05-02T11:00:00Z", "userId": "u"}
        waiting = recorder.tenant.client.post(
            "/api/imports", params=shop, content=json.dumps(line), headers=_NDJSON
        )
        call("POST", f"{path}/cancel", import_id=waiting.json()["id"])
    staged = recorder.tenant.client.post(
        "/api/imports", params={**query, "dryRun": "true"}, content=file, headers=_CSV
    ).json()
    checked = {"import_id": staged["id"]}
    _wait_for(recorder, f"/api/imports/{staged['id']}", "checked")
    call("GET", f"{path}/summary", **checked)
    columns = [
        {"column": "timestamp", "use": "time", "unit": "text"},
        {"column": "name", "use": "event"},
        {"column": "userId", "use": "user"},
        {"column": "properties.checkoutId", "use": "attempt", "name": "checkoutId"},
    ]
    _use_mappings(recorder, columns)
    call("PUT", f"{path}/mapping", {"columns": columns}, **checked)
    _wait_for(recorder, f"/api/imports/{staged['id']}", "checked")
    call("POST", f"{path}/start", **checked)


def _use_mappings(recorder: Recorder, columns: list[Json]) -> None:
    path, mapping = "/api/import-mappings", {"columns": columns}
    saved = recorder.call("POST", path, {"name": "Checkouts", "mapping": mapping})
    ids = {"mapping_id": saved["id"]}
    recorder.call("GET", path, query={"pageSize": 1})
    recorder.call("GET", f"{path}/{{mapping_id}}", **ids)
    recorder.call("PATCH", f"{path}/{{mapping_id}}", {"name": "Purchases"}, **ids)
    recorder.call("DELETE", f"{path}/{{mapping_id}}", **ids)


@contextmanager
def _paused_imports(recorder: Recorder) -> Iterator[None]:
    """Let no import store events, so that it can be cancelled."""
    intake, may_continue = recorder.services.intake, Event()
    submit: Callable[..., Any] = intake.submit_from_thread

    def submit_later(*args: Any, **options: Any) -> Any:
        assert may_continue.wait(PATIENCE_S)
        return submit(*args, **options)

    with patch.object(intake, "submit_from_thread", submit_later):
        try:
            yield
        finally:
            may_continue.set()


def _use_webhooks(recorder: Recorder) -> None:
    """Create a webhook and use each of its routes. Nothing is sent to another host."""
    services, call, browser = recorder.services, recorder.call, recorder.tenant.browser
    services.webhook_maker.worker.stop()
    assert browser.patch("/api/settings/workspace", json={"sharedContents": "units"}).is_success
    definition = {"countingUnit": "attempt", "attemptProperty": "checkoutId"}
    steps = event_steps("checkout_started", "purchase")
    funnel = {"name": "Checkouts", "steps": steps, **definition}
    funnel_id = create(recorder.tenant.client, "/api/funnels", funnel)["id"]
    webhook = {
        "name": "Reminders",
        "url": "https://shop.example/hooks/penstock",
        "funnelId": funnel_id,
        "events": ["expiring", "completed"],
        "expiringBeforeSeconds": 600,
    }
    path = "/api/webhooks/{webhook_id}"
    with (
        patch.object(services.webhooks._changes, "open", return_value=DirectReason.NOT_STORED),
        patch.object(services.webhook_deliverer, "post", _accept),
    ):
        ids = {"webhook_id": call("POST", "/api/webhooks", webhook)["id"]}
        call("GET", "/api/webhooks", query={"pageSize": 1})
        call("POST", f"{path}/test", **ids)
        call("GET", f"{path}/deliveries", query={"pageSize": 1}, **ids)
        call("PATCH", path, {"url": "https://shop.example/hooks/other"}, **ids)
        call("POST", f"{path}/secret", {"previousValidSeconds": 3600}, **ids)
        call("POST", f"{path}/pause", **ids)
        call("POST", f"{path}/replay", {"from": iso(recorder.clock() - 86_400_000)}, **ids)
        call("POST", f"{path}/resume", **ids)
        call("GET", path, **ids)
        call("DELETE", path, **ids)


def _accept(webhook: Webhook, request_id: str, body: bytes, messages: int) -> Delivery:
    return Delivery(webhook.created_at_ms, request_id, messages, "thanks", 85, 200)


def _use_providers(recorder: Recorder, website_id: str) -> None:
    call, ids = recorder.call, {"website_id": website_id, "provider": "stripe"}
    path = "/api/settings/websites/{website_id}/providers"
    call("PUT", f"{path}/{{provider}}", {"signingSecret": _SIGNING_SECRET}, **ids)
    call("GET", path, website_id=website_id)
    paid = {
        "id": "evt_1",
        "object": "event",
        "type": "payment_intent.succeeded",
        "created": 1_777_629_900,
        "livemode": True,
        "data": {
            "object": {
                "id": "pi_1",
                "amount_received": 1990,
                "currency": "eur",
                "metadata": {"penstock_user_id": "u-1", "checkoutId": "c-1"},
            }
        },
    }
    body, now_s = json.dumps(paid, indent=2), recorder.clock() // 1000
    headers = {"Content-Type": "application/json", **stripe_headers(body, now_s, _SIGNING_SECRET)}
    webhook = "/api/providers/{provider}/{website_id}"
    call("POST", webhook, body, client=new_browser(recorder.tenant), headers=headers, **ids)
    call("DELETE", f"{path}/{{provider}}", **ids)


def _send_with_segment(recorder: Recorder, write_key: str) -> None:
    """Send calls as clients of Segment and RudderStack do. write_key: the website's ID."""
    call, client = recorder.call, new_browser(recorder.tenant)
    basic = {"Authorization": f"Basic {b64encode(f'{write_key}:'.encode()).decode()}"}
    started = {
        "messageId": "m-1",
        "anonymousId": "8c0b6d1e",
        "event": "checkout_started",
        "properties": {"checkoutId": "c-4"},
        "timestamp": "2026-05-01T12:00:00Z",
    }
    call("POST", "/v1/{call}", started, client=client, headers=basic, call="track")
    batch = {"batch": [{**started, "type": "track", "messageId": "m-2"}]}
    call("POST", "/beacon/v1/batch", batch, client=client, query={"writeKey": write_key})
    call("GET", "/sourceConfig", client=client, query={"writeKey": write_key})
    for path in ("/v1/projects/{write_key}/settings", "/projects/{write_key}/settings"):
        call("GET", path, client=client, write_key=write_key)


def _use_quarantine(recorder: Recorder, shop: Json) -> None:
    """Export and replay events that were rejected because of the limit of property keys."""
    call, path = recorder.call, "/api/events/refused"
    keys = recorder.services.intake._property_keys
    with patch.object(keys, "_limit", 0):
        for number in (5, 6):
            event = {"event": "signed_up", "userId": f"u-{number}", "properties": {"seats": 3}}
            answer = recorder.tenant.client.post("/api/v1/events", json={**shop, **event})
            assert answer.status_code == 422, answer.text
    call("GET", f"{path}/export", query=shop)
    [entry, *_] = recorder.tenant.client.get(path, params=shop).json()["data"]
    call("POST", f"{path}/{{number}}/replay", number=str(entry["number"]))
    call("POST", f"{path}/replay", shop)


def _use_exports(recorder: Recorder) -> None:
    call, client = recorder.call, recorder.tenant.client
    blog = {"websiteId": new_website(client, "Blog")}
    event = {"event": "read", "visitorId": "v-1", "userId": "u-1", "timestamp": _DAY + "T10:00:00Z"}
    assert client.post("/api/v1/events", json={**blog, **event}).status_code == 202
    export = call("POST", "/api/exports", {"destination": "backups.example.com:/backups/acme"})
    call("GET", "/api/exports/days", query={**blog, "exportId": export["id"]})
    call("GET", "/api/exports/day", query={**blog, "day": _DAY, "format": "ndjson"})
    call("GET", "/api/exports/identities", query={**blog, "format": "ndjson"})
    call("GET", "/api/exports/members")
    call("POST", "/api/exports/{export_id}/finish", export_id=export["id"])
    call("GET", "/api/exports", query={"pageSize": 1})
    call("DELETE", "/api/exports/{export_id}", export_id=export["id"])


def _use_links(recorder: Recorder, app_id: str) -> None:
    call, links = recorder.call, "/api/mobile/deferred-links"
    new = {
        "websiteId": app_id,
        "name": "Spring newsletter",
        "slug": "spring-sale",
        "destinationPath": "/offers/42",
        "utmSource": "newsletter",
    }
    link = call("POST", links, new)
    link_id = {"link_id": link["id"]}
    call("GET", f"{links}/{{link_id}}", **link_id)
    call("GET", links, query={"pageSize": 1})
    opened = {
        "websiteId": app_id,
        "installId": "5f0c1f6e-6a0e-4a5e-9d0b-0f3f5b6c7d8e",
        "platform": "android",
        "osVersion": "15",
        "appVersion": "2.1",
        "firstOpen": True,
        "url": link["hostedUrl"],
    }
    resolved = call("POST", f"{links}/resolve", opened)
    for part in ("history", "matches", "stats", "qr"):
        call("GET", f"{links}/{{link_id}}/{part}", **link_id)
    call("GET", f"{links}/matches", query={"websiteId": app_id, "pageSize": 1})
    visitor = {"websiteId": app_id, "visitorId": resolved["visitorId"]}
    call("GET", f"{links}/attribution", query=visitor)
    call("PATCH", links, {"id": link["id"], "isActive": False})
    rows = f"websiteId,slug,name,destinationPath\n{app_id},summer,Summer,/offers/43\n"
    call("POST", f"{links}/csv", rows, headers=_CSV)
    call("GET", f"{links}/csv", query={"websiteId": app_id})
    call("GET", "/api/settings/websites/{website_id}/app-links/check", website_id=app_id)
    fingerprint = ":".join(["AB"] * 32)
    ids = {"androidPackage": "com.example.shop", "androidSha256Fingerprints": [fingerprint]}
    apple = {"iosBundleId": "com.example.shop", "iosTeamId": "A1B2C3D4E5"}
    changed = recorder.tenant.client.patch(
        f"/api/settings/websites/{app_id}", json={**ids, **apple}
    )
    assert changed.is_success, changed.text
    for name in ("apple-app-site-association", "assetlinks.json"):
        call("GET", f"/.well-known/{name}", client=new_browser(recorder.tenant))
