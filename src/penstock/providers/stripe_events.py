"""Parses events from Stripe into `ProviderEvent`."""

from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from penstock.base.payment_providers import Provider
from penstock.providers.model import (
    IDENTITY_KEYS,
    EventMapping,
    Headers,
    Properties,
    ProviderEvent,
)
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
    "checkout.session.async_payment_succeeded": EventMapping("purchase", "amount_total"),
    "checkout.session.async_payment_failed": EventMapping("payment_failed", "amount_total"),
    "checkout.session.expired": EventMapping("checkout_expired", "amount_total"),
    "payment_intent.succeeded": EventMapping("payment", "amount_received"),
    "payment_intent.payment_failed": EventMapping("payment_failed", "amount"),
    "charge.refunded": EventMapping("refund", "amount_refunded"),
    "invoice.paid": EventMapping("renewal", "amount_paid"),
    "customer.subscription.created": EventMapping("subscription_started"),
    "customer.subscription.updated": EventMapping("subscription_updated"),
    "customer.subscription.deleted": EventMapping("subscription_ended"),
    "customer.subscription.trial_will_end": EventMapping("trial_ending"),
}
"""Stripe's event types, each with its transaction event."""

UNPAID_CHECKOUT = EventMapping("checkout_completed", "amount_total")
"""The event for a checkout that is complete but not yet paid, for example by bank debit.

Stripe later reports the payment as `async_payment_succeeded` or `async_payment_failed`. Source:
Stripe, "Fulfill orders".
"""

STARTED_SUBSCRIPTION = STRIPE["customer.subscription.created"]
"""Also the event for an update by which an incomplete subscription becomes active or a trial.

Stripe creates a subscription as `incomplete` until its first payment, and reports the payment as
`customer.subscription.updated`. Source: Stripe, "How subscriptions work".
"""
_RUNNING = ("active", "trialing")

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
"""Paths to the metadata of an invoice's subscription.

API versions before 2025-03-31 use the second path.
"""


def stripe_event(body: Any, _headers: Headers) -> ProviderEvent:
    """Parse a body. Raises `NotAnEvent` if it is not a Stripe event."""
    event = require_object(body, "the body")
    event_type = require_id(event.get("type"), "type")
    payload = value_at(event, "data.object")
    previous = value_at(event, "data.previous_attributes")
    mapping = _mapping(event_type, payload, previous)
    if mapping is not None:
        require_object(payload, "data.object")
    properties: Properties = {"provider": Provider.STRIPE.value, "providerType": event_type}
    properties |= id_properties(payload, _ID_PATHS)
    # A charge contains the total refunded so far, but our event reports only the increase.
    refunded_before = value_at(previous, mapping.amount) if mapping and mapping.amount else None
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


def _mapping(event_type: str, payload: Any, previous: Any) -> EventMapping | None:
    """Return the transaction event for a Stripe event, or None if its type has no mapping.

    previous: the earlier values of what an update changed.
    """
    match event_type:
        case "checkout.session.completed" if value_at(payload, "payment_status") == "unpaid":
            return UNPAID_CHECKOUT
        case "customer.subscription.updated" if (
            value_at(previous, "status") == "incomplete" and value_at(payload, "status") in _RUNNING
        ):
            return STARTED_SUBSCRIPTION
        case _:
            return STRIPE.get(event_type)


def _metadata(payload: Any) -> Any:
    """Merge the object's metadata, its client reference and its subscription's metadata.

    Earlier sources override later ones. Buyers can forge the client reference, so its visitor is
    ignored if the merchant's metadata contains a user: otherwise that visitor would be linked to
    the user.
    """
    own = value_at(payload, "metadata")
    inherited = next(
        (
            metadata
            for path in _SUBSCRIPTION_METADATA_PATHS
            if isinstance(metadata := value_at(payload, path), dict)
        ),
        {},
    )
    if own is not None and not isinstance(own, dict):
        return own
    reference = client_reference(value_at(payload, "client_reference_id"))
    if "userId" in {**inherited, **(own or {})}:
        reference.pop("visitorId", None)
    return {**inherited, **reference, **(own or {})}


_REFERENCE_PREFIX = "penstock_"
_MAX_REFERENCE_CHARS = 200


def client_reference(value: Any) -> dict[str, str]:
    """Parse the visitor and attempt from a Penstock client's `client_reference_id`.

    Returns an empty dict for any other reference. The format is `penstock_` followed by three lines
    in URL-safe base64 without padding: the visitor's ID, the attempt property and the attempt's ID.
    `attempt.ts` in `sdk/js` writes it. Stripe allows 200 characters.
    """
    if not isinstance(value, str) or len(value) > _MAX_REFERENCE_CHARS:
        return {}
    encoded = value.removeprefix(_REFERENCE_PREFIX)
    if encoded == value:
        return {}
    padded = encoded + "=" * (-len(encoded) % 4)
    try:
        text = b64decode(padded, altchars=b"-_", validate=True).decode()
    except ValueError:
        return {}
    parts = text.split("\n")
    if len(parts) != 3 or not all(parts):
        return {}
    visitor_id, attempt_property, attempt_id = parts
    if attempt_property in IDENTITY_KEYS:  # the buyer may have written the reference
        return {}
    return {"visitorId": visitor_id, attempt_property: attempt_id}
