"""Events of Polar, and of other senders that follow Standard Webhooks, from JSON to `ProviderEvent`."""

from collections.abc import Mapping
from typing import Any

from penstock.providers.model import Meaning, Provider, ProviderEvent
from penstock.providers.reading import Told, at, details, email_of, first_id, moment_ms, money, needed_id, needed_object

POLAR: Mapping[str, Meaning] = {
    "order.paid": Meaning("purchase", "total_amount"),
    "order.refunded": Meaning("refund", "refunded_amount"),
    "subscription.created": Meaning("subscription_started", "amount"),
    "subscription.active": Meaning("subscription_activated", "amount"),
    "subscription.updated": Meaning("subscription_updated", "amount"),
    "subscription.canceled": Meaning("subscription_cancelled", "amount"),
    "subscription.uncanceled": Meaning("subscription_resumed", "amount"),
    "subscription.past_due": Meaning("subscription_past_due", "amount"),
    "subscription.revoked": Meaning("subscription_ended", "amount"),
}
"""Polar's types of events and the transaction events that they become."""

RENEWAL_REASONS = frozenset(("subscription_cycle", "subscription_update"))
"""An `order.paid` with one of these as its `billing_reason` is a renewal."""

_DETAILS: Mapping[str, tuple[str, ...]] = {
    "transactionId": ("id",),
    "customerId": ("customer_id", "customer"),
    "subscriptionId": ("subscription_id", "subscription"),
    "checkoutId": ("checkout_id",),
    "productId": ("product_id", "product"),
    "status": ("status",),
    "billingReason": ("billing_reason",),
}


_TIMES = ("timestamp", "data.modified_at", "data.created_at")


def standard_event(body: Any, provider: Provider, delivery_id: str, signed_at_s: int) -> ProviderEvent:
    """`NotAnEvent` when the body is not `{type, timestamp, data}`. delivery_id: the signed `webhook-id`, the same for every retry.
    signed_at_s: stands in for a time that the body does not tell.
    """
    event = needed_object(body, "The body")
    kind = needed_id(event.get("type"), "type")
    meaning = POLAR.get(kind)
    data = event.get("data")
    if meaning is not None:
        needed_object(data, "data")
    if kind == "order.paid" and first_id(data, "billing_reason") in RENEWAL_REASONS:
        meaning = Meaning("renewal", "total_amount")
    occurred_at = next((found for path in _TIMES if (found := at(event, path)) is not None), signed_at_s)
    told: Told = {"provider": provider.value, "providerType": kind}
    told |= details(data, _DETAILS)
    told |= money(data, meaning)
    return ProviderEvent(
        id=needed_id(delivery_id, "webhook-id"),
        type=kind,
        name=meaning.name if meaning else None,
        occurred_at_ms=moment_ms(occurred_at, "timestamp"),
        told=told,
        metadata=at(data, "metadata"),
        customer_id=first_id(data, "customer_id", "customer"),
        email=email_of(data, ("customer.email", "user.email", "customer_email")),
    )
