"""POST /api/providers/{provider}/{website_id}: accepted deliveries and their events."""

import gzip
import json
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from penstock.base.clock import iso, parse_time
from penstock.providers.standard_events import POLAR, RENEWAL_REASONS
from penstock.providers.stripe_events import STRIPE
from tests.answers import problem
from tests.cases import cases
from tests.providers.conftest import (
    POLAR_SECRET,
    STANDARD_SECRET,
    STRIPE_SECRET,
    Json,
    Sender,
    standard_headers,
    stripe_event,
    stripe_headers,
)
from tests.tenant import Tenant

Stored = Callable[[], list[Json]]


# Signatures -------------------------------------------------------------------


def test_a_signed_webhook_is_accepted_and_on_disk(sender: Sender, stored: Stored) -> None:
    answer = sender.stripe(
        "payment_intent.succeeded", {"id": "pi_1", "amount_received": 1999, "currency": "eur"}
    )
    assert answer.status_code == 200, answer.text
    assert answer.json() == {
        "status": "accepted",
        "eventId": answer.json()["eventId"],
        "event": "payment",
        "warnings": [],
    }
    assert [(row["event_id"], row["kind"], row["name"]) for row in stored()] == [
        (answer.json()["eventId"], "transaction", "payment")
    ]


@pytest.mark.parametrize(
    ("body", "signature"),
    [
        (
            '{"id": "evt_1", "object": "event", "type": "invoice.paid", "created": 4102444700, '
            '"data": {"object": {"id": "in_1"}}}',
            "b7ca80f671360c109b714cb0ffd49cdeed204ebf0a2643175bd31b29411b5384",
        ),
        (
            '{"id": "evt_2", "object": "event", "type": "invoice.paid", "created": 4102444700,\n'
            '  "data": {"object": {"id": "in_2", "metadata": {"city": "Orléans ✈"}}}}\n',
            "b04a5d90cc592737b5f8658b78663ce986bbeb99de1d9f7c039c2ed715d6999b",
        ),
    ],
)
def test_signatures_from_stripes_own_library_are_accepted(
    sender: Sender, body: str, signature: str
) -> None:
    """The signatures are from `WebhookSignature` of stripe 16.1.0."""
    assert STRIPE_SECRET == "whsec_stripe_0123456789"
    signed_at_s = 4_102_444_800
    sender.clock.advance(seconds=signed_at_s - sender.now_s)
    headers = {"Stripe-Signature": f"t={signed_at_s},v1={signature}"}
    assert sender.post("stripe", body.encode(), headers).status_code == 200
    assert sender.post("stripe", f"{body} ".encode(), headers).status_code == 401
    sender.clock.advance(seconds=302)
    assert sender.post("stripe", body.encode(), headers).status_code == 401


@pytest.mark.parametrize(
    ("provider", "key"),
    [
        ("polar", POLAR_SECRET.encode()),
        ("standardwebhooks", STANDARD_SECRET),
        ("standardwebhooks", STANDARD_SECRET.removeprefix("whsec_")),
    ],
)
def test_each_sender_signs_in_its_own_way(
    sender: Sender, stored: Stored, provider: str, key: Any
) -> None:
    assert sender.standard(provider=provider, key=key).status_code == 200
    assert [row["name"] for row in stored()] == ["purchase"]


def test_polar_may_also_have_a_secret_of_the_standard(sender: Sender, stored: Stored) -> None:
    assert sender.set_secret("polar", STANDARD_SECRET).status_code == 200
    assert sender.standard(key=STANDARD_SECRET).status_code == 200
    assert sender.standard(key=STANDARD_SECRET.encode()).status_code == 200
    assert len(stored()) == 2


@cases("age_s", [-290, 0, 290])
def test_a_delivery_may_be_five_minutes_old_or_ahead(sender: Sender, age_s: int) -> None:
    assert sender.stripe(age_s=age_s).status_code == 200
    assert sender.standard(age_s=age_s).status_code == 200


@cases("age_s", [-302, 302, 86_400])
def test_an_older_or_newer_signature_is_401(sender: Sender, stored: Stored, age_s: int) -> None:
    for answer in (sender.stripe(age_s=age_s), sender.standard(age_s=age_s)):
        assert problem(answer) == (401, "bad_signature")
    assert stored() == []


def test_the_age_of_a_webhook_depends_on_the_clock_of_the_service(
    sender: Sender, stored: Stored
) -> None:
    sender.clock.advance(days=30)
    assert sender.stripe().status_code == 200
    assert sender.standard().status_code == 200
    assert sender.stripe(age_s=30 * 86_400).status_code == 401
    assert len(stored()) == 2


def test_a_signature_with_another_secret_is_401(sender: Sender, stored: Stored) -> None:
    assert sender.stripe(secret="whsec_of_somebody_else").status_code == 401
    assert sender.standard(key=b"polar_whs_of_somebody_else").status_code == 401
    assert sender.standard(provider="standardwebhooks", key=b"0" * 24).status_code == 401
    assert stored() == []


def test_a_changed_body_is_401(sender: Sender, stored: Stored) -> None:
    invoice = {"id": "in_1", "amount_paid": 500, "currency": "usd"}
    body = json.dumps(stripe_event("invoice.paid", invoice, at_s=sender.now_s))
    headers = stripe_headers(body, sender.now_s)
    assert sender.post("stripe", body.replace("500", "900"), headers).status_code == 401
    assert sender.post("stripe", json.dumps(json.loads(body), indent=1), headers).status_code == 401
    assert stored() == []
    assert sender.post("stripe", body, headers).status_code == 200


def test_an_old_signature_does_not_pass_with_a_second_time_beside_it(
    sender: Sender, stored: Stored
) -> None:
    body = json.dumps(stripe_event("invoice.paid", {"id": "in_1"}, at_s=sender.now_s))
    old = stripe_headers(body, sender.now_s - 9000)["Stripe-Signature"]
    for header in (
        f"{old},t={sender.now_s}",
        f"t={sender.now_s},{old}",
        old.replace("t=", f"t={sender.now_s}=", 1),
    ):
        assert sender.post("stripe", body, {"Stripe-Signature": header}).status_code == 401
    assert stored() == []


@cases(
    "signature",
    [
        "", "x", "t=", "t=1", "t={now}", "v1=abc", "t={now},v1=", "t=now,v1=abc",
        "t={now},v0={sig}", "t={now};v1={sig}",
        "t={now}.0,v1={sig}", "t=-{now},v1={sig}", "t={now},v1={sig}x",
        "t=" + "9" * 5000 + ",v1={sig}", "t={now},v1=" + "a" * 9000,
        "t={now},v1=\u00e9", "=,=,=", ",",
    ],
)  # fmt: skip
def test_a_malformed_stripe_signature_is_401(
    sender: Sender, stored: Stored, signature: str
) -> None:
    body = json.dumps(stripe_event("invoice.paid", {"id": "in_1"}, at_s=sender.now_s))
    right = stripe_headers(body, sender.now_s)["Stripe-Signature"].rpartition("v1=")[2]
    header = signature.replace("{now}", str(sender.now_s)).replace("{sig}", right).encode("latin-1")
    answer = sender.client.post(
        sender.url("stripe"), content=body, headers=[(b"Stripe-Signature", header)]
    )
    assert problem(answer) == (401, "bad_signature")
    assert stored() == []


@cases(
    "changed",
    [
        {"webhook-id": None}, {"webhook-timestamp": None}, {"webhook-signature": None},
        {"webhook-id": ""}, {"webhook-id": "another"},
        {"webhook-timestamp": "now"}, {"webhook-timestamp": "1e9"},
        {"webhook-timestamp": "9" * 400}, {"webhook-timestamp": "-1"},
        {"webhook-timestamp": "NaN"}, {"webhook-signature": "v1"}, {"webhook-signature": "v1,"},
        {"webhook-signature": "v1,!!!,x"},
        {"webhook-signature": ","}, {"webhook-signature": "v2,{sig}"},
        {"webhook-signature": "v1a,{sig}"}, {"webhook-signature": "{sig}"},
    ],
)  # fmt: skip
def test_malformed_standard_headers_are_401(
    sender: Sender, stored: Stored, changed: dict[str, str | None]
) -> None:
    body = json.dumps({"type": "order.paid", "timestamp": iso(sender.clock()), "data": {}})
    headers = standard_headers(body, sender.now_s, POLAR_SECRET.encode(), "msg_1")
    right = headers["webhook-signature"].removeprefix("v1,")
    expected = {**headers, **changed}
    sent = {
        name: value.replace("{sig}", right) for name, value in expected.items() if value is not None
    }
    answer = sender.post("polar", body, sent)
    assert problem(answer) == (401, "bad_signature")
    assert stored() == []


def test_the_unchanged_standard_headers_are_accepted(sender: Sender) -> None:
    body = json.dumps({"type": "order.paid", "timestamp": iso(sender.clock()), "data": {}})
    headers = standard_headers(body, sender.now_s, POLAR_SECRET.encode(), "msg_1")
    assert sender.post("polar", body, headers).status_code == 200


def test_one_of_several_signatures_is_enough(sender: Sender) -> None:
    body = json.dumps(stripe_event("invoice.paid", {"id": "in_1"}, at_s=sender.now_s))
    header = stripe_headers(body, sender.now_s)["Stripe-Signature"]
    answer = sender.post("stripe", body, {"Stripe-Signature": header.replace("v1=", "v1=00,v1=")})
    assert answer.status_code == 200
    body = json.dumps({"type": "order.paid", "timestamp": iso(sender.clock()), "data": {}})
    headers = standard_headers(body, sender.now_s, POLAR_SECRET.encode(), "msg_1")
    headers["webhook-signature"] = "v1a,other v1,AAAA " + headers["webhook-signature"]
    assert sender.post("polar", body, headers).status_code == 200


# Bodies -----------------------------------------------------------------------

NO_EVENTS: list[bytes] = [
    b"", b" ", b"{", b"[]", b"null", b"1", b'"text"', b"{}", b"\xff\xfe", b'{"id": "\xff"}',
    b"[" * 5000, b'{"id":' * 3000,
    b'{"id": "\\ud800", "type": "invoice.paid", "created": 1}',
]  # fmt: skip
CHANGED: list[Json] = [
    {"id": None}, {"id": ""}, {"id": 5}, {"id": "x" * 500}, {"id": "a\0b"}, {"id": ["evt"]},
    {"type": None}, {"type": ""}, {"type": {}},
    {"type": "x" * 500}, {"type": "a\0b"}, {"created": None}, {"created": "soon"},
    {"created": True}, {"created": 1.5}, {"created": -5},
    {"created": 10**30}, {"created": 99_999_999_999}, {"created": "2999-01-01T00:00:00Z"},
    {"created": "2024-01-01T00:00:00"},
    {"data": None}, {"data": []}, {"data": {}}, {"data": {"object": None}},
    {"data": {"object": "in_1"}}, {"data": {"object": [1]}},
]  # fmt: skip


@cases("body", NO_EVENTS)
def test_a_signed_body_that_is_no_event_is_401(sender: Sender, stored: Stored, body: bytes) -> None:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = body.decode("latin-1")
    for provider, headers in (
        ("stripe", stripe_headers(text, sender.now_s)),
        ("polar", standard_headers(text, sender.now_s, POLAR_SECRET.encode(), "msg_1")),
    ):
        assert sender.post(provider, body, headers).status_code == 401
    assert stored() == []


def test_a_signed_event_with_too_many_values_is_401(sender: Sender, stored: Stored) -> None:
    metadata = {"list": [[]] * 100_000}
    event = stripe_event("invoice.paid", {"id": "in_1", "metadata": metadata}, at_s=sender.now_s)
    answer = sender.signed_stripe(event)
    assert problem(answer) == (401, "not_an_event")
    assert "at most 50,000 JSON values" in answer.json()["detail"]
    assert stored() == []


@cases("changed", CHANGED)
def test_a_signed_event_with_a_wrong_field_is_401(
    sender: Sender, stored: Stored, changed: Json
) -> None:
    event = {**stripe_event("invoice.paid", {"id": "in_1"}, at_s=sender.now_s), **changed}
    assert problem(sender.signed_stripe(event)) == (401, "not_an_event")
    assert stored() == []


@cases(
    "changed",
    [
        {"type": None},
        {"type": 7},
        {"timestamp": "x"},
        {"timestamp": []},
        {"data": None},
        {"data": "x"},
    ],
)
def test_a_signed_standard_event_with_a_wrong_field_is_401(
    sender: Sender, stored: Stored, changed: Json
) -> None:
    event = {"type": "order.paid", "timestamp": iso(sender.clock()), "data": {}}
    body = json.dumps(event | changed)
    headers = standard_headers(body, sender.now_s, POLAR_SECRET.encode(), "msg_1")
    assert problem(sender.post("polar", body, headers)) == (401, "not_an_event")
    assert stored() == []


@cases("value", [None, 5, "text", [], [1], True, {"id": {}}, -1, 10**40, 1.5])
def test_an_unusual_value_in_the_providers_object_costs_no_event(
    sender: Sender, stored: Stored, value: Any
) -> None:
    """What the provider changes in its objects must not stop its webhooks."""
    names = (
        *("id", "amount_paid", "currency", "customer", "customer_email", "status"),
        *("billing_reason", "parent", "subscription", "metadata"),
    )
    before = len(stored())
    for name in names:
        invoice = {"id": "in_1", "amount_paid": 5, "currency": "eur", name: value}
        answer = sender.stripe("invoice.paid", invoice)
        assert answer.status_code == 200, (name, answer.text)
        order = {"id": "ord_1", "total_amount": 5, "currency": "eur", name: value}
        answer = sender.standard("order.paid", order)
        assert answer.status_code == 200, (name, answer.text)
    assert len(stored()) == before + 2 * len(names)


def test_a_body_over_the_limit_is_413(sender: Sender, stored: Stored) -> None:
    body = json.dumps({"padding": "x" * (2 * 1024 * 1024)})
    assert sender.post("stripe", body, stripe_headers(body, sender.now_s)).status_code == 413
    answer = sender.client.post(
        sender.url("stripe"), content=(body[:100_000].encode() for _ in range(30))
    )
    assert answer.status_code == 413
    assert stored() == []


def test_the_signature_is_over_the_raw_body(sender: Sender, stored: Stored) -> None:
    """A body is not inflated: no provider sends one that way."""
    body = json.dumps(stripe_event("invoice.paid", {"id": "in_1"}, at_s=sender.now_s))
    headers = {**stripe_headers(body, sender.now_s), "Content-Encoding": "gzip"}
    assert sender.post("stripe", gzip.compress(body.encode()), headers).status_code == 401
    assert stored() == []


# Websites and providers --------------------------------------------------------


def test_responses_do_not_reveal_which_websites_and_providers_exist(
    sender: Sender, other_workspace: Tenant
) -> None:
    """An unknown website or provider, a missing secret, a wrong signature: the same answer."""
    body = json.dumps(stripe_event("invoice.paid", {"id": "in_1"}, at_s=sender.now_s))
    headers = stripe_headers(body, sender.now_s)
    requests = [
        (sender.url("stripe"), {}),
        (sender.url("stripe"), stripe_headers(body, sender.now_s, "whsec_x")),
        ("/api/providers/stripe/web_unknown", headers),
        (f"/api/providers/stripe/{other_workspace.website_id}", headers),
        (sender.url("paypal"), headers),
        (sender.url("Stripe"), headers),
    ]
    answers = [sender.client.post(path, content=body, headers=sent) for path, sent in requests]
    assert {answer.status_code for answer in answers} == {401}
    assert len({json.dumps(answer.json() | {"instance": None}) for answer in answers}) == 1
    assert sender.client.get(sender.url("stripe")).status_code == 405


def test_a_secret_counts_for_its_own_website_and_provider(
    sender: Sender, other_workspace: Tenant, stored: Stored
) -> None:
    path = f"/api/settings/websites/{other_workspace.website_id}/providers/stripe"
    answer = other_workspace.client.put(path, json={"signingSecret": "whsec_of_the_other"})
    assert answer.status_code == 200
    assert sender.stripe(secret="whsec_of_the_other").status_code == 401
    answer = sender.standard(provider="standardwebhooks", key=POLAR_SECRET.encode())
    assert answer.status_code == 401
    assert stored() == []


def test_a_deleted_website_takes_no_webhooks(sender: Sender) -> None:
    answer = sender.tenant.client.delete(f"/api/settings/websites/{sender.tenant.website_id}")
    assert answer.status_code == 204
    assert sender.stripe().status_code == 401


# Types ------------------------------------------------------------------------

AMOUNTS = {
    "amount_total": 1,
    "amount_received": 2,
    "amount": 3,
    "amount_refunded": 4,
    "amount_paid": 5,
}


@cases("kind", STRIPE)
def test_each_type_of_stripe_becomes_its_transaction(
    sender: Sender, stored: Stored, kind: str
) -> None:
    expected_event, at_s = STRIPE[kind], sender.now_s - 7
    minor = {name: value * 1000 + 50 for name, value in AMOUNTS.items()}
    data_object = {
        "id": "x_1",
        "customer": "cus_1",
        "currency": "usd",
        **minor,
        "metadata": {"visitorId": "ann", "attempt": "a1"},
    }
    assert sender.stripe(kind, data_object, at_s=at_s).json()["event"] == expected_event.name
    [row] = [row for row in stored() if row["properties"]["providerType"] == kind]
    assert (row["kind"], row["name"], row["source"], row["verified"]) == (
        "transaction",
        expected_event.name,
        "provider",
        True,
    )
    assert (row["visitor_id"], row["occurred_at"]) == ("ann", at_s * 1000)
    money = (
        {}
        if expected_event.amount is None
        else {"amount": AMOUNTS[expected_event.amount] * 10 + 0.5, "currency": "USD"}
    )
    expected = {
        "provider": "stripe",
        "providerType": kind,
        "transactionId": "x_1",
        "customerId": "cus_1",
        "livemode": True,
    }
    assert row["properties"] == {**expected, **money, "attempt": "a1"}


def test_the_types_of_the_contract_have_their_names() -> None:
    names = (
        "checkout.session.completed",
        "payment_intent.succeeded",
        "payment_intent.payment_failed",
        "charge.refunded",
        "invoice.paid",
    )
    assert [STRIPE[name].name for name in names] == [
        "purchase",
        "payment",
        "payment_failed",
        "refund",
        "renewal",
    ]
    assert STRIPE["customer.subscription.created"].name == "subscription_started"
    assert {
        f"customer.subscription.{name}"
        for name in ("created", "updated", "deleted", "trial_will_end")
    } < set(STRIPE)


@cases(
    ("kind", "payment_status", "event"),
    [
        ("checkout.session.completed", "paid", "purchase"),
        ("checkout.session.completed", "no_payment_required", "purchase"),
        ("checkout.session.completed", "unpaid", "checkout_completed"),
        ("checkout.session.async_payment_succeeded", "paid", "purchase"),
        ("checkout.session.async_payment_failed", "unpaid", "payment_failed"),
        ("checkout.session.expired", "unpaid", "checkout_expired"),
    ],
)
def test_a_checkout_is_a_purchase_once_it_is_paid(
    sender: Sender, stored: Stored, kind: str, payment_status: str, event: str
) -> None:
    session = {
        "id": f"cs_{kind}_{payment_status}",
        "payment_status": payment_status,
        "amount_total": 1999,
        "currency": "eur",
        "client_reference_id": "penstock_di0xCmNoZWNrb3V0SWQKYy05",  # visitor v-1, attempt c-9
    }
    assert sender.stripe(kind, session).json()["event"] == event
    [row] = [row for row in stored() if row["properties"]["transactionId"] == session["id"]]
    assert (row["kind"], row["name"], row["visitor_id"]) == ("transaction", event, "v-1")
    names = ("amount", "currency", "checkoutId", "paymentStatus")
    assert [row["properties"][name] for name in names] == [19.99, "EUR", "c-9", payment_status]


@cases(("provider", "kind"), product(("polar", "standardwebhooks"), POLAR))
def test_each_type_of_polar_becomes_its_transaction(
    sender: Sender, stored: Stored, provider: str, kind: str
) -> None:
    expected_event = POLAR[kind]
    minor = {"total_amount": 1050, "refunded_amount": 2050, "amount": 3050}
    data = {
        "id": "o_1",
        "customer_id": "c_1",
        "currency": "eur",
        **minor,
        "metadata": {"userId": 42, "seats": 3},
    }
    key = POLAR_SECRET.encode() if provider == "polar" else STANDARD_SECRET
    answer = sender.standard(
        kind, data, provider=provider, key=key, timestamp="2026-01-02T03:04:05.678901Z"
    )
    assert answer.json()["event"] == expected_event.name, answer.text
    [row] = [
        row
        for row in stored()
        if (row["properties"]["provider"], row["properties"]["providerType"]) == (provider, kind)
    ]
    assert (row["kind"], row["verified"], row["user_id"], row["occurred_at"]) == (
        "transaction",
        True,
        "42",
        1767323045678,
    )
    expected = {
        "provider": provider,
        "providerType": kind,
        "transactionId": "o_1",
        "customerId": "c_1",
        "currency": "EUR",
        "seats": 3,
    }
    assert row["properties"] == expected | {"amount": minor[str(expected_event.amount)] / 100}


@pytest.mark.parametrize("reason", ["purchase", "subscription_create", *sorted(RENEWAL_REASONS)])
def test_a_paid_order_of_a_running_subscription_is_a_renewal(
    sender: Sender, stored: Stored, reason: str
) -> None:
    sender.standard(
        "order.paid",
        {"id": "o_1", "billing_reason": reason, "total_amount": 900, "currency": "usd"},
    )
    [row] = stored()
    assert row["name"] == ("renewal" if reason in RENEWAL_REASONS else "purchase")
    assert (row["properties"]["amount"], row["properties"]["billingReason"]) == (9, reason)


@pytest.mark.parametrize(
    ("data", "at"),
    [
        ({"created_at": "2026-01-02T00:00:00Z", "modified_at": None}, "2026-01-02T00:00:00.000Z"),
        (
            {"created_at": "2026-01-02T00:00:00Z", "modified_at": "2026-01-03T00:00:00Z"},
            "2026-01-03T00:00:00.000Z",
        ),
        ({}, None),
    ],
)
def test_a_standard_body_without_a_time_has_that_of_the_object_or_the_signature(
    sender: Sender, stored: Stored, data: Json, at: str | None
) -> None:
    assert sender.standard("order.paid", data, timestamp=None, age_s=100).status_code == 200
    expected = at or iso((sender.now_s - 100) * 1000)
    assert abs(stored()[0]["occurred_at"] - parse_time(expected)) <= 2000 * (at is None)


@cases(
    ("currency", "minor", "amount"),
    [
        ("usd", 1999, 19.99), ("usd", 2000, 20), ("eur", 1, 0.01), ("jpy", 500, 500),
        ("krw", 12345, 12345), ("clp", 7, 7),
        ("kwd", 5120, 5.12), ("ugx", 500, 5),
        ("isk", 500, 5), ("huf", 1045, 10.45), ("usd", 0, 0),
        ("EUR", 999_999_999_999, 9_999_999_999.99),
    ],
)  # fmt: skip
def test_amounts_are_in_the_currencys_main_unit(
    sender: Sender, stored: Stored, currency: str, minor: int, amount: float
) -> None:
    payment = {"id": f"pi_{currency}_{minor}", "amount_received": minor, "currency": currency}
    sender.stripe("payment_intent.succeeded", payment)
    sent = [row["properties"] for row in stored()]
    [properties] = [each for each in sent if each["transactionId"] == payment["id"]]
    assert (properties["amount"], properties["currency"]) == (amount, currency.upper())


@cases(
    "more",
    [
        {},
        {"currency": None},
        {"currency": "euro"},
        {"currency": 5},
        {"amount_received": "5", "currency": "eur"},
    ],
)
def test_without_a_known_currency_and_amount_there_is_none(
    sender: Sender, stored: Stored, more: Json
) -> None:
    answer = sender.stripe("payment_intent.succeeded", {"id": "pi_1", "amount_received": 5, **more})
    assert answer.status_code == 200
    assert not {"amount", "currency"} & set(stored()[0]["properties"])


def test_a_partial_refund_has_its_own_amount(sender: Sender, stored: Stored) -> None:
    """Stripe sends the total refunded; each event has the increase."""
    charge = {"id": "ch_1", "currency": "usd", "amount": 5000}
    sender.stripe("charge.refunded", {**charge, "amount_refunded": 2000}, at_s=sender.now_s - 50)
    before = {"previous_attributes": {"amount_refunded": 2000}}
    sender.stripe(
        "charge.refunded", {**charge, "amount_refunded": 5000}, at_s=sender.now_s - 40, data=before
    )
    assert [row["properties"]["amount"] for row in stored()] == [20, 30]


@cases(
    ("before", "now", "event"),
    [
        ("incomplete", "active", "subscription_started"),
        ("incomplete", "trialing", "subscription_started"),
        ("incomplete", "incomplete_expired", "subscription_updated"),
        ("active", "past_due", "subscription_updated"),
        ("past_due", "active", "subscription_updated"),
        (None, "active", "subscription_updated"),
        (["incomplete"], "active", "subscription_updated"),
    ],
)
def test_a_subscription_that_begins_incomplete_starts_with_its_first_payment(
    sender: Sender, stored: Stored, before: Any, now: str, event: str
) -> None:
    subscription = f"sub_{before}_{now}"
    created = {"id": subscription, "status": "incomplete"}
    sender.stripe("customer.subscription.created", created, at_s=sender.now_s - 50)
    paid = {"id": subscription, "status": now}
    previous = {"previous_attributes": {"status": before}} if before else {}
    sender.stripe("customer.subscription.updated", paid, at_s=sender.now_s - 40, data=previous)
    rows = [row for row in stored() if row["properties"]["transactionId"] == subscription]
    states = [(row["name"], row["properties"]["status"]) for row in rows]
    assert states == [("subscription_started", "incomplete"), (event, now)]


def test_a_failed_payment_has_its_reason(sender: Sender, stored: Stored) -> None:
    error = {"code": "card_declined", "decline_code": "insufficient_funds"}
    sender.stripe(
        "payment_intent.payment_failed",
        {"id": "pi_1", "amount": 100, "currency": "eur", "last_payment_error": error},
    )
    properties = stored()[0]["properties"]
    assert (properties["failureCode"], properties["declineCode"]) == (
        "card_declined",
        "insufficient_funds",
    )


@pytest.mark.parametrize(
    "parent", [{"parent": {"subscription_details": ...}}, {"subscription_details": ...}]
)
def test_an_invoice_has_the_metadata_of_its_subscription(
    sender: Sender, stored: Stored, parent: Json
) -> None:
    inherited = json.loads(
        json.dumps(parent, default=lambda _: {"metadata": {"userId": "u1", "plan": "old"}})
    )
    sender.stripe("invoice.paid", {"id": "in_1", "metadata": {"plan": "pro"}, **inherited})
    [row] = stored()
    assert (row["user_id"], row["properties"]["plan"], row["verified"]) == ("u1", "pro", True)


# Unknown types ----------------------------------------------------------------


def test_an_unknown_type_is_stored_but_matches_no_step(sender: Sender, stored: Stored) -> None:
    data_object = {
        "id": "re_1",
        "customer": "cus_1",
        "metadata": {"visitorId": "ann", "attempt": "a1"},
    }
    answer = sender.stripe("radar.early_fraud_warning.created", data_object)
    name = "provider.radar.early_fraud_warning.created"
    assert (answer.status_code, answer.json()["event"]) == (200, name)
    answer = sender.standard("benefit.granted", {"metadata": {"visitorId": "ann"}})
    assert answer.json()["event"] == "provider.benefit.granted"
    assert {(row["kind"], row["name"], row["visitor_id"]) for row in stored()} == {
        ("provider", name, "ann"),
        ("provider", "provider.benefit.granted", "ann"),
    }
    client = sender.tenant.client
    for kind in ("Event", "Transaction", "Screen view", "Pageview"):
        value = "**" if kind == "Pageview" else name
        steps = [
            {"type": kind, "value": value},
            {"type": kind, "value": "/next" if kind == "Pageview" else "next"},
        ]
        answer = client.post("/api/funnels/preview", json={"name": "All", "steps": steps})
        assert (answer.status_code, answer.json()["aggregate"]["entered"]) == (200, 0)


@cases("data", [None, {}, {"object": None}, {"object": []}])
def test_an_unknown_type_needs_no_object(sender: Sender, stored: Stored, data: Any) -> None:
    event = {"id": "evt_1", "type": "v2.thing", "created": "2026-01-01T00:00:00.000Z"}
    assert sender.signed_stripe({**event, "data": data}).status_code == 200
    assert stored()[0]["name"] == "provider.v2.thing"


# Repeats ----------------------------------------------------------------------


def test_a_repeat_changes_nothing(sender: Sender, stored: Stored) -> None:
    data_object = {
        "id": "pi_1",
        "amount_received": 100,
        "currency": "eur",
        "metadata": {"visitorId": "ann"},
    }
    more: Json = {"event_id": "evt_1", "at_s": sender.now_s - 60}
    first = sender.stripe("payment_intent.succeeded", data_object, **more).json()
    sender.clock.advance(days=2)
    again = sender.stripe(
        "payment_intent.succeeded", data_object, **more, pending_webhooks=3
    ).json()
    assert again == first | {"status": "duplicate"}
    other = sender.stripe(
        "payment_intent.succeeded", data_object | {"amount_received": 900}, **more
    ).json()
    assert (other["status"], [warning["code"] for warning in other["warnings"]]) == (
        "duplicate",
        ["body_differs"],
    )
    assert len(stored()) == 1


def test_a_repeat_is_known_by_the_signed_id_of_a_standard_webhook(
    sender: Sender, stored: Stored
) -> None:
    at = iso(sender.clock() - 1000)
    statuses = [
        sender.standard(delivery_id="msg_1", timestamp=at, age_s=age).json()["status"]
        for age in (5, 0)
    ]
    assert statuses == ["accepted", "duplicate"]
    assert len(stored()) == 1


def test_ids_of_providers_and_of_clients_do_not_meet(sender: Sender, stored: Stored) -> None:
    client, website = sender.tenant.client, sender.tenant.website_id
    event = {"websiteId": website, "visitorId": "ann", "event": "x"}
    answer = client.post("/api/v1/events", json={**event, "eventId": "evt_1"})
    assert answer.json()["status"] == "accepted"
    answer = client.post("/api/v1/transactions", json={**event, "transactionId": "evt_1"})
    assert answer.json()["status"] == "accepted"
    assert sender.stripe(event_id="evt_1").json()["status"] == "accepted"
    assert sender.standard(delivery_id="evt_1").json()["status"] == "accepted"
    assert len(stored()) == 2


def test_a_refused_delivery_uses_up_no_id(sender: Sender) -> None:
    assert sender.stripe(event_id="evt_1", secret="whsec_x").status_code == 401
    assert sender.stripe(event_id="evt_1").json()["status"] == "accepted"


# Metadata ---------------------------------------------------------------------


def test_metadata_keeps_its_types(sender: Sender, stored: Stored) -> None:
    metadata = {"plan": "pro", "seats": 3, "trial": False, "nested": {"a": [1]}, "ünï": "x"}
    sender.standard("order.paid", {"id": "o_1", "metadata": metadata})
    assert stored()[0]["properties"].items() >= metadata.items()


def test_metadata_over_a_limit_is_left_out_and_listed(sender: Sender, stored: Stored) -> None:
    deep: Any = "end"
    for _ in range(7):
        deep = {"d": deep}
    metadata = {
        "plan": "pro",
        "$own": "x",
        "long": "x" * 9000,
        "deep": deep,
        "big": 2**70,
        "nul": "a\0b",
        "k" * 9000: 1,
        "visitorId": "v" * 300,
    }
    assert sender.standard("order.paid", {"id": "o_1", "metadata": metadata}).status_code == 200
    [row] = stored()
    assert (row["properties"]["plan"], row["verified"]) == ("pro", False)
    assert set(row["properties"]["leftOut"]) == {
        "$own: reserved_property", "long: too_long", "deep: too_deep", "big: integer_out_of_range",
        "nul: nul_character",
        "k" * 64 + ": too_long", "visitorId: not_an_id",
    }  # fmt: skip


def test_too_much_metadata_is_stored_as_far_as_it_fits(sender: Sender, stored: Stored) -> None:
    sender.standard(
        "order.paid",
        {"id": "o_1", "metadata": {f"k{n}": n for n in range(1000)}},
        delivery_id="many",
        timestamp=1,
    )
    sender.standard(
        "order.paid",
        {"id": "o_2", "metadata": {f"k{n}": "x" * 8000 for n in range(50)}},
        delivery_id="large",
        timestamp=2,
    )
    many, large = stored()
    assert 240 <= len(many["properties"]) <= 255
    assert 5 <= len(large["properties"]) <= 15
    for row in (many, large):
        assert len(row["properties"]["leftOut"]) == 21
        assert row["properties"]["leftOut"][-1].endswith("more")
        assert len(json.dumps(row["properties"])) <= 64 * 1024


@cases("metadata", ["text", 5, ["a"], True])
def test_metadata_of_another_type_is_listed(sender: Sender, stored: Stored, metadata: Any) -> None:
    assert sender.standard("order.paid", {"id": "o_1", "metadata": metadata}).status_code == 200
    assert stored()[0]["properties"]["leftOut"] == ["metadata: wrong_type"]


def test_metadata_does_not_overwrite_the_providers_properties(
    sender: Sender, stored: Stored
) -> None:
    metadata = {"amount": "1", "provider": "me", "leftOut": "x"}
    sender.stripe(
        "payment_intent.succeeded",
        {"id": "pi_1", "amount_received": 500, "currency": "eur", "metadata": metadata},
    )
    properties = stored()[0]["properties"]
    assert (properties["amount"], properties["provider"]) == (5, "stripe")
    assert {name: properties[f"metadata.{name}"] for name in metadata} == metadata


def test_a_client_reference_links_no_visitor_to_the_user_whom_the_metadata_names(
    sender: Sender,
) -> None:
    """The buyer may have written it, with the ID of any visitor."""
    backend = sender.tenant.client
    event = {"websiteId": sender.tenant.website_id, "event": "e", "visitorId": "v-1"}
    assert backend.post("/api/v1/events", json={**event, "userId": "victim"}).is_success
    checkout = {
        "id": "cs_1",
        "client_reference_id": "penstock_di0xCmNoZWNrb3V0SWQKYy05",  # visitor v-1
        "metadata": {"userId": "buyer"},
    }
    assert sender.stripe("checkout.session.completed", checkout).is_success
    assert backend.post("/api/v1/events", json=event).json()["visitorId"] == "v-1"


def test_the_client_reference_of_a_checkout_has_visitor_and_attempt(
    sender: Sender, stored: Stored
) -> None:
    """`sdk/js/tests/attempt.test.ts` has the same reference."""
    for reference in (
        "penstock_di0xCmNoZWNrb3V0SWQKYy05",
        "penstock_not base64",
        "penstock_AAAA",
        "penstock_",
        "cart-7",
        "penstock_" + "A" * 200,
        "penstock_dgp1c2VySWQKdmljdGlt",  # visitor t, property userId, ID victim
        "penstock_dgp3ZWJzaXRlSWQKd2ViXzE",  # the same with websiteId
        7,
    ):
        answer = sender.stripe(
            "checkout.session.completed", {"id": "cs_1", "client_reference_id": reference}
        )
        assert answer.status_code == 200, answer.text
    properties = [row["properties"] for row in stored()]
    assert [row.get("checkoutId") for row in properties] == ["c-9", *[None] * 8]
