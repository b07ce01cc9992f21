"""What is kept of the opening of a link, and that it is kept."""

import json
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from litestar.testing import TestClient
from sqlalchemy import select

from penstock.app import build_app
from penstock.links.agents import IN_APP, PREVIEWS, agent_of
from penstock.metadb.tables import spool_files
from tests.links import agents
from tests.links.conftest import LINKS
from tests.links.test_public_side import OPEN, WEB, Page
from tests.serving import Served
from tests.tenant import BASE_URL

SAFARI, CHROME, EDGE = agents.IOS["safari"], agents.ANDROID["chrome"], agents.DESKTOP["edge"]


def test_a_click_is_kept_with_what_is_known_of_it(clock, make_link, open_link, clicks, app_id):
    link = make_link(utmSource="mail", utmMedium="", utmCampaign="früh")
    page = open_link(
        f"{link['slug']}?utm_source=evil&lk=other", Referer="https://News.example.com:8443/a?b", Accept_Language="pt-BR,en;q=0.5"
    ).text
    [click] = clicks(link, 1)
    token = parse_qs(urlsplit(Page(page).links["Abrir o aplicativo"]).query)["ct"][0]
    assert abs(click.pop("clicked_at").timestamp() * 1000 - clock()) < 60_000
    assert click.pop("click_id").startswith("clk_")
    assert click == {
        "website_id": app_id, "link_id": link["id"], "answer": "page", "bot": False, "bot_reason": "",
        "first_of_day": True, "platform": "ios",
        "os_major": 18, "in_app": "", "referrer_host": "news.example.com", "language": "pt", "country": "",
        "qr": False, "utm_source": "mail", "utm_medium": "",
        "utm_campaign": "früh", "token_hash": sha256(token.encode()).hexdigest(),
    }  # fmt: skip


def test_neither_address_nor_user_agent_nor_token_is_at_rest(make_link, open_link, clicks, tmp_path):
    link = make_link(fallbackUrl=WEB)
    marked = (
        "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 Version/18.5 Mobile/15E148 Safari/604.1 marked-agent"
    )
    token = parse_qs(urlsplit(Page(open_link(link["slug"], marked, X_Forwarded_For="203.0.113.77").text).links[OPEN]).query)["ct"][0]
    [click] = clicks(link, 1)
    kept = json.dumps(click, default=str) + "".join(str(path.read_bytes()) for path in tmp_path.rglob("*") if path.is_file())
    for secret in ("marked-agent", "203.0.113.77", "testclient", token):
        assert secret not in kept


def test_the_utm_of_a_click_is_that_of_the_link_alone(make_link, open_link, clicks):
    link = make_link(fallbackUrl=WEB)
    open_link(f"{link['slug']}?utm_source=evil&utm_campaign=evil", EDGE)
    [click] = clicks(link, 1)
    assert (click["utm_source"], click["utm_campaign"], click["answer"], click["token_hash"]) == ("", "", "redirect", "")


def test_robots_and_heads_and_prefetches_are_hits_but_no_clicks(make_link, open_link, clicks):
    link = make_link(fallbackUrl=WEB)
    slug = link["slug"]
    open_link(slug, "WhatsApp/2.25.14.75 i")
    open_link(slug, agents.DESKTOP["edge"], method="HEAD")
    assert open_link(slug, EDGE, Sec_Purpose="prefetch;prerender").status_code == 302
    open_link(slug, SAFARI, X_Purpose="x", Purpose="prefetch")
    open_link(slug, EDGE)
    kept = [(click["answer"], click["bot"], click["bot_reason"], click["first_of_day"], click["token_hash"]) for click in clicks(link, 5)]
    assert sorted(kept) == sorted(
        [
            ("preview", True, "preview:whatsapp", False, ""),
            ("preview", True, "head", False, ""),
            ("redirect", True, "prefetch", False, ""),
            ("page", True, "prefetch", False, ""),
            ("redirect", False, "", True, ""),
        ]
    )


def test_a_browser_is_first_once_a_day_and_link(clock, make_link, open_link, clicks):
    one, two = make_link(), make_link()
    clock.advance(seconds=86_400 - clock() % 86_400_000 / 1000)  # midnight (UTC)
    for user_agent in (SAFARI, SAFARI, CHROME, SAFARI):
        open_link(one["slug"], user_agent)
        clock.advance(seconds=1)
    open_link(two["slug"])
    clock.advance(days=1)
    open_link(one["slug"])
    assert [click["first_of_day"] for click in clicks(one, 5)] == [True, False, True, False, True]
    assert [click["first_of_day"] for click in clicks(two, 1)] == [True]


def test_what_leads_nowhere_is_not_kept(client, make_link, open_link, clicks):
    link = make_link()
    client.patch(LINKS, json={"id": link["id"], "isActive": False})
    assert open_link(link["slug"]).status_code == 404
    client.patch(LINKS, json={"id": link["id"], "isActive": True})
    open_link(link["slug"])
    clicks(link, 1)


@pytest.mark.parametrize(
    ("referrer", "host"),
    [
        ("", ""), ("https://a.example/x", "a.example"), ("android-app://com.google.android.gm/", "com.google.android.gm"), ("a", ""),
        ("https://[", ""),
        ("https://ann:pw@a.example/", "a.example"), ("https://" + "a" * 300 + "/", ""), ("https://ä.example/", ""), ("//a.example",
        "a.example"),
    ],
)  # fmt: skip
def test_of_a_referrer_the_host_is_kept(make_link, open_link, clicks, referrer, host):
    link = make_link()
    open_link(link["slug"], Referer=referrer.encode())
    assert clicks(link, 1)[0]["referrer_host"] == host


# Agents ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("platform", "known"), [("ios", agents.IOS), ("android", agents.ANDROID), ("mobile", agents.OTHER_MOBILE), ("desktop", agents.DESKTOP)]
)
def test_platforms_are_told(platform, known):
    for user_agent in known.values():
        agent = agent_of(user_agent)
        assert (agent.platform, agent.in_app, agent.robot) == (platform, "", ""), user_agent


@pytest.mark.parametrize(("platform", "known"), [("ios", agents.IN_APP_IOS), ("android", agents.IN_APP_ANDROID)])
def test_in_app_browsers_are_told(platform, known):
    for name, user_agent in known.items():
        agent = agent_of(user_agent)
        assert (agent.platform, agent.in_app, agent.robot) == (platform, name, ""), user_agent


@pytest.mark.parametrize(("user_agent", "reason"), agents.ROBOTS.items(), ids=lambda text: text[:30])
def test_robots_are_told_with_the_reason(user_agent, reason):
    assert (agent_of(user_agent).robot, agent_of(user_agent).in_app) == (reason, "")


@pytest.mark.parametrize(
    ("user_agent", "os_major"),
    [
        (agents.IOS["safari"], 18), (agents.IOS["safari_26"], 26), (agents.IOS["chrome"], 18), (agents.IOS["ipad_mobile_site"], 16),
        (agents.ANDROID["samsung"], 15), (agents.ANDROID["chrome"], 0), (agents.IN_APP_ANDROID["facebook"], 14),
        (agents.DESKTOP["edge"], 0),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 99999_5 like Mac OS X) AppleWebKit/605.1.15", 0),
    ],
)  # fmt: skip
def test_the_system_is_told_as_far_as_it_can_be_trusted(user_agent, os_major):
    assert agent_of(user_agent).os_major == os_major


def test_previews_and_in_app_browsers_are_documented():
    page = (Path(__file__).parents[2] / "docs" / "links.md").read_text("utf-8")
    for table in (PREVIEWS, IN_APP):
        listed = ", ".join(f"`{name}`" for name in table)
        assert listed in page.replace("\n", " "), listed


# The way to the warehouse -----------------------------------------------------------------------------------------------


def test_clicks_wait_in_files_while_the_database_is_away_and_are_carried_once(services, make_link, open_link, clicks):
    link = make_link(fallbackUrl=WEB)
    spool = services.clicks
    with services.database.write():  # SQLite has one writer: nothing is committed meanwhile
        for _ in range(20):
            assert open_link(link["slug"], EDGE).status_code == 302
        time.sleep(0.2)
    clicks(link, 20)
    assert not list(spool._folder.iterdir())


def test_a_file_that_was_carried_before_a_crash_is_not_carried_again(services, warehouse):
    spool = services.clicks
    spool._folder.mkdir(parents=True)
    spool.add(b'{"link_id": "lnk_crash", "website_id": "w", "click_id": "1"}')
    spool._folder.joinpath("spl_torn").write_bytes(b'\n{"link_id": "lnk_crash", "website_id": "w", "click_id": "2"}\n{"link_id": "lnk_cr')
    last = spool._folder / "spl_torn"
    content = last.read_bytes()
    spool.carry()
    assert not list(spool._folder.iterdir())
    last.write_bytes(content)  # as if the process had ended before it removed it
    with TestClient(build_app(services), base_url=BASE_URL):  # the next start
        time.sleep(0.3)
    assert not list(spool._folder.iterdir())
    services.shipper.ship()
    rows = warehouse.query("SELECT click_id FROM clicks WHERE link_id = 'lnk_crash' ORDER BY click_id")[1]
    assert [row[0] for row in rows] == ["1", "2"]


def test_rows_that_come_while_others_are_carried_are_all_there_once(services, warehouse):
    spool, threads, rows_each = services.clicks, 4, 2_000

    def add(number):
        for row in range(rows_each):
            spool.add(b'{"link_id": "lnk_crowd", "website_id": "w", "click_id": "%d-%d"}' % (number, row))

    adding = [Thread(target=add, args=(number,)) for number in range(threads)]
    spool._folder.mkdir(parents=True)
    for thread in adding:
        thread.start()
    while any(thread.is_alive() for thread in adding):
        spool.carry()
    spool.carry()
    services.shipper.ship()
    counts = warehouse.query("SELECT count(), uniqExact(click_id) FROM clicks WHERE link_id = 'lnk_crowd'")[1]
    assert [tuple(row) for row in counts] == [(threads * rows_each, threads * rows_each)]


def test_names_of_files_that_are_gone_are_forgotten(services, make_link, open_link, clicks):
    link = make_link()
    for number in range(1, 4):
        open_link(link["slug"])
        clicks(link, number)
    with services.database.read() as db:
        assert len(db.execute(select(spool_files)).all()) == 1


READ_CLICKS = """
import json, sys
from pathlib import Path
from threading import Thread
from penstock.warehouse.client import Warehouse
warehouse = Warehouse(data=Path(sys.argv[1]), url=None)
print(json.dumps([row[0] for row in warehouse.query("SELECT referrer_host FROM clicks")[1]]))
warehouse.close()
"""


@pytest.mark.slow
def test_every_redirect_that_was_answered_is_a_click_exactly_once_after_kills(tmp_path):
    data, answered = tmp_path / "data", []
    served = Served(data)
    try:
        served.first_account()
        app = served.client.post("/api/settings/websites", json={"name": "App", "kind": "mobile"}).json()["id"]
        link = {"websiteId": app, "name": "a", "slug": "a", "destinationPath": "/", "fallbackUrl": WEB}
        assert served.client.post(LINKS, json=link).status_code == 201
        for _ in range(3):
            with httpx.Client(base_url=served.url, headers={"User-Agent": EDGE}) as browser:
                for number in range(60):
                    host = f"r{len(answered)}.example"
                    assert browser.get("/l/a", headers={"Referer": f"https://{host}/"}).status_code == 302
                    answered.append(host)
                    time.sleep(0.005 * (number % 2))
            served.kill()
            served = Served(data)
        time.sleep(1)
        assert served.stop() == 0
    finally:
        served.kill()
    told = subprocess.run([sys.executable, "-c", READ_CLICKS, str(data)], check=True, capture_output=True, text=True).stdout
    assert sorted(json.loads(told)) == sorted(answered)
