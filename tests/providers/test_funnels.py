"""Provider events in funnels: which count for an attempt, and which are only reported."""

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest

from penstock.base.payment_providers import Provider
from penstock.providers.table import PROVIDERS
from tests.answers import body_of
from tests.funnels.scenario import Scene, outcome
from tests.providers.conftest import Json, Sender

pytestmark = pytest.mark.usefixtures("warehouse")

Stored = Callable[[], list[Json]]
PURCHASE = {"type": "Transaction", "value": "purchase"}
BEGAN_AGO_S = 1000


@pytest.fixture
def scene(sender: Sender) -> Scene:
    """Stories begin 1,000 seconds ago; provider events of `bought` occur 100 seconds later."""
    return Scene(sender.tenant, sender.clock, ago_s=BEGAN_AGO_S)


def send_purchase(
    sender: Sender,
    *,
    event_id: str | None = None,
    after_s: int = 100,
    customer: str | None = None,
    **metadata: Any,
) -> Json:
    data_object = {
        "id": "cs_1",
        "amount_total": 1000,
        "currency": "eur",
        "customer": customer,
        "metadata": metadata,
    }
    answer = sender.stripe(
        "checkout.session.completed",
        data_object,
        event_id=event_id,
        at_s=sender.now_s - BEGAN_AGO_S + after_s,
    )
    return body_of(answer)


def unverified(report: Json) -> int:
    return report["dataQuality"]["unverifiedProviderEvents"]


def test_a_verified_provider_event_completes_its_attempt(scene: Scene, sender: Sender) -> None:
    funnel = scene.attempts("A", PURCHASE)
    scene.story("0/A", visitor="ann", attempt="a1")
    send_purchase(sender, visitorId="ann", attempt="a1")
    report = scene.results(funnel)
    assert outcome(report["aggregate"]) == (1, 1, 0, 0)
    assert report["aggregate"]["medianCompletionMinutes"] == pytest.approx(100 / 60, abs=0.05)
    assert unverified(report) == 0


def test_a_step_that_only_unverified_provider_events_match_is_named(
    scene: Scene, sender: Sender
) -> None:
    funnel = scene.attempts("A", PURCHASE)
    scene.story("0/A", visitor="ann", attempt="a1")
    send_purchase(sender, attempt="a1")
    [row] = scene.results(funnel)["impossibleSteps"]
    assert (row["step"], row["reason"], row["events"]) == (2, "unverified", 1)
    message = "0 of 1 transactions named purchase have a verified link to a visitor, so step 2 can"
    assert row["message"] == f"{message} never be reached."


def test_a_provider_event_by_a_linked_user_counts(scene: Scene, sender: Sender) -> None:
    funnel = scene.attempts("A", PURCHASE)
    scene.story("0/A", visitor="ann", attempt="a1")
    body = {"websiteId": sender.tenant.website_id, "visitorId": "ann", "userId": "u-ann"}
    assert scene.client.post("/api/identify", json=body).status_code == 200
    send_purchase(sender, userId="u-ann", attempt="a1")
    assert outcome(scene.results(funnel)["aggregate"]) == (1, 1, 0, 0)


UNVERIFIED: tuple[tuple[Json, str | None], ...] = (
    ({}, "cus_1"),  # the customer is known, from the payment below; that proves nothing
    ({"visitorId": "bob"}, "cus_1"),  # another visitor
    ({"visitorId": "nobody-knows"}, None),
    ({"userId": "u-unlinked"}, None),
    ({"visitorId": "anonymous"}, None),
    ({"visitorId": ""}, None),
    ({"email": "ann@example.com"}, None),
)
"""Metadata that does not prove a visitor, and the customer beside it."""


def test_without_a_verified_link_it_is_left_out_and_counted(scene: Scene, sender: Sender) -> None:
    funnel = scene.attempts("A", PURCHASE)
    scene.story("0/A", visitor="bob", attempt="b1")
    send_purchase(sender, visitorId="ann", attempt="earlier", customer="cus_1", after_s=1)
    before = unverified(scene.results(funnel))
    for number, (metadata, customer) in enumerate(UNVERIFIED):
        scene.story("0/A", visitor="ann", attempt=f"a{number}")
        send_purchase(sender, attempt=f"a{number}", customer=customer, **metadata)
    report = scene.results(funnel)
    assert outcome(report["aggregate"])[:2] == (1 + len(UNVERIFIED), 0)
    assert unverified(report) == before + len(UNVERIFIED)


def test_without_the_attempt_id_it_belongs_to_no_attempt(scene: Scene, sender: Sender) -> None:
    funnel = scene.attempts("A", PURCHASE)
    scene.story("0/A", visitor="ann", attempt="a1")
    send_purchase(sender, visitorId="ann", customer="cus_1")
    send_purchase(sender, visitorId="ann", attempt="a2")
    report = scene.results(funnel)
    assert outcome(report["aggregate"])[:2] == (1, 0)
    # The attempt a2 has provider events only, and its event is verified (rule 18).
    assert (report["dataQuality"]["eventsWithoutAttemptId"], unverified(report)) == (1, 0)


def test_the_order_of_arrival_changes_nothing(scene: Scene, sender: Sender) -> None:
    """A webhook may arrive before events of an offline device or an import."""
    funnel = scene.attempts("A", "B", PURCHASE)
    for number, order in enumerate(permutations(range(4))):
        attempt, ann = f"a{number}", f"ann{number}"
        arrivals: list[Callable[[], Any]] = [
            lambda attempt=attempt, ann=ann: scene.story("0/A", visitor=ann, attempt=attempt),
            lambda attempt=attempt, ann=ann: scene.story("50/B", visitor=ann, attempt=attempt),
            lambda attempt=attempt, ann=ann: send_purchase(
                sender, visitorId=ann, attempt=attempt, event_id=f"evt_{attempt}"
            ),
            lambda attempt=attempt, ann=ann: send_purchase(
                sender, visitorId=ann, attempt=attempt, event_id=f"evt_{attempt}"
            ),
        ]
        for index in order:
            arrivals[index]()
    report = scene.results(funnel)
    assert [row["count"] for row in report["aggregate"]["steps"]] == [24, 24, 24]
    assert unverified(report) == 0


def test_an_identify_that_comes_later_makes_the_link(scene: Scene, sender: Sender) -> None:
    funnel = scene.attempts("A", PURCHASE)
    send_purchase(sender, userId="u-ann", attempt="a1")
    scene.story("0/A", visitor="ann", attempt="a1")
    assert scene.counts(funnel) == [1, 0]
    scene.client.post(
        "/api/identify",
        json={"websiteId": sender.tenant.website_id, "visitorId": "ann", "userId": "u-ann"},
    )
    report = scene.results(funnel)
    assert outcome(report["aggregate"]) == (1, 1, 0, 0)
    assert unverified(report) == 0


def test_a_purchase_before_the_entry_stays_before_it(scene: Scene, sender: Sender) -> None:
    funnel = scene.attempts("A", PURCHASE)
    scene.story("200/A", visitor="ann", attempt="a1")
    send_purchase(sender, visitorId="ann", attempt="a1", after_s=100)
    assert scene.counts(funnel) == [1, 0]


def test_a_type_without_meaning_neither_counts_nor_is_counted(scene: Scene, sender: Sender) -> None:
    funnel = scene.attempts("A", PURCHASE, {"type": "Event", "value": "provider.plan.created"})
    scene.story("0/A", visitor="ann", attempt="a1")
    sender.stripe(
        "plan.created",
        {"id": "plan_1", "metadata": {"visitorId": "ann", "attempt": "a1"}},
        at_s=sender.now_s - 500,
    )
    report = scene.results(funnel)
    assert outcome(report["aggregate"])[:2] == (1, 0)
    assert unverified(report) == 0


def test_visitor_funnels_take_purchases_as_well(scene: Scene, sender: Sender) -> None:
    funnel = scene.funnel("A", PURCHASE)
    scene.story("0/A", visitor="ann")
    send_purchase(sender, visitorId="ann")
    assert scene.counts(funnel) == [1, 1]


# Whose event it is ------------------------------------------------------------


def test_metadata_binds_like_any_event(scene: Scene, sender: Sender, stored: Stored) -> None:
    send_purchase(sender, visitorId="ann", userId="u-ann")
    receipt = scene.server_event(500, "B", userId="u-ann")
    assert receipt["visitorId"] == "ann"
    bob = send_purchase(sender, visitorId="ann", userId="u-bob")
    assert [warning["code"] for warning in bob["warnings"]] == ["identity_conflict"]


def test_the_websites_own_id_in_metadata_is_no_property(sender: Sender, stored: Stored) -> None:
    send_purchase(sender, visitorId="ann", websiteId=sender.tenant.website_id)
    [row] = stored()
    assert (row["kind"], row["verified"], row["visitor_id"]) == ("transaction", True, "ann")
    assert not {"visitorId", "userId", "websiteId"} & set(row["properties"])


@pytest.mark.parametrize("website_id", ["web_another", 5, ["web"]])
def test_an_event_of_another_website_counts_here_for_nothing(
    scene: Scene, sender: Sender, stored: Stored, website_id: Any
) -> None:
    """One account with several websites sends each event to all of their webhooks."""
    funnel = scene.attempts("A", PURCHASE)
    scene.story("0/A", visitor="ann", attempt="a1")
    answer = send_purchase(
        sender, visitorId="ann", attempt="a1", websiteId=website_id, customer="cus_1"
    )
    assert answer["event"] == "provider.checkout.session.completed"
    [row] = stored()
    assert (row["kind"], row["verified"], row["visitor_id"], row["user_id"]) == (
        "provider",
        False,
        "stripe:cus_1",
        "",
    )
    assert (row["properties"]["visitorId"], row["properties"]["websiteId"]) == ("ann", website_id)
    report = scene.results(funnel)
    assert (scene.counts(funnel), unverified(report)) == ([1, 0], 0)


PAYMENT = {"type": "Transaction", "value": "payment"}


def at_whole_seconds(scene: Scene) -> Scene:
    """The scene with its stories beginning with a second."""
    scene.start_ms -= scene.start_ms % 1000
    return scene


def send_payment(sender: Sender, scene: Scene, after_s: int = 0, **metadata: Any) -> None:
    """A payment of Stripe, whose `created` is `after_s` seconds after the story's beginning."""
    answer = sender.stripe(
        data_object={"id": "pi_1", "metadata": {"visitorId": "ann", "attempt": "a1", **metadata}},
        at_s=scene.start_ms // 1000 + after_s,
    )
    assert answer.status_code == 200, answer.text


def funnel_of(scene: Scene, unit: str, *rows: Any, **definition: Any) -> str:
    """Within one hour, without sequence numbers."""
    if unit == "attempt":
        return scene.attempts(*rows, sequenceProperty=None, **definition)
    return scene.funnel(*rows, **{"conversionWindowSeconds": 3600, **definition})


def coarse(report: Json) -> int:
    return report["dataQuality"]["coarseTimes"]


@pytest.mark.parametrize("unit", ["attempt", "visitor"])
def test_a_whole_second_counts_at_its_end_for_a_later_step(
    scene: Scene, sender: Sender, unit: str
) -> None:
    at_whole_seconds(scene).story("0.7/checkout_submitted 1/thanked", visitor="ann")
    send_payment(sender, scene)
    funnel = funnel_of(scene, unit, "checkout_submitted", PAYMENT, "thanked")
    report = scene.results(funnel)
    assert [row["count"] for row in report["aggregate"]["steps"]] == [1, 1, 1]
    assert coarse(report) == 1
    name = "a1" if unit == "attempt" else "ann"
    trace = scene.client.get(f"/api/funnels/{funnel}/units/{name}").json()
    assert [done["at"] for done in trace["steps"]] == [scene.at(0.7), scene.at(0.999), scene.at(1)]
    [paid] = [event for event in trace["events"] if event["wholeSecond"]]
    assert (paid["occurredAt"], paid["decision"], paid["step"]) == (scene.at(0), "accepted", 2)
    assert paid["explanation"] == (
        "Accepted: completes step 2. Its provider sends whole seconds; it counts at the end of "
        "its second."
    )
    units = scene.client.get(f"/api/funnels/{funnel}/units?quality=coarseTime").json()
    assert [unit["coarseTimes"] for unit in units["data"]] == [1]


@pytest.mark.parametrize("unit", ["attempt", "visitor"])
def test_a_whole_second_counts_at_its_start_for_step_1(
    scene: Scene, sender: Sender, unit: str
) -> None:
    at_whole_seconds(scene).story("0.001/thanked", visitor="ann")
    send_payment(sender, scene)
    report = scene.results(funnel_of(scene, unit, PAYMENT, "thanked"))
    assert outcome(report["aggregate"]) == (1, 1, 0, 0)
    assert coarse(report) == 1


def test_a_whole_second_is_inside_the_window_by_its_stated_time(
    scene: Scene, sender: Sender
) -> None:
    scene.start_ms -= 7_200_000
    at_whole_seconds(scene).story("0.2/checkout_submitted", visitor="ann", attempt="a1")
    scene.story("0.2/checkout_submitted", visitor="ann", attempt="a2")
    send_payment(sender, scene, after_s=3600)
    send_payment(sender, scene, after_s=3601, attempt="a2")
    report = scene.results(funnel_of(scene, "attempt", "checkout_submitted", PAYMENT))
    assert outcome(report["aggregate"]) == (2, 1, 0, 1)
    assert coarse(report) == 0


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_precision_of_a_time_depends_on_its_provider_and_not_on_its_value(
    scene: Scene, sender: Sender, provider: Provider
) -> None:
    at_whole_seconds(scene).story("0.7/checkout_submitted", visitor="ann", attempt="a1")
    answer = sender.purchase(provider, scene.start_ms // 1000, visitorId="ann", attempt="a1")
    assert answer.status_code == 200, answer.text
    report = scene.results(funnel_of(scene, "attempt", "checkout_submitted", PURCHASE))
    assert outcome(report["aggregate"])[:2] == (1, int(provider.whole_seconds))
    assert coarse(report) == int(provider.whole_seconds)


def test_the_table_has_every_provider() -> None:
    assert [*PROVIDERS] == [*Provider]


def test_two_whole_seconds_prove_no_order_between_later_steps(scene: Scene, sender: Sender) -> None:
    at_whole_seconds(scene).story("0.7/checkout_submitted", visitor="ann", attempt="a1")
    send_payment(sender, scene)
    send_purchase(sender, visitorId="ann", attempt="a1", after_s=0)
    report = scene.results(funnel_of(scene, "attempt", "checkout_submitted", PAYMENT, PURCHASE))
    assert [row["count"] for row in report["aggregate"]["steps"]] == [1, 1, 0]
    assert (report["dataQuality"]["unorderedTies"], coarse(report)) == (1, 2)
