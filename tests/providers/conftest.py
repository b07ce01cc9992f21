"""Fixtures for signed webhooks, and for the events that result."""

import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import httpx
import pytest
from standardwebhooks import Webhook

from tests.conftest import ShiftedClock
from tests.tenant import Tenant, visitor
from tests.waiting import PATIENCE_S

STRIPE_SECRET = "whsec_stripe_0123456789"
POLAR_SECRET = "polar_whs_0123456789abcdef"
STANDARD_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SECRETS = {"stripe": STRIPE_SECRET, "polar": POLAR_SECRET, "standardwebhooks": STANDARD_SECRET}

Json = dict[str, Any]


def stripe_headers(body: str, at_s: int, secret: str = STRIPE_SECRET) -> dict[str, str]:
    signature = hmac.digest(secret.encode(), f"{at_s}.{body}".encode(), "sha256").hex()
    return {"Stripe-Signature": f"t={at_s},v1={signature}"}


def standard_headers(body: str, at_s: int, key: str | bytes, delivery_id: str) -> dict[str, str]:
    signature = Webhook(key).sign(delivery_id, datetime.fromtimestamp(at_s, UTC), body)
    return {
        "webhook-id": delivery_id,
        "webhook-timestamp": str(at_s),
        "webhook-signature": signature,
    }


def stripe_event(
    kind: str, data_object: Json, *, event_id: str | None = None, at_s: int, **more: Any
) -> Json:
    data = {"object": data_object, **more.pop("data", {})}
    return {
        "id": event_id or f"evt_{uuid4().hex}",
        "object": "event",
        "type": kind,
        "created": at_s,
        "livemode": True,
        "data": data,
        **more,
    }


@dataclass
class Sender:
    """Sends signed webhooks to one website, without an API key or session."""

    tenant: Tenant
    client: httpx.Client
    clock: ShiftedClock

    @property
    def now_s(self) -> int:
        return self.clock() // 1000

    def url(self, provider: str) -> str:
        return f"/api/providers/{provider}/{self.tenant.website_id}"

    def set_secret(self, provider: str, secret: str, **more: Any) -> httpx.Response:
        path = f"/api/settings/websites/{self.tenant.website_id}/providers/{provider}"
        return self.tenant.client.put(path, json={"signingSecret": secret, **more})

    def post(self, provider: str, body: str | bytes, headers: dict[str, str]) -> httpx.Response:
        return self.client.post(
            self.url(provider),
            content=body,
            headers={"Content-Type": "application/json", **headers},
        )

    def stripe(
        self,
        kind: str = "payment_intent.succeeded",
        data_object: Json | None = None,
        *,
        secret: str = STRIPE_SECRET,
        age_s: int = 0,
        **more: Any,
    ) -> httpx.Response:
        """Send a Stripe webhook. age_s: seconds since it was signed."""
        at_s = more.pop("at_s", self.now_s - 60)
        if data_object is None:
            data_object = {"id": "pi_1", "object": "thing"}
        event = stripe_event(kind, data_object, at_s=at_s, **more)
        return self.signed_stripe(event, age_s, secret)

    def signed_stripe(
        self, event: Json, age_s: int = 0, secret: str = STRIPE_SECRET
    ) -> httpx.Response:
        """Sign and send the event as it is."""
        body = json.dumps(event)
        return self.post("stripe", body, stripe_headers(body, self.now_s - age_s, secret))

    def standard(
        self,
        kind: str = "order.paid",
        data: Json | None = None,
        *,
        provider: str = "polar",
        key: str | bytes = POLAR_SECRET.encode(),
        age_s: int = 0,
        delivery_id: str | None = None,
        timestamp: Any = ...,
    ) -> httpx.Response:
        if timestamp is ...:
            timestamp = datetime.fromtimestamp(self.now_s - 60, UTC).isoformat()
        data = {"id": "ord_1"} if data is None else data
        body = json.dumps({"type": kind, "timestamp": timestamp, "data": data})
        delivery_id = delivery_id or f"msg_{uuid4().hex}"
        headers = standard_headers(body, self.now_s - age_s, key, delivery_id)
        return self.post(provider, body, headers)

    def purchase(self, provider: str, at_s: int, **metadata: Any) -> httpx.Response:
        """Send a purchase from a provider."""
        data = {"id": "pur_1", "metadata": metadata}
        if provider == "stripe":
            return self.stripe("checkout.session.completed", data, at_s=at_s)
        time, secret = datetime.fromtimestamp(at_s, UTC).isoformat(), SECRETS[provider]
        key = secret.encode() if provider == "polar" else secret
        return self.standard(data=data, provider=provider, key=key, timestamp=time)


@pytest.fixture
def sender(workspace: Tenant, server: Any, clock: ShiftedClock) -> Sender:
    """A sender for a website that accepts webhooks from all providers."""
    sender = Sender(workspace, visitor(server), clock)
    for provider, secret in SECRETS.items():
        assert sender.set_secret(provider, secret).status_code == 200
    return sender


@pytest.fixture
def stored(services: Any, warehouse: Any, workspace: Tenant) -> Callable[[], list[Json]]:
    """Return the website's provider events in the warehouse, ordered by time."""

    def read() -> list[Json]:
        assert services.shipper.wait_until_shipped(PATIENCE_S)
        names, rows = warehouse.query(
            "SELECT event_id, kind, name, source, verified, visitor_id, user_id, properties,"
            " toUnixTimestamp64Milli(occurred_at) AS occurred_at FROM events"
            " WHERE website_id = {w:String} AND source = 'provider'"
            " ORDER BY events.occurred_at, event_id",
            {"w": workspace.website_id},
        )
        events = [dict(zip(names, row, strict=True)) for row in rows]
        return [event | {"properties": json.loads(event["properties"] or "{}")} for event in events]

    return read
