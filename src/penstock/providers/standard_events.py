"""Parses events from Polar and other Standard Webhooks senders into `ProviderEvent`."""

from collections.abc import Mapping
from typing import Any

from penstock.base.payment_providers import Provider
from penstock.providers.model import EventMapping, Headers, Properties, ProviderEvent
from penstock.providers.payload import (
    amount_properties,
    find_email,
    first_id,
    id_properties,
    require_id,
    require_object,
    time_ms,
    value_at,
)

POLAR: Mapping[str, EventMapping] = {
    "order.paid": EventMapping("purchase", "total_amount"),
    "order.refunded": EventMapping("refund", "refunded_amount"),
    "subscription.created": EventMapping("subscription_started", "amount"),
    "subscription.active": EventMapping("subscription_activated", "amount"),
    "subscription.updated": EventMapping("subscription_updated", "amount"),
    "subscription.canceled": EventMapping("subscription_cancelled", "amount"),
    "subscription.uncanceled": EventMapping("subscription_resumed", "amount"),
    "subscription.past_due": EventMapping("subscription_past_due", "amount"),
    "subscription.revoked": EventMapping("subscription_ended", "amount"),
}
"""Polar's event types, each with its transaction event."""

RENEWAL_REASONS = frozenset(("subscription_cycle", "subscription_update"))
"""Values of `billing_reason` that make an `order.paid` event a renewal."""

_ID_PATHS: Mapping[str, tuple[str, ...]] = {
    "transactionId": ("id",),
    "customerId": ("customer_id", "customer"),
    "subscriptionId": ("subscription_id", "subscription"),
    "checkoutId": ("checkout_id",),
    "productId": ("product_id", "product"),
    "status": ("status",),
    "billingReason": ("billing_reason",),
}
_TIME_PATHS = ("timestamp", "data.modified_at", "data.created_at")
_EMAIL_PATHS = ("customer.email", "user.email", "customer_email")


def standard_event(provider: Provider, body: Any, headers: Headers) -> ProviderEvent:
    """Parse a body. Raises `NotAnEvent` if it does not have the form `{type, timestamp, data}`.

    headers: the signed `webhook-id`, which is the same for every retry, and `webhook-timestamp`,
    the time of signing in seconds since 1970, which is used if the body contains no time.
    """
    event = require_object(body, "the body")
    event_type = require_id(event.get("type"), "type")
    mapping = POLAR.get(event_type)
    payload = event.get("data")
    if mapping is not None:
        require_object(payload, "data")
    if event_type == "order.paid" and first_id(payload, "billing_reason") in RENEWAL_REASONS:
        mapping = EventMapping("renewal", "total_amount")
    signed_at_s = int(headers["webhook-timestamp"])
    occurred_at = next(
        (time for path in _TIME_PATHS if (time := value_at(event, path)) is not None), signed_at_s
    )
    properties: Properties = {"provider": provider.value, "providerType": event_type}
    properties |= id_properties(payload, _ID_PATHS)
    properties |= amount_properties(payload, mapping)
    return ProviderEvent(
        id=require_id(headers["webhook-id"], "webhook-id"),
        type=event_type,
        name=mapping.name if mapping else None,
        occurred_at_ms=time_ms(occurred_at, "timestamp"),
        properties=properties,
        metadata=value_at(payload, "metadata"),
        customer_id=first_id(payload, "customer_id", "customer"),
        email=find_email(payload, _EMAIL_PATHS),
    )
