"""Effects of an open: its event, the visitor's touches, and the audit list."""

from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from penstock.links.attribution.open_events import SAME_OPEN_MS
from tests.answers import body_of, columns_of
from tests.links.attribution.conftest import Phone
from tests.links.conftest import LINKS

COLUMNS = (
    "name, kind, source, link, link_method, utm_source, utm_campaign, os, properties, visitor_id"
)


@pytest.fixture
def link(make_link):
    return make_link(slug="spring", utmSource="mail", utmCampaign="may")


@pytest.fixture
def events(services, app_id):
    def events():
        assert services.shipper.wait_until_shipped(20)
        statement = (
            f"SELECT {COLUMNS} FROM events WHERE website_id = {{site:String}}"  # noqa: S608
            " ORDER BY received_at, event_id"
        )
        names, rows = services.warehouse.query(statement, {"site": app_id})
        return [dict(zip(names, row, strict=True)) for row in rows]

    return events


@pytest.fixture
def touches(client, app_id):
    def touches(visitor_id):
        """Link and campaign of the first and the last touch."""
        record = client.get(
            f"{LINKS}/attribution", params={"websiteId": app_id, "visitorId": visitor_id}
        ).json()
        return [
            record[name] and (record[name]["linkId"], record[name]["utm"]["campaign"])
            for name in ("firstTouch", "lastTouch")
        ]

    return touches


@pytest.fixture
def matches(client):
    def matches(link):
        return client.get(f"{LINKS}/{link['id']}/matches").json()["data"]

    return matches


# Events -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("warehouse")
def test_a_first_open_is_an_install_with_its_link(phone, link, events):
    phone.open(clickToken=phone.tap(link), visitorId="ann", appVersion="2.1")
    assert events() == [
        {
            "name": "install", "kind": "event", "source": "app", "link": "spring",
            "link_method": "click_token", "utm_source": "mail",
            "utm_campaign": "may", "os": "iOS", "visitor_id": "ann",
            "properties": '{"platform":"ios","osVersion":"18.5","appVersion":"2.1"}',
        }
    ]  # fmt: skip


@pytest.mark.usefixtures("warehouse")
def test_organic_installs_and_opens_are_events_without_a_link(android, events, clock):
    android.open()
    clock.advance(1)
    android.open(firstOpen=False)
    assert [(event["name"], event["link"], event["link_method"]) for event in events()] == [
        ("install", "", ""),
        ("open", "", ""),
    ]


@pytest.mark.usefixtures("warehouse")
def test_retries_store_one_event(android, link, events, clock):
    token = android.tap(link)
    for _ in range(3):
        android.open(clickToken=token)
    clock.advance(1)
    for _ in range(3):
        android.open(firstOpen=False, clickToken=token)  # one open per click
    clock.advance(SAME_OPEN_MS - clock() % SAME_OPEN_MS)
    for _ in range(3):
        android.open(firstOpen=False, url=link["hostedUrl"])
    clock.advance(SAME_OPEN_MS - 1)
    android.open(firstOpen=False, url=link["hostedUrl"])
    clock.advance(1)
    android.open(firstOpen=False, url=link["hostedUrl"])
    for key in ("a", "b", "a"):
        clock.advance(SAME_OPEN_MS)
        android.open(firstOpen=False, dedupeKey=key)
    methods = [(event["name"], event["link_method"]) for event in events()]
    assert methods == [
        ("install", "click_token"),
        ("open", "click_token"),
        ("open", "url"),
        ("open", "url"),
        ("open", ""),
        ("open", ""),
    ]


@pytest.mark.usefixtures("warehouse")
def test_an_install_that_matches_a_link_later_adds_an_open(phone, link, events, clock):
    phone.open()
    clock.advance(1)
    token = phone.tap(link)
    for _ in range(2):
        assert phone.open(clickToken=token)["matched"]
    assert columns_of(events(), "name", "link") == [("install", ""), ("open", "spring")]


def test_an_install_is_always_the_same_visitor(phone, make_app, server, link, client):
    first = phone.open()["visitorId"]
    assert phone.open(firstOpen=False)["visitorId"] == first
    assert phone.open(installId="i-2")["visitorId"] != first
    assert Phone(server, make_app()).open()["visitorId"] != first
    identified = client.post(
        "/api/identify", json={"websiteId": phone.app_id, "visitorId": "old", "userId": "u-1"}
    )
    client.post(
        "/api/identify", json={"websiteId": phone.app_id, "visitorId": first, "userId": "u-1"}
    )
    assert identified.status_code == 200
    assert (
        phone.open(firstOpen=False, url=link["hostedUrl"])["visitorId"] == "old"
    )  # the canonical one


@pytest.mark.usefixtures("warehouse")
def test_funnels_filter_and_break_down_by_link_and_campaign(
    client, server, app_id, make_link, clock
):
    numbers = count()
    for slug, campaign, installs, buyers in (("spring", "may", 3, 2), ("summer", "june", 2, 1)):
        link = make_link(slug=slug, utmCampaign=campaign)
        phone = Phone(server, app_id)
        for index in range(installs):
            visitor_id = phone.open(clickToken=phone.tap(link), installId=f"i-{next(numbers)}")[
                "visitorId"
            ]
            clock.advance(1)
            if index < buyers:
                fields = {
                    "websiteId": app_id,
                    "type": "event",
                    "name": "bought",
                    "visitorId": visitor_id,
                }
                assert client.post("/api/track", json=fields).status_code == 202
    phone.open(installId="organic")

    def cohorts(*properties, filters=()):
        steps = [
            {"type": "Event", "value": "install", "filters": list(filters)},
            {"type": "Event", "value": "bought"},
        ]
        body = {"name": "Installs", "steps": steps, "breakdownProperties": list(properties)}
        report = body_of(client.post("/api/funnels/preview", json=body))
        return report["aggregate"]["entered"], [
            (tuple(cohort["cohort"].values()), cohort["entered"], cohort["completed"])
            for cohort in report["cohorts"]["data"]
        ]

    linked = [{"property": "$link", "operator": "is_set"}]
    assert cohorts("$utm_campaign", "$link", filters=linked) == (
        5,
        [(("may", "spring"), 3, 2), (("june", "summer"), 2, 1)],
    )
    assert cohorts(filters=[{"property": "$link", "operator": "equals", "value": "summer"}])[0] == 2
    assert cohorts("$link_method") == (6, [(("click_token",), 5, 3), ((None,), 1, 0)])
    seen = client.get(
        "/api/schema/values", params={"websiteId": app_id, "property": "$link"}
    ).json()["data"]
    assert [(value["value"], value["count"]) for value in seen] == [("spring", 3), ("summer", 2)]


# Touches ------------------------------------------------------------------------------------------


def test_the_first_touch_stays_and_the_last_touch_changes(phone, link, make_link, touches, clock):
    second, third = make_link(utmCampaign="june"), make_link()
    assert touches("ann") == [None, None]
    phone.open(visitorId="ann", clickToken=phone.tap(link))
    assert touches("ann") == [(link["id"], "may"), (link["id"], "may")]
    for other, campaign in ((second, "june"), (third, None)):
        clock.advance(1000)
        phone.open(visitorId="ann", firstOpen=False, url=other["hostedUrl"])
        assert touches("ann") == [(link["id"], "may"), (other["id"], campaign)]
    phone.open(visitorId="ann", firstOpen=False)  # no evidence, no touch
    phone.open(visitorId="ann")  # a retry of the first open adds no touch
    assert touches("ann") == [(link["id"], "may"), (third["id"], None)]


@pytest.mark.parametrize("merged", ["old", "new"])
@pytest.mark.every_database
def test_a_merge_keeps_the_earliest_first_and_the_latest_last_touch(
    phone, client, make_link, touches, clock, app_id, merged
):
    links = [make_link(utmCampaign=campaign) for campaign in ("a", "b", "c")]
    for visitor_id, link in zip(("old", "new", "old"), links, strict=True):
        clock.advance(1000)
        phone.open(visitorId=visitor_id, firstOpen=False, url=link["hostedUrl"])
    for visitor_id in (merged, "old", "new"):
        identify = {"websiteId": app_id, "visitorId": visitor_id, "userId": "u-1"}
        assert client.post("/api/identify", json=identify).status_code == 200
    for visitor_id in ("old", "new"):
        assert touches(visitor_id) == [(links[0]["id"], "a"), (links[2]["id"], "c")]


@pytest.mark.every_database
def test_a_deletion_removes_touches_and_unlinks_opens(
    phone, client, link, touches, matches, app_id, clock
):
    token = phone.tap(link)
    phone.open(visitorId="ann", clickToken=token)
    clock.advance(1000)
    answer = client.post("/api/deletions", json={"websiteId": app_id, "visitorId": "ann"})
    assert answer.status_code == 201
    assert touches("ann") == [None, None]
    [match] = matches(link)
    assert (match["matched"], match["visitorId"], match["installId"]) == (True, None, None)
    clock.advance(1000)
    assert phone.outcome(visitorId="ann", clickToken=token) == (
        "click_token",
        "claimed",
    )  # the click stays claimed


# Audit list ---------------------------------------------------------------------------------------


def test_each_open_is_listed_at_its_link(android, link, matches, client, clock):
    token = android.tap(link)
    android.open(clickToken=token, visitorId="ann", appVersion="2.1")
    clock.advance(1000)
    android.open(clickToken=token, installId="i-2")
    newest, first = matches(link)
    assert first == {
        "id": first["id"], "at": first["at"], "websiteId": link["websiteId"],
        "link": {"id": link["id"], "slug": "spring"}, "matched": True,
        "method": "click_token", "confidence": 1.0, "reason": None, "platform": "android",
        "osVersion": "15", "appVersion": "2.1",
        "firstOpen": True, "clickedAt": first["clickedAt"], "installId": "i-1", "visitorId": "ann",
    }  # fmt: skip
    assert first["clickedAt"] == newest["clickedAt"]
    assert (newest["matched"], newest["reason"], newest["confidence"], newest["installId"]) == (
        False,
        "claimed",
        None,
        "i-2",
    )
    assert newest["at"] > first["at"]


@pytest.mark.parametrize("evidence", ["url", "clickToken", "installReferrer", None])
def test_a_retried_first_open_is_listed_once(android, link, client, clock, evidence):
    fields = {
        "url": {"url": link["hostedUrl"]},
        "clickToken": {"clickToken": android.tap(link)},
        "installReferrer": {"installReferrer": f"ct={android.tap(link)}"},
        None: {"osVersion": "3"},
    }[evidence]
    for _ in range(3):
        android.open(**fields)
        clock.advance(1000)
    listed = client.get(f"{LINKS}/matches").json()
    assert (listed["total"], listed["data"][0]["matched"]) == (1, evidence is not None)


@pytest.mark.every_database
def test_concurrent_retries_of_a_first_open_are_listed_once(android, link, client):
    with ThreadPoolExecutor(10) as pool:
        records = list(pool.map(lambda _: android.open(url=link["hostedUrl"]), range(20)))
    assert all(record["matched"] for record in records)
    assert client.get(f"{LINKS}/matches").json()["total"] == 1


def test_a_first_open_with_a_new_outcome_is_listed_again(phone, link, client, clock):
    phone.open()
    clock.advance(1000)
    phone.open(clickToken=phone.tap(link))
    clock.advance(1000)
    phone.open(installId="i-2")
    listed = client.get(f"{LINKS}/matches").json()["data"]
    assert [(match["installId"], match["reason"]) for match in listed] == [
        ("i-2", "not_allowed"),
        ("i-1", None),
        ("i-1", "not_allowed"),
    ]


def test_an_ambiguous_open_is_listed_at_each_link(android, link, make_link, matches):
    other = make_link()
    android.tap(link)
    android.tap(other)
    android.open()
    assert [match["reason"] for match in matches(link) + matches(other)] == [
        "ambiguous",
        "ambiguous",
    ]


def test_refused_opens_are_listed_at_the_link_and_organic_opens_at_the_app(
    client, android, link, matches, clock, app_id
):
    token = android.tap(link)
    clock.advance(86_400_000)
    android.open(clickToken=token)
    client.patch(LINKS, json={"id": link["id"], "isActive": False})
    clock.advance(1000)
    android.open(installId="i-2", url=link["hostedUrl"])
    clock.advance(1000)
    android.open(installId="i-3")
    android.open(installId="i-3", firstOpen=False)  # without evidence it is not listed
    assert [match["reason"] for match in matches(link)] == ["disabled", "expired"]
    listed = client.get(f"{LINKS}/matches", params={"websiteId": app_id, "pageSize": 2}).json()
    assert [(match["reason"], match["link"]) for match in listed["data"]] == [
        ("no_click", None), ("disabled", {"id": link["id"], "slug": "spring"})
    ]  # fmt: skip
    assert listed["total"] == 3


@pytest.mark.every_database
def test_matches_are_deleted_after_ninety_days(services, phone, link, matches, clock):
    phone.open(url=link["hostedUrl"])
    clock.advance(90 * 86_400_000)
    services.attribution.delete_expired()
    assert len(matches(link)) == 1
    clock.advance(1)
    services.attribution.delete_expired()
    assert matches(link) == []


def test_matches_and_touches_belong_to_their_workspace(
    other_workspace, client, phone, link, app_id
):
    phone.open(url=link["hostedUrl"], visitorId="ann")
    theirs = other_workspace.client
    assert theirs.get(f"{LINKS}/{link['id']}/matches").status_code == 404
    assert theirs.get(f"{LINKS}/matches").json()["total"] == 0
    assert client.get(f"{LINKS}/matches").json()["total"] == 1
    for route in ("matches", "attribution"):
        answer = theirs.get(f"{LINKS}/{route}", params={"websiteId": app_id, "visitorId": "ann"})
        assert answer.status_code in (400, 401)
