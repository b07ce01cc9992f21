"""Matching an app's open: each method, its window, and each reason for no match."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select

from penstock.links.attribution import store
from penstock.links.attribution.service import RESOLVES_PER_MINUTE
from penstock.metadb.tables import link_clicks, match_keys
from penstock.settings import Settings
from tests import user_agents
from tests.answers import problem
from tests.cases import cases
from tests.links.attribution.conftest import OTHER_NETWORK, Phone
from tests.links.conftest import APP, LINKS
from tests.tenant import BASE_URL

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
NOTHING = (None, "no_click")


@pytest.fixture
def link(make_link):
    return make_link(slug="spring", utmSource="mail", utmMedium="email", utmCampaign="früh")


def set_active(client, link, is_active):
    assert client.patch(LINKS, json={"id": link["id"], "isActive": is_active}).status_code == 200


def stored_rows(services, table):
    with services.database.read() as db:
        return [row._mapping for row in db.execute(select(table))]


# The four methods ---------------------------------------------------------------------------------


def test_a_click_token_matches_with_the_whole_record(phone, link, clock):
    clicked_ms = clock()
    token = phone.tap(link)
    clock.advance(90_000)
    record = phone.open(clickToken=token, visitorId="ann")
    assert record == {
        "matched": True, "method": "click_token", "confidence": 1.0, "destinationPath": "/offers/1",
        "link": {"id": link["id"], "slug": "spring"},
        "utm": {"source": "mail", "medium": "email", "campaign": "früh"},
        "clickedAt": record["clickedAt"], "visitorId": "ann", "reason": None,
    }  # fmt: skip
    assert record["clickedAt"].endswith(f".{clicked_ms % 1000:03d}Z")


@pytest.mark.parametrize(
    "referrer", ["ct={}&utm_source=evil", "utm_source=evil&ct={}", "ct%3D{}%26utm_source%3Devil"]
)
def test_the_install_referrer_matches(android, link, referrer):
    record = android.open(installReferrer=referrer.format(android.tap(link)))
    assert (record["method"], record["confidence"], record["utm"]["source"]) == (
        "install_referrer",
        1.0,
        "mail",
    )


@pytest.mark.parametrize(
    "url",
    [
        BASE_URL + "/l/spring", BASE_URL + "/l/spring?utm_source=evil#x", "{hosted}",
        "acmeshop:///offers/1?lk={id}",
        "https://links.example/x?lk={id}&utm_campaign=evil", "HTTP://TESTSERVER.LOCAL/l/spring",
        BASE_URL + "/L/Spring%20", BASE_URL + "/l/spring).",
    ],
)  # fmt: skip
@pytest.mark.parametrize("first_open", [True, False])
def test_an_opened_url_matches_the_stored_link(phone, link, clock, url, first_open):
    clock.advance(400 * DAY)  # a URL matches forever
    record = phone.open(
        url=url.replace("{hosted}", link["hostedUrl"]).replace("{id}", link["id"]),
        firstOpen=first_open,
    )
    assert (record["matched"], record["method"], record["confidence"], record["clickedAt"]) == (
        True,
        "url",
        1.0,
        None,
    )
    assert record["utm"] == {"source": "mail", "medium": "email", "campaign": "früh"}


def test_an_opened_url_with_a_token_claims_the_click(phone, link):
    url = f"acmeshop:///offers/1?lk={link['id']}&ct={phone.tap(link)}"
    assert phone.open(url=url)["clickedAt"] is not None
    assert phone.outcome(url=url, installId="i-2") == ("url", "claimed")


def test_the_network_matches_the_only_click_of_the_same_os(android, link, server, app_id):
    android.tap(link)
    record = android.open()
    assert (record["matched"], record["method"], record["confidence"]) == (True, "network", 0.7)
    other = Phone(
        server,
        app_id,
        "android",
        user_agent=user_agents.ANDROID["chrome"],
        address="2001:db8:1:2:3::4",
    )
    other.tap(link)  # Chrome never sends its OS version
    same_network = Phone(server, app_id, "android", address="2001:db8:1:2:ffff::1")
    assert same_network.open(installId="i-2")["confidence"] == 0.5


def test_the_most_certain_method_wins(android, link, make_link):
    other = make_link()
    token, referred = android.tap(link), android.tap(other)
    record = android.open(
        url=f"{BASE_URL}/l/spring", installReferrer=f"ct={referred}", clickToken=token
    )
    assert (record["method"], record["link"]["slug"]) == ("url", "spring")
    record = android.open(installReferrer=f"ct={referred}", clickToken=token, installId="i-2")
    assert (record["method"], record["link"]["slug"]) == ("install_referrer", other["slug"])


def test_evidence_without_a_link_is_skipped(android, link):
    token = android.tap(link)
    record = android.open(
        url="acmeshop:///home",
        installReferrer="utm_source=google-play&utm_medium=organic",
        clickToken=token,
    )
    assert record["method"] == "click_token"


# Reasons ------------------------------------------------------------------------------------------


def test_an_organic_install_has_no_click(phone, android, link):
    assert android.outcome() == NOTHING
    assert phone.outcome(installId="i-2") == (None, "not_allowed")  # on iOS it is off by default
    assert phone.outcome(installId="i-3", clickToken="unknown") == NOTHING
    record = android.open(firstOpen=False)
    assert [record[name] for name in ("matched", "method", "confidence", "destinationPath", "link",
    "utm", "clickedAt", "reason")] == [
        False, None, None, None, None, None, None, "no_click"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "referrer",
    [
        "utm_source=google-play&utm_medium=organic",
        "utm_source%3Dgoogle-play%26utm_medium%3Dorganic",
    ],
)
def test_an_install_that_the_store_calls_organic_is_not_matched_by_network(android, link, referrer):
    android.tap(link)
    assert android.outcome(installReferrer=referrer, installId="i-2") == NOTHING
    assert android.outcome(installId="i-3")[0] == "network"


def test_matching_by_network_is_a_setting_of_the_app(client, phone, android, app_id, link):
    settings = client.get(f"/api/settings/websites/{app_id}").json()
    assert (settings["iosProbabilisticMatching"], settings["androidProbabilisticMatching"]) == (
        False,
        True,
    )
    phone.tap(link)
    changed = client.patch(
        f"/api/settings/websites/{app_id}",
        json={"iosProbabilisticMatching": True, "androidProbabilisticMatching": False},
    ).json()
    assert (changed["iosProbabilisticMatching"], changed["androidProbabilisticMatching"]) == (
        True,
        False,
    )
    assert phone.outcome() == ("network", None)
    android.tap(link)
    assert android.outcome(installId="i-2") == (None, "not_allowed")


@pytest.mark.parametrize("fields", [{"firstOpen": False}, {"osVersion": "14"}, {"platform": "ios"}])
def test_the_network_alone_does_not_match(android, link, client, app_id, fields):
    client.patch(f"/api/settings/websites/{app_id}", json={"iosProbabilisticMatching": True})
    android.tap(link)
    assert android.outcome(**fields) == NOTHING


def test_another_network_does_not_match(server, app_id, android, link):
    android.tap(link)
    assert Phone(server, app_id, "android", OTHER_NETWORK).outcome() == NOTHING


@pytest.mark.every_database
def test_two_candidates_are_ambiguous_until_one_is_claimed(android, link, make_link):
    android.tap(link)
    token = android.tap(make_link())
    assert android.outcome() == ("network", "ambiguous")
    assert android.outcome(installId="i-2", clickToken=token) == ("click_token", None)
    assert android.outcome() == ("network", None)
    assert android.outcome(installId="i-3") == ("network", "claimed")


def test_a_link_disabled_between_click_and_open_does_not_match(client, android, link):
    token = android.tap(link)
    set_active(client, link, False)
    for number, fields in enumerate(
        [{"clickToken": token}, {"installReferrer": f"ct={token}"}, {"url": link["hostedUrl"]}, {}]
    ):
        assert android.outcome(installId=f"i-{number}", **fields)[1] == "disabled"
    set_active(client, link, True)
    assert android.outcome(clickToken=token) == ("click_token", None)
    set_active(client, link, False)
    assert android.outcome(clickToken=token) == (
        "click_token",
        None,
    )  # a claimed click stays claimed


@pytest.mark.parametrize(
    ("field", "template", "window_ms", "afterwards"),
    [
        ("clickToken", "{}", DAY, ("click_token", "expired")),
        ("installReferrer", "ct={}", 7 * DAY, ("install_referrer", "expired")),
        (None, "", HOUR, NOTHING),
    ],
)
def test_windows_end_with_their_last_millisecond(
    services, clock, android, link, field, template, window_ms, afterwards
):
    def outcome_of(install_id, token):
        return android.outcome(
            installId=install_id, **({field: template.format(token)} if field else {})
        )

    first = android.tap(link)
    clock.advance(window_ms)
    services.attribution.delete_expired()
    assert outcome_of("late", first) == afterwards
    second = android.tap(link)
    clock.advance(window_ms - 1)
    services.attribution.delete_expired()
    assert outcome_of("in time", second)[1] is None


def test_what_is_over_is_deleted_some_at_a_time(services, clock, android, link, monkeypatch):
    """All other writes wait for each of these transactions."""
    transactions = []
    write = services.database.write
    for _ in range(5):
        android.tap(link)
    android.outcome()  # stores the clicks first
    with services.database.read() as db:
        assert len(db.execute(select(link_clicks)).all()) == 5
    clock.advance(40 * DAY)
    monkeypatch.setattr(store, "_CLEAN_UP_ROWS", 2)
    monkeypatch.setattr(services.database, "write", lambda: transactions.append(1) or write())
    services.attribution.delete_expired()
    assert len(transactions) > 6
    with services.database.read() as db:
        assert db.execute(select(link_clicks)).all() == []


def test_the_referrer_window_is_a_setting(settings):
    assert settings.install_referrer_days == 7
    assert Settings(install_referrer_days=30).install_referrer_days == 30
    with pytest.raises(ValueError, match="30"):
        Settings(install_referrer_days=31)


# Claims -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_token", [True, False])
@pytest.mark.every_database
def test_a_hundred_concurrent_opens_claim_a_click_once(android, link, by_token):
    token = android.tap(link)
    fields = {"clickToken": token} if by_token else {}
    with ThreadPoolExecutor(20) as pool:
        records = list(
            pool.map(lambda number: android.open(installId=f"i-{number}", **fields), range(100))
        )
    assert sorted(str(record["reason"]) for record in records) == ["None"] + ["claimed"] * 99


@pytest.mark.parametrize("fields", [{"clickToken": "{}"}, {"installReferrer": "ct={}"}, {}])
def test_a_retry_gets_the_same_answer(services, clock, android, link, make_link, fields):
    fields = {name: template.format(android.tap(link)) for name, template in fields.items()} or (
        android.tap(link) and {}
    )
    first = android.open(**fields)
    assert first["matched"]
    assert android.open(**fields) == first
    android.tap(make_link())
    clock.advance(40 * DAY)
    services.attribution.delete_expired()
    assert android.open() == first  # the click is deleted, the answer stays


def test_a_retry_with_evidence_can_still_match(phone, link):
    assert phone.outcome() == (None, "not_allowed")
    assert phone.outcome(clickToken=phone.tap(link)) == ("click_token", None)


# Retention ----------------------------------------------------------------------------------------


@pytest.mark.every_database
def test_match_keys_are_deleted_after_an_hour_and_clicks_after_the_longest_window(
    services, clock, android, link, tmp_path
):
    token = android.tap(link)
    android.open(clickToken=token)
    [click] = stored_rows(services, link_clicks)
    assert (
        click["claimed_by"],
        click["claim_method"],
        click["os_major"],
        click["utm_campaign"],
    ) == ("i-1", "click_token", 15, "früh")
    assert click["match_key"] is not None
    clock.advance(2 * HOUR)
    services.attribution.delete_expired()
    [click] = stored_rows(services, link_clicks)
    assert click["match_key"] is None
    assert stored_rows(services, match_keys) == []
    clock.advance(8 * DAY)
    services.attribution.delete_expired()
    assert stored_rows(services, link_clicks) == []


def test_clicks_that_no_app_can_claim_are_not_stored(services, server, app_id, phone, link):
    for user_agent in (
        user_agents.DESKTOP["edge"],
        "WhatsApp/2.25.14.75 i",
        user_agents.OTHER_MOBILE["kaios"],
    ):
        Phone(server, app_id, user_agent=user_agent).tap(link)
    phone.http.head(f"/l/{link['slug']}")
    phone.open()
    assert stored_rows(services, link_clicks) == []


@pytest.mark.usefixtures("warehouse")
def test_match_keys_never_reach_the_warehouse(services, android, link):
    android.tap(link)
    android.open()
    assert services.shipper.wait_until_shipped(20)
    [row] = services.warehouse.query(
        "SELECT * FROM clicks WHERE link_id = {link:String}", {"link": link["id"]}
    )[1]
    [click] = stored_rows(services, link_clicks)
    assert click["match_key"].hex() not in str(row)
    assert "203.0.113.7" not in str(click) + str(row)


# Rejected requests --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "faults"),
    [
        ({"websiteId": "web_unknown"}, [("websiteId", "unknown_website")]),
        ({"installId": ""}, [("installId", "too_short")]),
        ({"installId": "x" * 201}, [("installId", "too_long")]),
        ({"installId": "00000000-0000-0000-0000-000000000000"},
        [("installId", "stands_for_nobody")]),
        ({"platform": "desktop"}, [("platform", "not_one_of")]),
        (
            {"firstOpen": "yes", "platform": 1, "color": "red"},
            [("platform", "not_one_of"), ("firstOpen", "wrong_type"), ("color", "unknown_field")],
        ),
        (
            {"url": "a" * 9000, "clickToken": "a\0b", "osVersion": "1" * 201},
            [("osVersion", "too_long"), ("url", "too_long"), ("clickToken", "nul_character")],
        ),
        ({"visitorId": 5.5, "installReferrer": []},
        [("visitorId", "wrong_type"), ("installReferrer", "wrong_type")]),
    ],
)  # fmt: skip
def test_every_fault_of_a_body_is_reported(phone, fields, faults):
    refused = phone.post_open(**fields)
    assert refused.status_code == 422
    assert refused.headers["content-type"] == "application/problem+json"
    assert sorted((fault["field"], fault["code"]) for fault in refused.json()["errors"]) == sorted(
        faults
    )
    assert "<" not in refused.text, "no value as Python writes it"


def test_bodies_that_are_not_json_too_large_or_not_for_an_app(phone, client, workspace):
    def code(**fields):
        answer = phone.http.post(f"{LINKS}/resolve", **fields)
        return problem(answer)

    assert code(content=b"{", headers={"Content-Type": "application/json"}) == (400, "not_json")
    assert code(content=b"{}", headers={"Content-Type": "text/html"})[0] == 415
    assert code(content=b" " * 70_000, headers={"Content-Type": "application/json"})[0] == 413
    answer = phone.post_open(websiteId=workspace.website_id)
    assert answer.json()["errors"][0]["code"] == "unknown_website"  # of kind web


@pytest.mark.every_database
@cases(
    "hostile",
    [
        "%",
        "ct",
        "&&&=",
        "ct=%00",
        "lk=" + "x" * 5000,
        "https://[",
        "http://:99999/l/spring",
        "ct=" + "&ct=" * 200,
        "\u2028💥",
        "';--",
    ],
)
def test_hostile_values_match_nothing(phone, link, hostile):
    record = phone.open(
        url=hostile, installReferrer=hostile, clickToken=hostile, installId=hostile[:20]
    )
    assert (record["matched"], record["reason"]) == (False, "no_click")


@pytest.mark.parametrize(
    "url",
    [
        "http://evil.example/l/spring",
        "acmeshop:///l/spring",
        BASE_URL + "/l/spring/x",
        BASE_URL + ".evil/l/spring",
    ],
)
def test_only_urls_of_the_own_host_match_by_slug(phone, link, url):
    assert phone.outcome(url=url) == NOTHING


def test_links_of_other_apps_are_unknown(android, make_app, server, link):
    other = Phone(server, make_app(**APP), "android")
    token = android.tap(link)
    for fields in (
        {"url": link["hostedUrl"]},
        {"clickToken": token},
        {"installReferrer": f"ct={token}"},
        {},
    ):
        assert other.outcome(**fields) == NOTHING


def test_opens_from_one_network_are_rate_limited(phone, server, app_id, services):
    quota = RESOLVES_PER_MINUTE
    for _ in range(quota - 1):
        services.attribution._attempts.count(("203.0.113.7/32",))
    assert phone.post_open().status_code == 200
    refused = phone.post_open()
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "60"
    assert refused.headers["ratelimit-policy"] == f'"resolve";q={quota};w=60'
    assert refused.headers["ratelimit"] == '"resolve";r=0;t=60'
    assert Phone(server, app_id, address=OTHER_NETWORK).post_open().status_code == 200


def test_web_views_may_send_opens(phone):
    assert phone.post_open().headers["access-control-allow-origin"] == "*"
    assert phone.http.options(f"{LINKS}/resolve").status_code == 204
