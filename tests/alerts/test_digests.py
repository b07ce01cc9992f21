"""Weekly digests: who gets them, when, what they say, and that each week has at most one."""

import html
import json
import re
import threading
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from docsite.pages import ROOT
from sqlalchemy import select, update

from penstock.alerts.digests.model import next_slot_ms
from penstock.app import Services
from penstock.metadb.tables import digests, memberships, users
from tests.conftest import ShiftedClock
from tests.funnels.scenario import HOUR_S, Scene
from tests.mail_server import MailServer
from tests.records import create
from tests.tenant import BASE_URL, Tenant, join, visitor

PATH = "/api/auth/digest"
MONDAY = {"weekday": "monday", "hour": 8, "timezone": "Europe/Berlin"}
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture
def reader(workspace: Tenant, services: Services) -> Tenant:
    """A workspace whose owner has confirmed their address."""
    confirm(services)
    return workspace


def confirm(services: Services, at_ms: int | None = 1) -> None:
    with services.database.write() as db:
        db.execute(update(users).values(email_confirmed_at=at_ms))


def subscribe(tenant: Tenant, **fields: Any) -> dict[str, Any]:
    answer = tenant.browser.put(PATH, json=MONDAY | fields)
    assert answer.status_code == 200, answer.text
    record: dict[str, Any] = answer.json()
    return record


def ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def pass_time(clock: ShiftedClock, tenant: Tenant, **after: float) -> None:
    """Move the clock to a time after the next digest is due."""
    due = datetime.fromisoformat(tenant.browser.get(PATH).json()["nextAt"])
    clock.advance(seconds=due.timestamp() - clock() / 1000 + timedelta(**after).total_seconds())


def send(services: Services) -> None:
    services.digest_sender._step()


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ((2026, 3, 16, 7), (2026, 3, 16, 8)),
        ((2026, 3, 16, 8), (2026, 3, 23, 8)),
        ((2026, 3, 22, 12), (2026, 3, 23, 8)),
        ((2026, 3, 24, 8), (2026, 3, 30, 8)),  # the clocks change in between
    ],
)
def test_the_next_digest_is_at_the_local_hour(
    now: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    at, slot = (ms(datetime(*each, tzinfo=BERLIN)) for each in (now, expected))  # type: ignore[arg-type,misc]
    assert next_slot_ms(1, 8, BERLIN, at) == slot


def test_a_skipped_or_repeated_hour_has_one_digest() -> None:
    skipped = ms(datetime(2026, 3, 28, 12, tzinfo=BERLIN))
    assert next_slot_ms(7, 2, BERLIN, skipped) == ms(datetime(2026, 3, 29, 1, tzinfo=UTC))
    repeated = ms(datetime(2026, 10, 24, 12, tzinfo=BERLIN))
    first = next_slot_ms(7, 2, BERLIN, repeated)
    assert first == ms(datetime(2026, 10, 25, 0, tzinfo=UTC))
    assert next_slot_ms(7, 2, BERLIN, first) - first == 169 * HOUR_S * 1000


def test_nobody_is_subscribed_until_they_ask(reader: Tenant) -> None:
    before = reader.browser.get(PATH).json()
    assert (before["subscribed"], before["nextAt"]) == (False, None)
    after = subscribe(reader)
    assert after["subscribed"]
    due = datetime.fromisoformat(after["nextAt"]).astimezone(BERLIN)
    assert (due.isoweekday(), due.hour, due.minute) == (1, 8, 0)
    assert reader.browser.delete(PATH).status_code == 204
    assert not reader.browser.get(PATH).json()["subscribed"]


def test_the_documented_body_is_accepted(reader: Tenant) -> None:
    page = (ROOT / "docs/alerts.md").read_text("utf-8")
    body = json.loads('{"weekday' + page.partition('{"weekday')[2].partition("```")[0])
    assert subscribe(reader, **body)["subscribed"]


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"weekday": "Monday"}, "weekday"),
        ({"hour": 24}, "hour"),
        ({"timezone": "Berlin"}, "timezone"),
        ({"funnelIds": []}, "funnelIds"),
        ({"funnelIds": ["fun_1"]}, "funnelIds[0]"),
    ],
)
def test_a_wrong_subscription_names_the_field(
    reader: Tenant, fields: dict[str, Any], fault: str
) -> None:
    answer = reader.browser.put(PATH, json=MONDAY | fields)
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [fault]


def test_an_unconfirmed_address_gets_no_digest(workspace: Tenant, services: Services) -> None:
    confirm(services, None)
    answer = workspace.browser.put(PATH, json=MONDAY)
    assert (answer.status_code, answer.json()["code"]) == (409, "email_not_confirmed")


def checkout(scene: Scene, clock: ShiftedClock, *, entered: int, completed: int) -> str:
    """A funnel with attempts of yesterday's week. Returns its ID."""
    items = []
    for number in range(entered):
        own = {"attempt": f"a{number}", "plan": "pro" if number % 2 else "free"}
        items.append(scene.item(0, "begun", f"v{number}", **own))
        if number < completed:
            items.append(scene.item(60, "paid", f"v{number}", **own))
    scene.track(items)
    return scene.attempts("begun", "paid", name="Checkout", breakdownProperties=["plan"])


def test_a_digest_says_the_settled_rate_and_links_to_the_report(
    reader: Tenant, services: Services, mails: MailServer, clock: ShiftedClock, warehouse: object
) -> None:
    subscribe(reader)
    due = datetime.fromisoformat(reader.browser.get(PATH).json()["nextAt"]).astimezone(BERLIN)
    clock.advance(seconds=due.timestamp() - clock() / 1000 - 2 * 86_400)
    funnel_id = checkout(Scene(reader, clock, ago_s=86_400), clock, entered=40, completed=31)
    pass_time(clock, reader)
    send(services)
    mail, text = mails.mail(), mails.text()
    assert mail["To"] == reader.email
    assert mail["Subject"] == "Weekly digest of Acme"
    assert "Checkout" in text
    assert "77.5% of 40 settled attempts completed." in text
    assert "9 attempts were lost on the way from begun to paid." in text
    assert "plan" not in text  # the values of properties may not leave the dashboard yet
    last = (due - timedelta(days=1)).date().isoformat()
    link = f"{BASE_URL}/funnels/{funnel_id}?period=custom&start="
    assert link in text
    assert f"&end={last}&timezone=Europe%2FBerlin" in text
    page = mail.get_body(("html",))
    assert page is not None
    page_html = html.unescape(page.get_content())
    assert "77.5% of 40 settled attempts completed." in page_html
    assert "begun        40      100.0%" in text
    assert "paid         31       77.5%" in text
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", page_html)
    assert cells == ["begun", "40", "100.0%", "paid", "31", "77.5%"]


def test_a_digest_has_the_forecast_that_was_made_in_the_background(
    reader: Tenant, services: Services, mails: MailServer, clock: ShiftedClock, warehouse: object
) -> None:
    subscribe(reader)
    due = datetime.fromisoformat(reader.browser.get(PATH).json()["nextAt"])
    clock.advance(seconds=due.timestamp() - clock() / 1000 - HOUR_S)
    scene = Scene(reader, clock, ago_s=60 * 86_400)
    for day in range(60):
        at = day * 86_400
        items = [
            scene.item(at, "begun", f"v{day}-{each}", attempt=f"{day}-{each}") for each in range(8)
        ]
        if day < 58:
            items += [
                scene.item(at + 2 * 86_400, "paid", f"v{day}-{each}", attempt=f"{day}-{each}")
                for each in range(4 + day % 2)
            ]
        scene.track(items)
    scene.attempts("begun", "paid", conversionWindowSeconds=7 * 86_400)
    services.forecast_worker._step()
    pass_time(clock, reader)
    send(services)
    sentence = (
        r"The rate of the last 30 days will settle at about [\d.]+% \([\d.]+ to [\d.]+\); "
        r"\d+ earlier forecasts were [\d.]+ points? off on average"
    )
    assert re.search(sentence, " ".join(mails.text().split())), mails.text()


def test_a_digest_names_only_values_of_properties_that_may_be_shared(
    reader: Tenant, services: Services, mails: MailServer, clock: ShiftedClock, warehouse: object
) -> None:
    subscribe(reader)
    pass_time(clock, reader, days=-2)
    scene = Scene(reader, clock, ago_s=86_400)
    checkout(scene, clock, entered=120, completed=0)
    own = [{"attempt": f"a{at}", "plan": "pro"} for at in range(1, 120, 2)]
    scene.track([scene.item(60, "paid", f"v{2 * at + 1}", **each) for at, each in enumerate(own)])
    pass_time(clock, reader)
    texts = []
    for properties in ([], ["plan"]):
        changed = {"sharedProperties": properties}
        assert reader.browser.patch("/api/settings/workspace", json=changed).status_code == 200
        with services.database.write() as db:
            db.execute(update(digests).values(slot_at=clock(), due_at=clock()))
        send(services)
        texts.append(mails.text(len(texts)))
    assert ["50.0% of 120 settled" in text for text in texts] == [True, True]
    assert ["one value of plan" in text for text in texts] == [True, False]
    assert "pro" not in texts[0]
    assert "plan = pro converts" in texts[1]


def test_a_digest_has_the_address_of_the_receipt_of_its_week(
    reader: Tenant, services: Services, mails: MailServer, clock: ShiftedClock, warehouse: object
) -> None:
    subscribe(reader)
    pass_time(clock, reader, days=-2)
    funnel_id = checkout(Scene(reader, clock, ago_s=86_400), clock, entered=40, completed=31)
    pass_time(clock, reader)
    week = {"period": "settled", "timezone": MONDAY["timezone"]}
    receipt = create(reader.client, "/api/receipts", {"funnelId": funnel_id, "parameters": week})
    send(services)
    assert f"Receipt: {receipt['url']}" in mails.text()
    page = mails.mail().get_body(("html",))
    assert page is not None
    assert receipt["url"] in page.get_content()


def test_few_units_are_no_verdict_but_a_count(
    reader: Tenant, services: Services, mails: MailServer, clock: ShiftedClock, warehouse: object
) -> None:
    subscribe(reader)
    pass_time(clock, reader, days=-2)
    scene = Scene(reader, clock, ago_s=86_400)
    checkout(scene, clock, entered=4, completed=3)
    scene.funnel("begun", "paid", name="Never ends", conversionWindowSeconds=None)
    scene.attempts("nothing", "paid", name="Nobody")
    pass_time(clock, reader)
    send(services)
    text = mails.text()
    assert "3 of 4 attempts completed, too few to compare." in text
    assert "So far, 75.0% of 4 visitors completed." in text
    assert "No attempts entered." in text


def test_each_week_has_one_digest_on_several_nodes_and_after_restarts(
    reader: Tenant, services: Services, mails: MailServer, clock: ShiftedClock, warehouse: object
) -> None:
    Scene(reader, clock).funnel("begun", "paid")
    subscribe(reader)
    for week in (1, 2):
        pass_time(clock, reader, minutes=1)
        nodes = [threading.Thread(target=send, args=(services,)) for _ in range(4)]
        for node in nodes:
            node.start()
        for node in nodes:
            node.join()
        send(services)
        assert len(mails.mails) == week
    assert reader.browser.get(PATH).json()["lastSentAt"] is not None


def test_a_missed_week_is_left_out_after_a_day(
    reader: Tenant, services: Services, mails: MailServer, clock: ShiftedClock, warehouse: object
) -> None:
    Scene(reader, clock).funnel("begun", "paid")
    subscribe(reader)
    pass_time(clock, reader, hours=25)
    send(services)
    assert mails.mails == []
    pass_time(clock, reader, hours=23)
    send(services)
    assert len(mails.mails) == 1


def test_a_server_that_is_busy_gets_the_digest_later_and_once(
    reader: Tenant, services: Services, mails: MailServer, clock: ShiftedClock, warehouse: object
) -> None:
    Scene(reader, clock).funnel("begun", "paid")
    subscribe(reader)
    pass_time(clock, reader, minutes=1)
    mails.answers = ["451 Try again"]
    send(services)
    assert mails.mails == []
    clock.advance(seconds=601)
    send(services)
    clock.advance(seconds=601)
    send(services)
    assert len(mails.mails) == 1
    clock.advance(days=6)
    mails.answers = ["550 No such user"]
    clock.advance(days=1)
    send(services)
    clock.advance(seconds=601)
    send(services)
    assert mails.attempts == 3


def test_a_node_that_died_is_replaced_when_its_lease_ends(
    reader: Tenant, services: Services, mails: MailServer, clock: ShiftedClock, warehouse: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    Scene(reader, clock).funnel("begun", "paid")
    subscribe(reader)
    pass_time(clock, reader, minutes=1)
    with monkeypatch.context() as patched:
        patched.setattr(services.digest_sender, "_compose", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            send(services)
    send(services)
    assert mails.mails == []
    clock.advance(seconds=1801)
    send(services)
    assert len(mails.mails) == 1


def test_a_link_in_the_mail_unsubscribes_without_a_session(
    reader: Tenant, services: Services, mails: MailServer, clock: ShiftedClock, warehouse: object,
    server: Any,
) -> None:  # fmt: skip
    Scene(reader, clock).funnel("begun", "paid")
    subscribe(reader)
    pass_time(clock, reader, minutes=1)
    send(services)
    url = mails.mail()["List-Unsubscribe"].strip("<>")
    assert f"Unsubscribe: {url}" in mails.text()
    stranger = visitor(server)
    shown = stranger.get(url)
    assert shown.status_code == 200
    assert "Stop the weekly digest" in shown.text
    assert reader.browser.get(PATH).json()["subscribed"]  # looking changes nothing
    clicked = stranger.post(url, data={"List-Unsubscribe": "One-Click"})
    assert clicked.status_code == 200
    assert not reader.browser.get(PATH).json()["subscribed"]
    assert stranger.post(url).status_code == 200
    for wrong in ("", "x", url.partition("=")[2][:-2]):
        assert "not complete" in stranger.get(f"/unsubscribe?token={wrong}").text
        assert stranger.post(f"/unsubscribe?token={wrong}").status_code == 404


def test_a_removed_member_gets_no_digest(
    reader: Tenant, services: Services, mails: MailServer
) -> None:
    member = join(reader)
    confirm(services)
    assert member.put(PATH, json=MONDAY).status_code == 200
    user_id = member.get("/api/auth/session").json()["user"]["id"]
    assert reader.browser.delete(f"/api/settings/members/{user_id}").status_code == 204
    with services.database.read() as db:
        assert db.execute(select(digests)).all() == []
        assert len(db.execute(select(memberships)).all()) == 1
