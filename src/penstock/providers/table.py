"""The table of payment providers: how each signs its webhooks, and what they contain."""

from collections.abc import Mapping
from functools import partial

from penstock.base.payment_providers import Provider
from penstock.providers.model import WebhookRules
from penstock.providers.signatures import is_base64, polar_keys, verify_standard, verify_stripe
from penstock.providers.standard_events import standard_event
from penstock.providers.stripe_events import stripe_event

_STANDARD_HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")

PROVIDERS: Mapping[Provider, WebhookRules] = {
    Provider.STRIPE: WebhookRules(
        headers=("stripe-signature",), verify=verify_stripe, parse=stripe_event
    ),
    Provider.POLAR: WebhookRules(
        headers=_STANDARD_HEADERS,
        verify=verify_standard,
        parse=partial(standard_event, Provider.POLAR),
        keys=polar_keys,
    ),
    Provider.STANDARD: WebhookRules(
        headers=_STANDARD_HEADERS,
        verify=verify_standard,
        parse=partial(standard_event, Provider.STANDARD),
        is_secret=is_base64,
    ),
}
