"""What a click records, and its way to the warehouse."""

import json
import time
from hashlib import sha256
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from litestar.testing import TestClient
from sqlalchemy import select

from penstock.links.redirect import service
from penstock.metadb.tables import click_buffer_files
from tests import user_agents
from tests.answers import columns_of
from tests.applications import application
from tests.cases import cases
from tests.links.conftest import LINKS
from tests.links.redirect.test_redirect import OPEN, WEB, Page
from tests.records import new_website
from tests.serving import Served, query_warehouse
from tests.tenant import BASE_URL
from tests.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.usefixtures("warehouse")

SAFARI, CHROME, EDGE = (
    user_agents.IOS["safari"],
    user_agents.ANDROID["chrome"],
    user_agents.DESKTOP["edge"],
)


def test_a_click_is_stored_with_all_its_columns(clock, make_link, open_link, clicks, app_id):
    link = make_link(utmSource="mail", utmMedium="", utmCampaign="früh")
    page = open_link(
        f"{link['slug']}?utm_source=evil&lk=other",
        Referer="https://News.example.com:8443/a?b",
        Accept_Language="pt-BR,en;q=0.5",
    ).text
    [click] = clicks(link, 1)
    token = parse_qs(urlsplit(Page(page).links["Abrir o aplicativo"]).query)["ct"][0]
    assert abs(click.pop("clicked_at").timestamp() * 1000 - clock()) < 60_000
    assert click.pop("click_id").startswith("clk_")
    assert click == {
        "website_id": app_id, "link_id": link["id"], "link_revision": 1, "answer": "page",
        "bot": False, "bot_reason": "",
        "first_of_day": True, "platform": "ios",
        "os_major": 18, "in_app": "", "referrer_host": "news.example.com", "language": "pt",
        "country": "",
        "qr": False, "utm_source": "mail", "utm_medium": "",
        "utm_campaign": "früh", "token_hash": sha256(token.encode()).hexdigest(),
    }  # fmt: skip


def test_no_address_user_agent_or_token_is_stored(make_link, open_link, clicks, tmp_path):
    link = make_link(fallbackUrl=WEB)
    user_agent = f"{SAFARI} marked-agent"
    token = parse_qs(
        urlsplit(
            Page(open_link(link["slug"], user_agent, X_Forwarded_For="203.0.113.77").text).links[
                OPEN
            ]
        ).query
    )["ct"][0]
    [click] = clicks(link, 1)
    rows = json.dumps(click, default=str) + "".join(
        str(path.read_bytes()) for path in tmp_path.rglob("*") if path.is_file()
    )
    for secret in ("marked-agent", "203.0.113.77", "testclient", token):
        assert secret not in rows


def test_a_click_has_the_utm_of_its_link(make_link, open_link, clicks):
    link = make_link(fallbackUrl=WEB)
    open_link(f"{link['slug']}?utm_source=evil&utm_campaign=evil", EDGE)
    [click] = clicks(link, 1)
    assert (click["utm_source"], click["utm_campaign"], click["answer"], click["token_hash"]) == (
        "",
        "",
        "redirect",
        "",
    )


def test_robots_head_requests_and_prefetches_are_bot_hits(make_link, open_link, clicks):
    link = make_link(fallbackUrl=WEB)
    slug = link["slug"]
    open_link(slug, "WhatsApp/2.25.14.75 i")
    open_link(slug, user_agents.DESKTOP["edge"], method="HEAD")
    assert open_link(slug, EDGE, Sec_Purpose="prefetch;prerender").status_code == 302
    open_link(slug, SAFARI, X_Purpose="x", Purpose="prefetch")
    open_link(slug, EDGE)
    rows = columns_of(clicks(link, 5), "answer", "bot", "bot_reason", "first_of_day", "token_hash")
    assert sorted(rows) == sorted(
        [
            ("preview", True, "preview:whatsapp", False, ""),
            ("preview", True, "head", False, ""),
            ("redirect", True, "prefetch", False, ""),
            ("page", True, "prefetch", False, ""),
            ("redirect", False, "", True, ""),
        ]
    )


def test_a_browser_is_first_once_per_day_and_link(clock, make_link, open_link, clicks):
    first, second = make_link(), make_link()
    clock.advance(seconds=86_400 - clock() % 86_400_000 / 1000)  # midnight (UTC)
    for user_agent in (SAFARI, SAFARI, CHROME, SAFARI):
        open_link(first["slug"], user_agent)
        clock.advance(seconds=1)
    open_link(second["slug"])
    clock.advance(days=1)
    open_link(first["slug"])
    assert [click["first_of_day"] for click in clicks(first, 5)] == [True, False, True, False, True]
    assert [click["first_of_day"] for click in clicks(second, 1)] == [True]


def test_a_404_stores_no_click(client, make_link, open_link, clicks):
    link = make_link()
    client.patch(LINKS, json={"id": link["id"], "isActive": False})
    assert open_link(link["slug"]).status_code == 404
    client.patch(LINKS, json={"id": link["id"], "isActive": True})
    open_link(link["slug"])
    clicks(link, 1)


@cases(
    ("referrer", "host"),
    [
        ("", ""), ("https://a.example/x", "a.example"),
        ("android-app://com.google.android.gm/", "com.google.android.gm"), ("a", ""),
        ("https://[", ""),
        ("https://ann:pw@a.example/", "a.example"), ("https://" + "a" * 300 + "/", ""),
        ("https://ä.example/", ""), ("//a.example",
        "a.example"),
    ],
)  # fmt: skip
def test_a_click_stores_only_the_host_of_the_referrer(make_link, open_link, clicks, referrer, host):
    link = make_link()
    open_link(link["slug"], Referer=referrer.encode())
    assert clicks(link, 1)[0]["referrer_host"] == host


def test_a_visit_without_a_page_counts_no_click(open_on_wire, make_link, clicks, monkeypatch):
    link, render = make_link(), service.landing_page
    assert [open_on_wire(link["slug"], CHROME).status_code for _ in range(2)] == [200, 200]
    failures = iter([RuntimeError("the first rendering fails")])

    def fail_once(*args):
        for failure in failures:
            raise failure
        return render(*args)

    monkeypatch.setattr(service, "landing_page", fail_once)
    assert open_on_wire(link["slug"], CHROME).status_code == 500
    assert next(failures, None) is None
    assert open_on_wire(link["slug"], CHROME).status_code == 200
    assert [click["first_of_day"] for click in clicks(link, 3)] == [True, False, False]


# From clicks to the warehouse ---------------------------------------------------------------------


def test_clicks_wait_in_files_while_the_database_is_busy_and_are_stored_once(
    services, make_link, open_link, clicks
):
    link = make_link(fallbackUrl=WEB)
    buffer = services.click_buffer
    with services.database.write():  # SQLite has one writer: no flush can commit
        for _ in range(20):
            assert open_link(link["slug"], EDGE).status_code == 302
        time.sleep(0.2)
    clicks(link, 20)
    eventually(lambda: not list(buffer._folder.iterdir()))


def test_a_file_flushed_before_a_crash_is_not_flushed_again(services, warehouse):
    buffer = services.click_buffer
    buffer._folder.mkdir(parents=True)
    buffer.add(b'{"link_id": "lnk_crash", "website_id": "w", "click_id": "1"}')
    buffer._folder.joinpath("spl_torn").write_bytes(
        b'\n{"link_id": "lnk_crash", "website_id": "w", "click_id": "2"}\n{"link_id": "lnk_cr'
    )
    file = buffer._folder / "spl_torn"
    content = file.read_bytes()
    buffer.flush()
    assert not list(buffer._folder.iterdir())
    file.write_bytes(content)  # as after a crash before the removal
    with TestClient(application(services), base_url=BASE_URL):  # restart
        eventually(lambda: not list(buffer._folder.iterdir()))
    services.shipper.ship()
    rows = warehouse.query(
        "SELECT click_id FROM clicks WHERE link_id = 'lnk_crash' ORDER BY click_id"
    )[1]
    assert [row[0] for row in rows] == ["1", "2"]


def test_rows_added_during_a_flush_are_stored_once(services, warehouse):
    buffer, threads, rows_each = services.click_buffer, 4, 2_000

    def add(number):
        for row in range(rows_each):
            buffer.add(
                b'{"link_id": "lnk_crowd", "website_id": "w", "click_id": "%d-%d"}' % (number, row)
            )

    adding = [Thread(target=add, args=(number,)) for number in range(threads)]
    buffer._folder.mkdir(parents=True)
    for thread in adding:
        thread.start()
    while any(thread.is_alive() for thread in adding):
        buffer.flush()
    buffer.flush()
    services.shipper.ship()
    counts = warehouse.query(
        "SELECT count(), uniqExact(click_id) FROM clicks WHERE link_id = 'lnk_crowd'"
    )[1]
    assert [tuple(row) for row in counts] == [(threads * rows_each, threads * rows_each)]


def test_a_click_does_not_wait_for_the_list_of_files(services, warehouse, monkeypatch):
    """After a long outage there are thousands, and clicks are added on the event loop."""
    buffer, list_files, waited = services.click_buffer, Path.glob, []

    def add(number):
        buffer.add(b'{"link_id": "lnk_list", "website_id": "w", "click_id": "%d"}' % number)

    def list_slowly(folder, pattern):
        adding = Thread(target=add, args=(2,), daemon=True)
        adding.start()
        adding.join(PATIENCE_S / 60)
        waited.append(adding.is_alive())
        return list_files(folder, pattern)  # with the file of the click that was just added

    buffer._folder.mkdir(parents=True)
    add(1)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "glob", list_slowly)
        buffer.flush()
    assert waited == [False]
    assert len(list(buffer._folder.iterdir())) == 1
    add(3)
    buffer.flush()
    services.shipper.ship()
    rows = warehouse.query(
        "SELECT click_id FROM clicks WHERE link_id = 'lnk_list' ORDER BY click_id"
    )[1]
    assert [row[0] for row in rows] == ["1", "2", "3"]


def test_names_of_removed_files_are_forgotten(services, make_link, open_link, clicks):
    link = make_link()
    for number in range(1, 4):
        open_link(link["slug"])
        clicks(link, number)
    with services.database.read() as db:
        assert len(db.execute(select(click_buffer_files)).all()) == 1


@pytest.mark.full("kills the service")
@pytest.mark.usefixtures("starts_service")
@pytest.mark.slow("kills the service three times")
def test_every_answered_redirect_is_one_click_after_kills(tmp_path):
    data, hosts = tmp_path / "data", []
    served = Served(data)
    try:
        served.first_account()
        app = new_website(served.client, "App", "mobile")
        link = {
            "websiteId": app,
            "name": "a",
            "slug": "a",
            "destinationPath": "/",
            "fallbackUrl": WEB,
        }
        assert served.client.post(LINKS, json=link).status_code == 201
        for _ in range(3):
            with httpx.Client(base_url=served.url, headers={"User-Agent": EDGE}) as browser:
                for number in range(60):
                    host = f"r{len(hosts)}.example"
                    answer = browser.get("/l/a", headers={"Referer": f"https://{host}/"})
                    assert answer.status_code == 302
                    hosts.append(host)
                    time.sleep(0.005 * (number % 2))
            served.kill()
            served = Served(data)
        served.await_shipped()
        assert served.stop() == 0
    finally:
        served.kill()
    [rows] = query_warehouse(data, "SELECT referrer_host FROM clicks")
    assert sorted(host for [host] in rows) == sorted(hosts)
