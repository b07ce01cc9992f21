"""Examples for the API reference: requests to a running application, and its responses."""

import re
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.tenant import Tenant
from tests.waiting import eventually

Json = dict[str, Any]

_PLACEHOLDERS = (
    (r"\b([a-z]{3,5})_[0-9A-Za-z_-]{20,}", r"\1_..."),
    (r"\bpsk_[\w-]{8}(?![\w-])", "psk_Ab3xK9-q"),
    (r"\b(invitation)=[\w-]+", r"\1=..."),
    (r"\b[0-9a-f]{32}@example\.com", "ann@example.com"),
    (r"\b[0-9a-f]{32}\b", "5f0c8a1be2d94c37..."),
    (r"20(?!26-05-0)\d\d-\d\d-\d\dT[\d:.]+Z", "2026-11-21T10:00:00.000Z"),
    (r'("cursor": ")[^"]+', r"\1AAABohmzZAzs-zgV"),
    (r"http://testserver\.local", "https://penstock.example.com"),
    (r'("(?:elapsedSeconds|rowsRead|rowsToRead)": )[\d.]+', r"\g<1>1"),
)
"""Values that differ from run to run, with their placeholders in the reference."""


def with_placeholders(text: str) -> str:
    for pattern, shown in _PLACEHOLDERS:
        text = re.sub(pattern, shown, text)
    return text


@dataclass
class Recorder:
    """Sends requests, and records each request with its response."""

    tenant: Tenant
    examples: list[Json] = field(default_factory=list)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Json | None = None,
        client: httpx.Client | None = None,
        **parts: str,
    ) -> Any:
        """path: a template such as `/api/goals/{goal_id}`. Its fields are in `parts`."""
        address = httpx.URL(path.format(**parts), params=query or {})
        answer = (client or self.tenant.client).request(method, address, json=body)
        assert answer.is_success, answer.text
        response = answer.json() if answer.content else None
        self.examples.append(
            {
                "operation": f"{method} {path}",
                "address": str(address),
                "body": body,
                "status": answer.status_code,
                "response": response,
            }
        )
        return response


def recorded_examples(tenant: Tenant) -> list[Json]:
    """Use each area of the API once, from a website to its deletion request."""
    recorder = Recorder(tenant)
    call = recorder.call
    website = call("POST", "/api/settings/websites", {"name": "Shop", "kind": "web"})
    app = call("POST", "/api/settings/websites", {"name": "Shop app", "kind": "mobile"})
    shop = {"websiteId": website["id"]}
    call("GET", "/api/settings/workspace")
    _send_events(recorder, website["id"])
    _read_activity(recorder, shop)
    _use_goals(recorder)
    _use_funnels(recorder, shop)
    _use_links(recorder, app["id"])
    call("GET", "/api/attribution", query=shop)
    call("GET", "/api/imports")
    _use_settings(recorder, website["id"])
    _use_session(recorder)
    call("GET", "/api/deletions", query={"pageSize": 1})
    call("POST", "/api/deletions", {**shop, "userId": "u-2"})
    return recorder.examples


def _use_settings(recorder: Recorder, website_id: str) -> None:
    """Read and change a workspace, its people, websites and keys."""
    call, browser = recorder.call, recorder.tenant.browser
    place = {"website_id": website_id}
    call("GET", "/api/settings/websites", query={"pageSize": 1})
    call("GET", "/api/settings/websites/{website_id}", **place)
    call("PATCH", "/api/settings/websites/{website_id}", {"domain": "shop.example"}, **place)
    call("PATCH", "/api/settings/workspace", {"queryTimeoutSeconds": 30}, client=browser)
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
    call("POST", secrets, client=browser, **place)
    call("GET", secrets, client=browser, **place)
    call("DELETE", secrets, client=browser, **place)
    call("GET", "/api/settings/websites/{website_id}/providers", **place)
    call("GET", "/api/settings/audit-log", query={"pageSize": 1}, client=browser)


def _use_session(recorder: Recorder) -> None:
    call, browser = recorder.call, recorder.tenant.browser
    call("GET", "/api/auth/session", client=browser)
    call("GET", "/api/auth/sessions", client=browser)
    call("GET", "/api/auth/workspaces", client=browser)
    call("GET", "/api/auth/second-factor", client=browser)


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
    recorder.call("GET", "/api/visitors", query={**shop, "pageSize": 1})
    visitor = {"visitor_id": recent["data"][0]["visitorId"]}
    recorder.call("GET", "/api/visitors/{visitor_id}", query=shop, **visitor)
    events = "/api/visitors/{visitor_id}/events"
    recorder.call("GET", events, query={**shop, "pageSize": 1}, **visitor)
    recorder.call("GET", "/api/events/counts")
    recorder.call("GET", "/api/events/refused", query=shop)
    recorder.call("GET", "/api/schema/events", query=shop)
    recorder.call("GET", "/api/schema/properties", query=shop)
    recorder.call("GET", "/api/schema/values", query={**shop, "property": "plan"})


def _use_goals(recorder: Recorder) -> None:
    match = {"type": "Transaction", "value": "purchase", "filters": []}
    goal = recorder.call("POST", "/api/goals", {"name": "Paid", "match": match})
    recorder.call("GET", "/api/goals", query={"pageSize": 1})
    recorder.call("GET", "/api/goals/{goal_id}", goal_id=goal["id"])
    recorder.call("PATCH", "/api/goals/{goal_id}", {"name": "Has paid"}, goal_id=goal["id"])
    recorder.call("DELETE", "/api/goals/{goal_id}", goal_id=goal["id"])


def _use_funnels(recorder: Recorder, shop: Json) -> None:
    definition = {
        "name": "Checkout",
        "countingUnit": "attempt",
        "attemptProperty": "checkoutId",
        "breakdownProperties": ["plan"],
        "steps": [
            {"type": "Event", "value": "checkout_started"},
            {"type": "Transaction", "value": "purchase"},
        ],
    }
    recorder.call("POST", "/api/funnels/validate", definition)
    funnel = recorder.call("POST", "/api/funnels", definition)
    place = {"funnel_id": funnel["id"]}
    recorder.call("GET", "/api/funnels", query={"pageSize": 1})
    recorder.call("GET", "/api/funnels/{funnel_id}", **place)
    days = {**shop, "startAt": "2026-05-01T00:00:00Z", "endAt": "2026-05-03T00:00:00Z"}
    for part in ("results", "verdict", "trend", "timing", "units"):
        recorder.call("GET", f"/api/funnels/{{funnel_id}}/{part}", query=days, **place)
    _wait_for_a_job(recorder, f"/api/funnels/{funnel['id']}/results")
    trace = "/api/funnels/{funnel_id}/units/{unit}"
    recorder.call("GET", trace, query=shop, unit="c-1", **place)
    by_plan, after_start = {**days, "property": "plan"}, {**days, "step": 1}
    recorder.call("GET", "/api/funnels/{funnel_id}/compare", query=by_plan, **place)
    recorder.call("GET", "/api/funnels/{funnel_id}/next", query=after_start, **place)
    recorder.call("GET", "/api/funnels/{funnel_id}/drivers", query=after_start, **place)
    recorder.call("GET", "/api/funnels/{funnel_id}/outcomes", **place)
    recorder.call("POST", "/api/funnels/preview", {**days, **definition})
    renamed = {**definition, "name": "Checkout to purchase"}
    recorder.call("PUT", "/api/funnels/{funnel_id}", renamed, **place)
    recorder.call("GET", "/api/funnels/{funnel_id}/revisions", query={"pageSize": 1}, **place)
    recorder.call("DELETE", "/api/funnels/{funnel_id}", **place)


def _wait_for_a_job(recorder: Recorder, path: str) -> None:
    client = recorder.tenant.client
    job = client.get(path, headers={"Prefer": "respond-async"}).json()

    def is_done() -> bool:
        return bool(client.get(f"/api/jobs/{job['id']}").json()["state"] == "done")

    eventually(is_done)
    recorder.call("GET", "/api/jobs/{job_id}", job_id=job["id"])


def _use_links(recorder: Recorder, app_id: str) -> None:
    new = {
        "websiteId": app_id,
        "name": "Spring newsletter",
        "slug": "spring-sale",
        "destinationPath": "/offers/42",
    }
    link = recorder.call("POST", "/api/mobile/deferred-links", new)
    recorder.call("GET", "/api/mobile/deferred-links/{link_id}", link_id=link["id"])
    recorder.call("GET", "/api/mobile/deferred-links", query={"pageSize": 1})
    for part in ("history", "matches", "stats"):
        recorder.call("GET", f"/api/mobile/deferred-links/{{link_id}}/{part}", link_id=link["id"])
    opened = {
        "websiteId": app_id,
        "installId": "5f0c1f6e-6a0e-4a5e-9d0b-0f3f5b6c7d8e",
        "platform": "android",
        "osVersion": "15",
        "appVersion": "2.1",
        "firstOpen": True,
    }
    recorder.call("POST", "/api/mobile/deferred-links/resolve", opened)
    check = "/api/settings/websites/{website_id}/app-links/check"
    recorder.call("GET", check, website_id=app_id)
