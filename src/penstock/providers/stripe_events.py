"""Events of Stripe, from JSON to `ProviderEvent`."""

from collections.abc import Mapping
from typing import Any

from penstock.providers.model import EventMapping, Properties, Provider, ProviderEvent
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

STRIPE: Mapping[str, EventMapping] = {
    "checkout.session.completed": EventMapping("purchase", "amount_total"),
    "payment_intent.succeeded": EventMapping("payment", "amount_received"),
    "payment_intent.payment_failed": EventMapping("payment_failed", "amount"),
    "charge.refunded": EventMapping("refund", "amount_refunded"),
    "invoice.paid": EventMapping("renewal", "amount_paid"),
    "customer.subscription.created": EventMapping("subscription_started"),
    "customer.subscription.updated": EventMapping("subscription_updated"),
    "customer.subscription.deleted": EventMapping("subscription_ended"),
    "customer.subscription.trial_will_end": EventMapping("trial_ending"),
}
"""Stripe's types of events and their transaction events."""

_ID_PATHS: Mapping[str, tuple[str, ...]] = {
    "transactionId": ("id",),
    "customerId": ("customer",),
    "subscriptionId": ("subscription", "parent.subscription_details.subscription"),
    "paymentIntentId": ("payment_intent",),
    "status": ("status",),
    "paymentStatus": ("payment_status",),
    "billingReason": ("billing_reason",),
    "failureCode": ("last_payment_error.code",),
    "declineCode": ("last_payment_error.decline_code",),
}
_EMAIL_PATHS = (
    "customer_details.email", "customer_email", "receipt_email", "billing_details.email",
)  # fmt: skip
_SUBSCRIPTION_METADATA_PATHS = (
    "parent.subscription_details.metadata",
    "subscription_details.metadata",
)
"""Of an invoice's subscription. The second path: API versions before 2025-03-31."""


def stripe_event(body: Any) -> ProviderEvent:
    """`NotAnEvent` when the body is not a Stripe event."""
    event = require_object(body, "The body")
    event_type = require_id(event.get("type"), "type")
    mapping = STRIPE.get(event_type)
    payload = value_at(event, "data.object")
    if mapping is not None:
        require_object(payload, "data.object")
    properties: Properties = {"provider": Provider.STRIPE.value, "providerType": event_type}
    properties |= id_properties(payload, _ID_PATHS)
    # A charge has the total refunded so far; this event is about the increase.
    refunded_before = (
        value_at(event, f"data.previous_attributes.{mapping.amount}") if mapping else None
    )
    properties |= amount_properties(payload, mapping, already_reported=refunded_before)
    if isinstance(livemode := event.get("livemode"), bool):
        properties["livemode"] = livemode
    return ProviderEvent(
        id=require_id(event.get("id"), "id"),
        type=event_type,
        name=mapping.name if mapping else None,
        occurred_at_ms=time_ms(event.get("created"), "created"),
        properties=properties,
        metadata=_metadata(payload),
        customer_id=first_id(payload, "customer"),
        email=find_email(payload, _EMAIL_PATHS),
    )


def _metadata(payload: Any) -> Any:
    """The object's own metadata over that of its subscription."""
    own = value_at(payload, "metadata")
    inherited = next(
        (
            metadata
            for path in _SUBSCRIPTION_METADATA_PATHS
            if isinstance(metadata := value_at(payload, path), dict)
        ),
        {},
    )
    return {**inherited, **(own or {})} if own is None or isinstance(own, dict) else own
