"""Replays the demo's shop, with planted drops, as each hour looked then.

No alarm may be contradicted by what happened later, and each planted drop must be found within a
day of being decidable; from a forecast, at least five days before. `make replay` replays 90 days
and prints a row for each rule.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from random import Random

import pytest
from sqlalchemy import update

from penstock.alerts import store
from penstock.base.chunks import chunks
from penstock.base.clock import iso, parse_time
from penstock.cli.demo_shop import (
    CHECKOUT_FUNNEL,
    VISIT_FUNNEL,
    DemoRequest,
    Route,
    Shop,
    shop_events,
)
from penstock.metadb.tables import alerts
from tests.alerts.conftest import Shop as AlertShop
from tests.answers import body_of
from tests.funnels.scenario import Json
from tests.records import new_website

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
LOST = 0.7
"""The share of payments that a planted drop loses."""


@dataclass(frozen=True)
class Rule:
    """An alert of the replay. level: None for an unusual rate. finds_drops: whether each planted
    drop makes it alarm.
    """

    name: str
    when: str
    level: float | None = None
    funnel: str = "checkout"
    parameters: dict[str, str] = field(default_factory=dict)
    finds_drops: bool = True


FAST, STEPS = {"window": "1d"}, {"fromStep": "3", "toStep": "4"}
VISITS = Rule("visits below 14%, in three days", "below", 0.14, "visits", {"window": "3d"})
UNUSUAL = Rule("unusual for the weekday", "unusual", None, "checkout", FAST, finds_drops=False)
SETTLES = Rule("will settle below 50%", "will_settle_below", 0.5)
RULES = (
    Rule("below 45%, within a day", "below", 0.45, "checkout", FAST),
    Rule("below 45%, within seven days", "below", 0.45),
    Rule("from step 3 to 4 below 65%", "below", 0.65, "checkout", {**FAST, **STEPS}),
    UNUSUAL,
    VISITS,
    Rule("above 70%, within seven days", "above", 0.7, finds_drops=False),
)


@dataclass(frozen=True)
class Replay:
    """days: days to replay, after those that the rules are compared with and before those that
    close all windows. hours: time between checks. planted: days of the replay on which payments
    were lost.
    """

    days: int
    hours: int
    planted: Sequence[int]
    rules: Sequence[Rule]


PLANTED = (9, 10, 30, 47, 48, 49, 71, 83)
REPLAYS = [
    pytest.param(Replay(4, 3, (1,), RULES[:3]), id="some days"),
    pytest.param(
        Replay(20, 6, (5, 6, 14), [SETTLES]),
        id=SETTLES.name,
        marks=[pytest.mark.full("makes a record of forecasts for each day")],
    ),
    *(
        pytest.param(
            Replay(90, 1, PLANTED, [rule]),
            id=rule.name,
            marks=[pytest.mark.full("90 days of the demo, hour by hour")],
        )
        for rule in RULES
    ),
]


def requests_of(
    shop: Shop, now_ms: int, days: int, first_ms: int, replay: Replay
) -> list[DemoRequest]:
    """The requests of the shop, without the payments that the planted drops lose."""
    random, starts = Random(7), dict[str, int]()
    lost_days = {first_ms + day * DAY_MS for day in replay.planted}
    sent = []
    for request in shop_events(shop, now_ms, days):
        if request.route in (Route.TRACK, Route.IDENTIFY) and VISITS not in replay.rules:
            continue
        attempt = request.body.get("properties", {}).get("checkout_id", "")
        start_ms = starts.setdefault(attempt, request.at_ms)
        is_hit = start_ms // DAY_MS * DAY_MS in lost_days and request.route is Route.TRANSACTION
        if not (is_hit and random.random() < LOST):
            sent.append(request)
    return sent


def send(shop: AlertShop, requests: Sequence[DemoRequest]) -> None:
    """Send the requests month by month; a login comes after the events before it."""
    client = shop.tenant.client
    for route in Route:
        own = [request for request in requests if request.route is route]
        match route:
            case Route.TRANSACTION | Route.IDENTIFY:
                path = "/api/v1/transactions" if route is Route.TRANSACTION else "/api/identify"
                for request in own:
                    assert client.post(path, json=request.body).is_success
            case Route.TRACK | Route.EVENT:
                path = "/api/track" if route is Route.TRACK else "/api/v1/events/batch"
                by_agent = sorted(own, key=lambda request: request.agent)
                for agent, group in groupby(by_agent, key=lambda request: request.agent):
                    for batch in chunks([request.body for request in group], 1000):
                        headers = {"User-Agent": agent or "acme-backend"}
                        answer = client.post(path, json={"events": list(batch)}, headers=headers)
                        assert answer.json()["rejected"] == 0, answer.text


def bounds_at(
    shop: AlertShop, rule: Rule, condition: Json, start_ms: int, at_ms: int
) -> tuple[float, float] | None:
    """The bounds of the rate of a day as they looked at a time, from the results of the funnel or
    the trend of a pair of steps.
    """
    query = {
        **condition["parameters"],
        "startAt": start_ms,
        "endAt": start_ms + (7 if rule.parameters.get("interval") else 1) * DAY_MS,
        "asOf": at_ms,
    }
    path = f"/api/funnels/{condition['funnelId']}"
    if "fromStep" in query:
        [figures] = body_of(shop.tenant.client.get(f"{path}/trend", params=query))["data"]
        figures, units = figures["between"], figures["between"]["reached"]
    else:
        query.pop("interval", None)
        figures = body_of(shop.tenant.client.get(f"{path}/results", params=query))["aggregate"]
        units = figures["entered"] - figures["excluded"]
    if units < 30:
        return None
    final, rate = figures["finalRate"], figures["conversionRate"]
    return (final["lower"], final["upper"]) if final else (rate, rate)


def decidable_at(shop: AlertShop, rule: Rule, condition: Json, start_ms: int, until_ms: int) -> int:
    """The first hour after the day at which the rate is surely below the level: by bisection, as
    an upper bound only falls.
    """
    early, late = start_ms // HOUR_MS + 25, until_ms // HOUR_MS
    while early < late:
        middle = (early + late) // 2
        bounds = bounds_at(shop, rule, condition, start_ms, middle * HOUR_MS)
        if bounds is not None and bounds[1] < (rule.level or 0):
            late = middle
        else:
            early = middle + 1
    return early * HOUR_MS


def holds(rule: Rule, figures: Json, bounds: tuple[float, float]) -> bool:
    """Whether the condition of a rule holds for a final rate."""
    lower, upper = bounds
    if rule.when == "unusual":
        return bool(upper < figures["least"] or lower > figures["greatest"])
    assert rule.level is not None
    return upper < rule.level if rule.when.endswith("below") else lower > rule.level


@pytest.mark.slow("checks alerts for each hour of some days")
@pytest.mark.parametrize("replay", REPLAYS)
def test_no_alarm_is_contradicted_later_and_each_drop_is_found_within_a_day(
    shop: AlertShop, replay: Replay, url: str
) -> None:
    before, after = (63 if UNUSUAL in replay.rules or SETTLES in replay.rules else 7), 16
    first_ms = shop.today_ms - (replay.days + after) * DAY_MS
    demo = Shop(shop.tenant.website_id, new_website(shop.tenant.client))
    days = before + replay.days + after
    send(shop, requests_of(demo, shop.clock(), days, first_ms, replay))
    funnels = {
        "checkout": shop.post("/api/funnels", {**CHECKOUT_FUNNEL, "name": "Demo"}, 201)["id"],
        "visits": shop.post("/api/funnels", VISIT_FUNNEL, 201)["id"],
    }
    for rule in replay.rules:
        condition: Json = {
            "kind": "rate",
            "funnelId": funnels[rule.funnel],
            "when": rule.when,
            "parameters": rule.parameters,
        }
        if rule.level is not None:
            condition["level"] = rule.level
        channels = [{"kind": "webhook", "url": url}]
        alert = shop.alert(condition, channels, name=rule.name, paused=True)
        hours = range(first_ms, first_ms + (replay.days + 8) * DAY_MS, replay.hours * HOUR_MS)
        check_each_hour(shop, alert["id"], hours)
        row = judge(shop, rule, condition, alert, replay, first_ms)
        print("\n|", " | ".join([rule.name, f"{len(hours):,}", *row]), "|", file=sys.__stderr__)


def check_each_hour(shop: AlertShop, alert_id: str, hours: range) -> None:
    """Check an alert as each of these times looked."""
    worker, database = shop.services.alert_worker, shop.services.database
    with database.write() as db:
        own = update(alerts).where(alerts.c.id == alert_id)
        db.execute(own.values(checked_from=hours[0], is_paused=True))
    for at_ms in hours:
        with database.read() as db:
            row = db.execute(alerts.select().where(alerts.c.id == alert_id)).one()
        alert = store.alert_of(row._mapping)
        worker.check(alert, at_ms, alert.due_at_ms, as_of=True)


def judge(
    shop: AlertShop, rule: Rule, condition: Json, alert: Json, replay: Replay, first_ms: int
) -> list[str]:
    """Compare the history of an alert with what happened in the end.

    Returns a row of the table: periods judged, periods that alarmed, alarms, contradicted ones,
    planted drops found, and the longest time in hours from decidable to found.
    """
    path = f"/api/alerts/{alert['id']}"
    findings = pages(shop, f"{path}/checks")
    messages = pages(shop, f"{path}/messages")
    contradicted = 0
    for finding in findings:
        start_ms = parse_time(finding["startAt"])
        bounds = bounds_at(shop, rule, condition, start_ms, shop.clock() - 1)
        assert bounds is not None
        assert bounds[0] == bounds[1], "every window is closed in the end"
        is_alarming = finding["verdict"] == "alarming"
        contradicted += holds(rule, finding["figures"], bounds) != is_alarming
    alarming = [each for each in findings if each["verdict"] == "alarming"]
    alarmed = {parse_time(each["startAt"]): each for each in alarming}
    alarms = [each for each in messages if each["kind"] == "alarm"]
    corrections = [each for each in messages if each["kind"] == "correction"]
    assert (contradicted, corrections) == (0, []), rule.name
    assert len({each["figures"]["startAt"] for each in alarms}) == len(alarms)
    planted = [first_ms + day * DAY_MS for day in replay.planted]
    row = [str(len(findings)), str(len(alarming)), str(len(alarms)), str(contradicted)]
    row.append(f"{sum(start_ms in alarmed for start_ms in planted)} of {len(planted)}")
    if not rule.finds_drops:
        return [*row, ""]
    delays = []
    for start_ms in planted:
        until_ms = start_ms + 9 * DAY_MS
        final = bounds_at(shop, rule, condition, start_ms, until_ms)
        assert final is not None
        assert final[1] < (rule.level or 0), f"{iso(start_ms)} is not a drop: {final}"
        decidable_ms = decidable_at(shop, rule, condition, start_ms, until_ms)
        assert start_ms in alarmed, f"{rule.name}: {iso(start_ms)} was not found"
        delays.append((parse_time(alarmed[start_ms]["foundAt"]) - decidable_ms) / HOUR_MS)
    assert max(delays) <= (-120 if rule is SETTLES else 24)
    return [*row, f"{max(delays):g}"]


def pages(shop: AlertShop, path: str) -> list[Json]:
    """All records of a list, the newest first."""
    records: list[Json] = []
    while True:
        page = shop.get(f"{path}?pageSize=100&page={len(records) // 100 + 1}")
        records += page["data"]
        if len(records) >= page["total"]:
            return records
