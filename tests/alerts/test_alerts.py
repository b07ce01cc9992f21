"""Alerts from a saved condition to a message: final verdicts, corrections, channels, history."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from threading import Event
from time import monotonic
from typing import Any

import pytest
from docsite.pages import ROOT
from standardwebhooks import Webhook

from penstock.alerts import store
from penstock.base.clock import iso
from penstock.metadb.tables import alerts
from tests.alerts.conftest import Shop
from tests.answers import body_of, columns_of, faults, problem, values_of
from tests.funnels.scenario import Json
from tests.mail_server import MailServer
from tests.outbound.sinks import Sink, sink
from tests.records import new_key
from tests.tenant import Tenant, audit_log, join, new_browser
from tests.waiting import eventually

Received = Callable[[int], list[Any]]


def kinds(messages: list[Json]) -> list[str]:
    return [message["kind"] for message in messages]


def test_below_fires_when_the_upper_bound_is_below_and_above_when_the_lower_bound_is_above(
    shop: Shop, url: str, received: Received
) -> None:
    shop.check_out(-18, 25, 0, 5)  # their windows are closed
    shop.check_out(-6, 10)  # these can still complete: between 5 and 15 of 40
    channels = [{"kind": "webhook", "url": url}]
    sure = shop.alert(shop.rate("below", 0.4), channels, name="Sure")
    open_ = shop.alert(shop.rate("below", 0.3), channels, name="Open")
    above = shop.alert(shop.rate("above", 0.12), channels, name="Above")
    not_above = shop.alert(shop.rate("above", 0.13), channels, name="Not above")
    shop.check()
    [message] = shop.delivered(sure)
    assert message["subject"] == f"Sure: 12.5% {message['subject'].partition('12.5% ')[2]}"
    assert "will be between 12.5% and 37.5%" in " ".join(message["lines"])
    assert kinds(shop.messages(above)) == ["alarm"]
    assert shop.messages(open_) == shop.messages(not_above) == []
    figures = message["figures"]
    assert values_of(figures, "units", "completed", "lowest", "highest", "level") == (
        40, 5, 0.125, 0.375, 0.4,
    )  # fmt: skip
    shop.pass_hours(8)  # the last window closes: now 5 of 40 is final
    assert kinds(shop.messages(open_)) == ["alarm"]
    assert kinds(shop.messages(sure)) == ["alarm"], "the change has its message"
    assert shop.messages(not_above) == []
    [check] = shop.get(f"/api/alerts/{sure['id']}/checks")["data"]
    assert values_of(check, "verdict", "messageId") == ("alarming", message["id"])
    assert check["figures"]["highest"] == 0.375, "the figures of that moment"
    link = message["link"].partition("?")
    assert link[0].endswith(f"/funnels/{shop.funnel_id}")
    report = shop.get(f"/api/funnels/{shop.funnel_id}/results?{link[2]}")["aggregate"]
    assert report["finalRate"] == {"lower": 0.125, "upper": 0.375}
    headers = {"HX-Request": "true", "HX-Target": "overview"}
    page = shop.tenant.browser.get(message["link"], headers=headers).text
    pending = page.partition('id="pending">')[2].partition("in progress")[0]
    assert ">10<" in pending, "the page shows the funnel as it looked then"
    assert len(received(3)) == 3


def test_late_events_that_reverse_an_alarm_are_followed_by_a_correction(
    shop: Shop, url: str
) -> None:
    shop.check_out(-18, 35, 0, 5)
    alert = shop.alert(shop.rate("below", 0.3), [{"kind": "webhook", "url": url}])
    shop.check()
    shop.delivered(alert)
    shop.send([shop.track(-17, name, f"c{n}") for n in range(1, 21) for name in ("submitted",)])
    shop.send([shop.track(-16, name, f"c{n}") for n in range(1, 21) for name in ("bought",)])
    shop.pass_hours(1)
    alarm, correction = shop.delivered(alert)
    assert (correction["kind"], correction["corrects"]) == ("correction", alarm["id"])
    assert correction["figures"]["completed"] == 25
    assert shop.get(f"/api/alerts/{alert['id']}")["verdict"] == "fine"
    shop.pass_hours(1)
    assert kinds(shop.messages(alert)) == ["alarm", "correction"]


def test_an_alarm_has_one_message_until_the_rate_recovers(shop: Shop, url: str) -> None:
    shop.check_out(-18, 35, 0, 5)
    alert = shop.alert(shop.rate("below", 0.3, window="12h"), [{"kind": "webhook", "url": url}])
    shop.check()
    shop.check_out(2, 35, 0, 5)  # today is low as well
    shop.pass_hours(24)
    shop.check_out(26, 5, 0, 35)  # and tomorrow is not
    shop.pass_hours(13)
    shop.pass_hours(1)
    messages = shop.messages(alert)
    assert kinds(messages) == ["alarm", "recovery"]
    assert messages[0]["lines"][0].endswith(" completed Checkout within 12 hours.")
    checks = shop.get(f"/api/alerts/{alert['id']}/checks")["data"]
    assert [check["verdict"] for check in checks] == ["fine", "alarming", "alarming"]


def test_a_rate_between_two_steps_has_the_bounds_that_open_units_leave(
    shop: Shop, url: str
) -> None:
    shop.check_out(-18, 10, 20, 10)
    shop.check_out(-6, 5, 5)  # 5 may still reach both steps, and 5 the second
    steps = {"fromStep": "2", "toStep": "3"}
    alert = shop.alert(shop.rate("below", 0.51, **steps), [{"kind": "webhook", "url": url}])
    shop.check()
    [message] = shop.messages(alert)
    figures = message["figures"]
    assert values_of(figures, "units", "completed", "lowest", "highest") == (
        35, 10, 0.25, 0.5,
    )  # fmt: skip
    assert "continued from step 2 to step 3 of Checkout" in message["lines"][0]


def test_an_unusual_rate_is_outside_those_of_the_same_weekday_in_eight_weeks(
    shop: Shop, url: str
) -> None:
    for week in range(1, 9):
        shop.check_out(-18 - week * 7 * 24, 20, 0, 20 + week % 3)
        shop.check_out(-18 - week * 7 * 24 + 24, 35, 0, 5)  # another weekday counts for nothing
    shop.check_out(-18, 25, 0, 15)
    channels = [{"kind": "webhook", "url": url}]
    alert = shop.alert(shop.rate("unusual"), channels)
    ready = shop.alert({**shop.rate("unusual"), "minUnits": 41}, channels, name="Too few")
    shop.check()
    [message] = shop.messages(alert)
    assert values_of(message["figures"], "rate", "least") == (0.375, 0.5)
    assert "same weekday" in " ".join(message["lines"])
    assert shop.messages(ready) == []


def check_out_for_two_weeks(shop: Shop) -> None:
    """Store checkouts of yesterday and a week before, of which one plan lost most yesterday."""
    shop.check_out(-15 * 24, 1)  # history begins before the week before
    for week, lost in ((7, 5), (0, 70)):
        shop.check_out(-18 - week * 24, lost, 0, 75 - lost, plan="pro")
        shop.check_out(-18 - week * 24, 10, 0, 90, plan="basic")


def test_the_sentences_of_the_verdict_name_values_only_of_shared_properties(
    shop: Shop, url: str
) -> None:
    check_out_for_two_weeks(shop)
    condition = shop.rate("below", 0.7, breakdown="plan")
    channels = [{"kind": "webhook", "url": url}]
    first = shop.alert(condition, channels, name="Figures only")
    shop.check()
    text = " ".join(shop.messages(first)[0]["lines"])
    assert "points down from 91.4% a week before" in text
    assert "from started to submitted" in text
    assert "pro" not in text
    shop.share("plan")
    second = shop.alert(condition, channels, name="With plans")
    shop.check()
    assert "plan = pro fell by" in " ".join(shop.messages(second)[0]["lines"])


def test_a_message_that_waits_states_only_values_that_are_shared_when_it_is_sent(
    shop: Shop, url: str, received: Received
) -> None:
    check_out_for_two_weeks(shop)
    shop.share("plan")
    quiet = {"from": "08:00", "to": "14:00", "timezone": "UTC"}
    condition = shop.rate("below", 0.7, breakdown="plan")
    alert = shop.alert(condition, [{"kind": "webhook", "url": url}], quietHours=quiet)
    eventually(lambda: shop.messages(alert))
    assert "plan = pro fell by" in " ".join(shop.messages(alert)[0]["lines"])
    shop.share()
    shop.pass_hours(3)
    [body] = received(1)
    assert "points down from 91.4% a week before" in " ".join(body["lines"])
    assert "plan" not in str(body["lines"])


def test_a_link_with_values_is_for_members_only(shop: Shop, url: str) -> None:
    shop.check_out(-18, 35, 0, 5, plan="pro")
    filters = '[{"property": "plan", "operator": "equals", "value": "pro"}]'
    condition = shop.rate("below", 0.3, filters=filters)
    alert = shop.alert(condition, [{"kind": "webhook", "url": url}])
    shop.check()
    [message] = shop.messages(alert)
    assert message["link"].endswith(f"/alerts/messages/{message['id']}")
    browser = shop.tenant.browser
    report = browser.get(message["link"], follow_redirects=False)
    assert report.status_code == 302
    assert f"/funnels/{shop.funnel_id}?filters=" in report.headers["location"]
    stranger = new_browser(shop.tenant).get(message["link"], follow_redirects=False)
    assert "/login" in stranger.headers["location"]
    assert "plan" not in message["link"] + " ".join(message["lines"])


def test_each_channel_gets_the_message(
    shop: Shop, url: str, receiver: Sink, received: Received, mails: MailServer
) -> None:
    shop.check_out(-18, 35, 0, 5)
    session = body_of(shop.tenant.browser.get("/api/auth/session"))
    channels: list[Json] = [
        {"kind": "webhook", "url": url},
        {"kind": "chat", "url": url + "/secret-part"},
        {"kind": "email", "userId": session["user"]["id"]},
    ]
    alert = shop.alert(shop.rate("below", 0.3), channels)
    assert columns_of(alert["channels"], "kind", "url") == [
        ("webhook", "http://127.0.0.1"),
        ("chat", "http://127.0.0.1"),
        ("email", None),
    ]
    secret = alert["channels"][0]["secret"]
    assert shop.get(f"/api/alerts/{alert['id']}")["channels"][0]["secret"] is None
    [message] = shop.delivered(alert)
    assert len(received(2)) == 2
    [signed] = [each for each in receiver.requests if b"webhook-signature" in each]
    head, _, body = signed.partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().splitlines()[1:])
    sent_at = datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)
    signature = Webhook(secret).sign(message["id"], sent_at, body.decode())
    assert values_of(headers, "webhook-id", "webhook-signature") == (message["id"], signature)
    assert "12.5%" in mails.text()


def test_messages_have_the_address_of_the_receipt_of_their_number(
    shop: Shop, url: str, received: Received, mails: MailServer
) -> None:
    shop.check_out(-18, 35, 0, 5)
    session = body_of(shop.tenant.browser.get("/api/auth/session"))
    day = {"startAt": iso(shop.today_ms - 86_400_000), "endAt": iso(shop.today_ms)}
    form = {"funnelId": shop.funnel_id, "parameters": day}
    receipt = shop.post("/api/receipts", form, 201)["url"]
    channels: list[Json] = [
        {"kind": "webhook", "url": url},
        {"kind": "chat", "url": url},
        {"kind": "email", "userId": session["user"]["id"]},
    ]
    alert = shop.alert(shop.rate("below", 0.3), channels)
    other = shop.alert(shop.rate("below", 0.3, window="12h"), channels[:1], name="Other")
    shop.check()
    [message] = shop.delivered(alert)
    assert message["figures"]["receipt"] == receipt
    assert shop.delivered(other)[0]["figures"]["receipt"] is None
    assert f"Receipt: {receipt}" in mails.text()
    bodies = received(3)
    [chat] = [body for body in bodies if "text" in body]
    assert chat["text"].endswith(f"\nReceipt: {receipt}")
    assert chat["content"].endswith(f"\nReceipt: <{receipt}>")
    assert [body["figures"]["receipt"] for body in bodies if "figures" in body] == [receipt, None]


def test_a_channel_that_fails_is_retried_and_delays_no_other(
    shop: Shop, url: str, receiver: Sink
) -> None:
    shop.check_out(-18, 35, 0, 5)
    live = url.replace("127.0.0.1", "localhost")
    channels = [{"kind": "webhook", "url": each} for each in ("http://127.0.0.1:9/", live)]
    alert = shop.alert(shop.rate("below", 0.3), channels)
    eventually(lambda: receiver.requests)

    def failed() -> Json:
        [message] = shop.messages(alert)
        states = {each["target"]: each for each in message["deliveries"]}
        assert set(states) == {"http://127.0.0.1", "http://localhost"}
        delivery: Json = states["http://127.0.0.1"]
        return delivery

    eventually(lambda: failed()["attempts"] == 1)
    assert failed()["error"] == "No connection to the host could be made."
    for _ in range(9):
        shop.pass_hours(24)
        shop.services.alert_deliverer.worker.wake()
    eventually(lambda: failed()["state"] == "failed")
    assert len(receiver.requests) == 1


def test_viewers_and_read_keys_read_alerts_without_the_secrets_of_their_channels(
    shop: Shop, url: str, receiver: Sink
) -> None:
    channels = [{"kind": kind, "url": f"{url}/{kind}-secret"} for kind in ("webhook", "chat")]
    alert = shop.alert({"kind": "lag", "minutes": 5}, channels)
    path = f"/api/alerts/{alert['id']}"
    shop.post(f"{path}/test", {})
    shop.delivered(alert)
    viewer = join(shop.tenant, "viewer")
    program = new_browser(shop.tenant)
    program.headers["Authorization"] = f"Bearer {new_key(shop.tenant.browser, scopes=['read'])}"
    for reader in (viewer, program):
        for each in ("/api/alerts", path, f"{path}/messages", f"{path}/checks"):
            answer = reader.get(each)
            assert answer.status_code == 200, (each, answer.text)
            assert "/hook" not in answer.text, each
    page = viewer.get(f"/alerts/{alert['id']}").text
    assert "Webhook" in page
    assert "/hook" not in page
    assert problem(viewer.post(f"{path}/test", json={})) == (403, "viewer_role")


def test_every_alert_can_be_tested_before_there_are_events(
    shop: Shop, url: str, received: Received
) -> None:
    conditions = [
        shop.rate("unusual"), shop.rate("below", 0.3), shop.rate("above", 0.3, interval="week"),
        {"kind": "rejections", "level": 0.1}, {"kind": "lag", "minutes": 5},
    ]  # fmt: skip
    for number, condition in enumerate(conditions, start=1):
        alert = shop.alert(condition, [{"kind": "webhook", "url": url}], name=f"Alert {number}")
        shop.post(f"/api/alerts/{alert['id']}/test", {})
        [message] = shop.delivered(alert)
        assert message["subject"] == f"Alert {number}: test"
        assert message["lines"][0] == "This is a test message."


@pytest.mark.slow("waits for silent receivers")
def test_silent_receivers_of_a_workspace_do_not_delay_the_messages_of_another(
    shop: Shop, url: str, receiver: Sink, other_workspace: Tenant
) -> None:
    other = replace(shop, tenant=other_workspace)
    condition, released = {"kind": "lag", "minutes": 5}, Event()
    healthy = other.alert(
        condition, [{"kind": "webhook", "url": url.replace("127.0.0.1", "localhost")}]
    )
    with sink(lambda *_: released.wait(60) and None) as silent:
        channels = [{"kind": "webhook", "url": f"http://127.0.0.1:{silent.port}/"}] * 10
        for number in range(3):
            slow = shop.alert(condition, channels, name=f"Slow {number}")
            shop.post(f"/api/alerts/{slow['id']}/test", {})
        eventually(lambda: len(silent.requests) == 4)
        before_s = monotonic()
        other.post(f"/api/alerts/{healthy['id']}/test", {})
        eventually(lambda: receiver.requests)
        assert monotonic() - before_s < 5
        released.set()


def test_workspaces_take_turns_when_many_alerts_are_due(
    shop: Shop, url: str, other_workspace: Tenant
) -> None:
    other = replace(shop, tenant=other_workspace)
    condition, channels = {"kind": "lag", "minutes": 5}, [{"kind": "webhook", "url": url}]
    for number in range(10):
        shop.alert(condition, channels, name=f"Lag {number}")
    other.alert(condition, channels)
    shop.check()
    other.check()
    shop.clock.advance(seconds=120)
    due_from = iso(shop.clock())
    shop.services.alert_worker.wake()

    def times(of: Shop) -> list[str]:
        return [alert["checkedAt"] for alert in of.get("/api/alerts")["data"]]

    eventually(lambda: min(times(shop) + times(other)) >= due_from)
    [at] = times(other)
    assert sum(own_at < at for own_at in times(shop)) <= 1


def test_messages_wait_during_quiet_hours_and_snoozes(shop: Shop, url: str, receiver: Sink) -> None:
    shop.check_out(-18, 35, 0, 5)
    quiet = {"from": "08:00", "to": "14:00", "timezone": "UTC"}
    channels = [{"kind": "webhook", "url": url}]
    alert = shop.alert(shop.rate("below", 0.3), channels, quietHours=quiet)
    path = f"/api/alerts/{alert['id']}"

    def due() -> str:
        [message] = shop.messages(alert)
        due_at: str = message["deliveries"][0]["dueAt"]
        return due_at[11:16]

    eventually(lambda: shop.messages(alert) and due() == "14:00")
    shop.post(f"{path}/test", {})
    eventually(lambda: len(receiver.requests) == 1)  # but a test comes at once
    until = shop.today_ms + 20 * 3_600_000
    assert shop.post(f"{path}/snooze", {"until": until})["snoozedUntil"]
    shop.pass_hours(3)
    assert len(receiver.requests) == 1
    shop.post(f"{path}/snooze", {"until": None})
    eventually(lambda: len(receiver.requests) == 2)


def test_an_alarm_that_waits_and_is_corrected_is_never_sent(
    shop: Shop, url: str, receiver: Sink
) -> None:
    shop.check_out(-18, 35, 0, 5)
    quiet = {"from": "08:00", "to": "18:00", "timezone": "UTC"}
    channels = [{"kind": "webhook", "url": url}]
    alert = shop.alert(shop.rate("below", 0.3), channels, quietHours=quiet)
    eventually(lambda: shop.messages(alert))
    shop.send([shop.track(-17, name, f"c{n}") for n in range(1, 31) for name in ("submitted",)])
    shop.send([shop.track(-16, name, f"c{n}") for n in range(1, 31) for name in ("bought",)])
    shop.pass_hours(1)
    alarm, correction = shop.messages(alert)
    assert alarm["deliveries"][0]["state"] == "cancelled"
    assert correction["deliveries"] == []
    shop.pass_hours(8)
    assert receiver.requests == []


def test_silence_lag_and_rejections(shop: Shop, url: str, services: Any) -> None:
    shop.check_out(11, 1)
    channels = [{"kind": "webhook", "url": url}]
    silence = shop.alert(
        {"kind": "silence", "event": "started", "minutes": 120}, channels, name="Silence"
    )
    rejections = shop.alert(
        {"kind": "rejections", "level": 0.2, "minUnits": 10}, channels, name="Rejections"
    )
    lag = shop.alert({"kind": "lag", "minutes": 5}, channels, name="Lag")
    shop.check()
    assert [shop.messages(each) for each in (silence, rejections, lag)] == [[], [], []]
    bad = [{"type": "event", "visitorId": "v"}] * 6
    items = [*bad, *[shop.track(12, "other", "c0")] * 10]
    body = {"websiteId": shop.tenant.website_id, "events": items}
    assert shop.tenant.client.post("/api/track", json=body).json()["rejected"] == 6
    shop.pass_hours(1.5)
    [message] = shop.messages(rejections)
    assert values_of(message["figures"], "received", "rejected", "rate") == (16, 6, 0.375)
    [message] = shop.messages(silence)
    assert "no event started for more than 120 minutes" in message["subject"]
    shop.send([shop.track(12.5, "started", "c99")])  # the event arrives late
    shop.pass_hours(0.2)
    eventually(lambda: len(shop.messages(silence)) == 2)
    assert kinds(shop.messages(silence)) == ["alarm", "correction"]
    with services.shipper.paused():
        shop.send([shop.track(13, "started", "c100")])
        shop.pass_hours(0.2)
        eventually(lambda: shop.messages(lag))
    shop.pass_hours(0.1)
    eventually(lambda: len(shop.messages(lag)) == 2)
    assert kinds(shop.messages(lag)) == ["alarm", "recovery"]


def test_silence_is_about_one_name_and_not_about_more_frequent_ones_that_contain_it(
    shop: Shop, url: str
) -> None:
    shop.check_out(11, 1)
    shop.send([shop.track(11, f"started {at // 2}", "c0") for at in range(240)])
    condition = {"kind": "silence", "event": "started", "minutes": 30}
    alert = shop.alert(condition, [{"kind": "webhook", "url": url}])
    shop.check()
    assert shop.get(f"/api/alerts/{alert['id']}")["problem"] is None
    [message] = shop.messages(alert)
    assert "no event started for more than 30 minutes" in message["subject"]


def test_what_cannot_be_saved_names_its_field(shop: Shop, url: str) -> None:
    rate, its = shop.rate("below", 0.5), "condition.parameters"
    no_window = shop.post(
        "/api/funnels",
        {
            "name": "Forever",
            "steps": [{"type": "Event", "value": "a"}, {"type": "Event", "value": "b"}],
        },
        201,
    )["id"]
    for condition, field, code in (
        ({"kind": "rate"}, "condition.funnelId", "required"),
        ({**rate, "level": None}, "condition.level", "required"),
        ({**rate, "level": 0.33333}, "condition.level", "too_precise"),
        ({**rate, "event": "a"}, "condition.event", "not_for_type"),
        ({**rate, "parameters": {"startAt": "1"}}, f"{its}.startAt", "not_for_type"),
        ({**rate, "parameters": {"interval": "hour"}}, f"{its}.interval", "not_one_of"),
        ({**rate, "parameters": {"wat": "1"}}, f"{its}.wat", "unknown_field"),
        ({**rate, "parameters": {"timezone": "Mars"}}, f"{its}.timezone", "unknown_timezone"),
        ({**rate, "parameters": {"fromStep": "1"}}, f"{its}.toStep", "does_not_fit"),
        ({**rate, "funnelId": no_window}, "condition.funnelId", "no_window"),
        ({"kind": "silence", "minutes": 60}, "condition.event", "required"),
    ):  # fmt: skip
        body = {"name": "A", "condition": condition, "channels": [{"kind": "webhook", "url": url}]}
        codes = faults(shop.tenant.client.post("/api/alerts", json=body))
        assert codes.get(field) == code, (condition, codes)
    for channels, field, code in (
        ([], "channels", "too_few"),
        ([{"kind": "webhook", "url": url}] * 11, "channels", "too_many"),
        ([{"kind": "webhook", "url": "http://10.0.0.1/"}], "channels[0].url", "url_not_allowed"),
        ([{"kind": "email", "userId": "usr_x"}], "channels[0].userId", "cannot_receive"),
        ([{"kind": "email", "url": url}], "channels[0]", "not_allowed"),
        ([{"id": "chn_x"}], "channels[0].id", "not_one_of"),
    ):
        body = {"name": "A", "condition": rate, "channels": channels}
        assert faults(shop.tenant.client.post("/api/alerts", json=body)) == {field: code}
    unknown = {"name": "A", "condition": {**rate, "funnelId": "fun_x"}, "channels": channels[:0]}
    unknown["channels"] = [{"kind": "webhook", "url": url}]
    assert problem(shop.tenant.client.post("/api/alerts", json=unknown)) == (404, "not_found")


def test_an_alert_is_changed_and_deleted_and_each_change_is_audited(shop: Shop, url: str) -> None:
    alert = shop.alert(shop.rate("below", 0.5), [{"kind": "chat", "url": url}], paused=True)
    path, chat = f"/api/alerts/{alert['id']}", {"id": alert["channels"][0]["id"]}
    change = {
        "name": "Renamed",
        "condition": shop.rate("above", 0.9),
        "channels": [chat, {"kind": "webhook", "url": url}],
    }
    changed = body_of(shop.tenant.client.patch(path, json=change))
    assert changed["condition"]["when"] == "above"
    assert [channel["kind"] for channel in changed["channels"]] == ["chat", "webhook"]
    assert changed["channels"][0]["id"] == chat["id"]
    assert changed["channels"][1]["secret"].startswith("whsec_")
    taken = {
        "name": "Renamed",
        "condition": change["condition"],
        "channels": [{"kind": "chat", "url": url}],
    }
    assert problem(shop.tenant.client.post("/api/alerts", json=taken)) == (409, "name_taken")
    assert shop.tenant.client.delete(path).status_code == 204
    assert problem(shop.tenant.client.get(path)) == (404, "not_found")
    actions = [entry["action"] for entry in audit_log(shop.tenant.browser)]
    assert [each for each in actions if each.startswith("alert")] == [
        "alert_deleted", "alert_changed", "alert_created",
    ]  # fmt: skip
    assert "secret" not in str(audit_log(shop.tenant.browser, "alert_changed"))


def test_a_workspace_has_at_most_fifty_alerts(shop: Shop, url: str) -> None:
    condition = {"kind": "lag", "minutes": 5}
    channels = [{"kind": "webhook", "url": url}]
    for number in range(50):
        shop.alert(condition, channels, name=f"Alert {number}", paused=True)
    body = {"name": "One more", "condition": condition, "channels": channels}
    answer = shop.tenant.client.post("/api/alerts", json=body)
    assert problem(answer) == (409, "too_many_alerts")
    assert "Delete one first" in answer.text


def test_the_documented_alert_can_be_saved(shop: Shop) -> None:
    page = (ROOT / "docs" / "alerts.md").read_text("utf-8")
    alert = json.loads(page.split("```json\n")[1].split("```")[0])
    alert["condition"]["funnelId"] = shop.funnel_id
    saved = shop.post("/api/alerts", alert, 201)
    assert saved["condition"] == alert["condition"]
    assert saved["quietHours"] == alert["quietHours"]


def test_a_check_that_another_node_has_overtaken_saves_nothing(shop: Shop, url: str) -> None:
    shop.check_out(-18, 35, 0, 5)
    channels = [{"kind": "webhook", "url": url}]
    alert = shop.alert(shop.rate("below", 0.3), channels, paused=True)
    with shop.services.database.read() as db:
        row = db.execute(alerts.select().where(alerts.c.id == alert["id"])).one()
    claimed = store.alert_of(row._mapping)
    for _ in range(2):  # the first saves, so the second no longer has the alert
        shop.services.alert_worker.check(claimed, shop.clock(), claimed.due_at_ms)
    assert kinds(shop.messages(alert)) == ["alarm"]
