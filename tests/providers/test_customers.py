"""Customers that the metadata does not name: known again for the timeline, never for an attempt."""

import json
from collections.abc import Callable

import pytest

from tests.providers.conftest import Json, Sender
from tests.records import new_website

Stored = Callable[[], list[Json]]


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url


def test_a_customer_is_recognised_for_the_timeline(sender: Sender, stored: Stored) -> None:
    """By the provider's ID, or else by the email address; neither verifies anything."""
    named = {
        "id": "cs_1",
        "customer": "cus_1",
        "customer_details": {"email": "Ann@Example.com"},
        "metadata": {"visitorId": "ann"},
    }
    sender.stripe("checkout.session.completed", named, at_s=1000)
    sender.stripe("invoice.paid", {"id": "in_1", "customer": "cus_1"}, at_s=2000)
    sender.stripe(
        "invoice.paid",
        {"id": "in_2", "customer": {"id": "cus_2"}, "customer_email": "ann@example.com"},
        at_s=3000,
    )
    sender.standard(
        "order.paid",
        {"id": "o_1", "customer": {"id": "c", "email": "ann@example.com"}},
        timestamp=4000,
    )
    sender.stripe("invoice.paid", {"id": "in_3", "customer": "cus_3"}, at_s=5000)
    sender.stripe("invoice.paid", {"id": "in_4", "customer": "cus_3"}, at_s=6000)
    rows = stored()
    assert [row["visitor_id"] for row in rows] == ["ann"] * 4 + ["stripe:cus_3"] * 2
    assert [row["verified"] for row in rows] == [True] + [False] * 5
    assert "example.com" not in json.dumps(rows).lower()


@pytest.mark.every_database
def test_the_newest_event_says_who_a_customer_is_whatever_comes_last(
    sender: Sender, stored: Stored
) -> None:
    for at_s, visitor_id in ((3000, "new"), (1000, "old"), (2000, "older")):
        sender.stripe(
            "invoice.paid",
            {"id": "in", "customer": "cus_1", "metadata": {"visitorId": visitor_id}},
            at_s=at_s,
        )
    sender.stripe("invoice.paid", {"id": "in", "customer": "cus_1"}, at_s=4000)
    assert stored()[-1]["visitor_id"] == "new"


def test_customers_of_other_websites_are_strangers(sender: Sender, stored: Stored) -> None:
    other = new_website(sender.tenant.client, "Other")
    sender.stripe(
        "invoice.paid", {"id": "in", "customer": "cus_1", "metadata": {"visitorId": "ann"}}
    )
    tenant = sender.tenant
    other_sender = Sender(
        type(tenant)(tenant.id, tenant.email, tenant.browser, tenant.client, other),
        sender.client,
        sender.clock,
    )
    other_sender.set_secret("stripe", "whsec_elsewhere")
    answer = other_sender.stripe(
        "invoice.paid", {"id": "in", "customer": "cus_1"}, secret="whsec_elsewhere"
    )
    assert answer.json()["status"] == "accepted"
    assert [row["visitor_id"] for row in stored()] == ["ann"]
