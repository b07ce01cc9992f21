"""Events of Stripe, from JSON to `ProviderEvent`."""

from collections.abc import Mapping
from typing import Any

from penstock.providers.model import Meaning, Provider, ProviderEvent
from penstock.providers.reading import Told, at, details, email_of, first_id, moment_ms, money, needed_id, needed_object

STRIPE: Mapping[str, Meaning] = {
    "checkout.session.completed": Meaning("purchase", "amount_total"),
    "payment_intent.succeeded": Meaning("payment", "amount_received"),
    "payment_intent.payment_failed": Meaning("payment_failed", "amount"),
    "charge.refunded": Meaning("refund", "amount_refunded"),
    "invoice.paid": Meaning("renewal", "amount_paid"),
    "customer.subscription.created": Meaning("subscription_started"),
    "customer.subscription.updated": Meaning("subscription_updated"),
    "customer.subscription.deleted": Meaning("subscription_ended"),
    "customer.subscription.trial_will_end": Meaning("trial_ending"),
}
"""Stripe's types of events and the transaction events that they become."""

_DETAILS: Mapping[str, tuple[str, ...]] = {
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
_EMAILS = ("customer_details.email", "customer_email", "receipt_email", "billing_details.email")
_METADATA_OF_THE_SUBSCRIPTION = ("parent.subscription_details.metadata", "subscription_details.metadata")
"""An invoice carries the metadata of its subscription beside its own. The second place is that of API versions before 2025-03-31."""


def stripe_event(body: Any) -> ProviderEvent:
    """`NotAnEvent` when the body is none of Stripe's."""
    event = needed_object(body, "The body")
    kind = needed_id(event.get("type"), "type")
    meaning = STRIPE.get(kind)
    thing = at(event, "data.object")
    if meaning is not None:
        needed_object(thing, "data.object")
    told: Told = {"provider": Provider.STRIPE.value, "providerType": kind}
    told |= details(thing, _DETAILS)
    # What was refunded of a charge in all; this event is about what came on top.
    told |= money(thing, meaning, already=at(event, f"data.previous_attributes.{meaning.amount}") if meaning else None)
    if isinstance(livemode := event.get("livemode"), bool):
        told["livemode"] = livemode
    return ProviderEvent(
        id=needed_id(event.get("id"), "id"),
        type=kind,
        name=meaning.name if meaning else None,
        occurred_at_ms=moment_ms(event.get("created"), "created"),
        told=told,
        metadata=_metadata(thing),
        customer_id=first_id(thing, "customer"),
        email=email_of(thing, _EMAILS),
    )


def _metadata(thing: Any) -> Any:
    own = at(thing, "metadata")
    inherited = next((found for path in _METADATA_OF_THE_SUBSCRIPTION if isinstance(found := at(thing, path), dict)), {})
    return {**inherited, **(own or {})} if own is None or isinstance(own, dict) else own
