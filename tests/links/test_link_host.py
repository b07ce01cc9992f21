"""`PENSTOCK_LINK_HOST`: links on a host of their own, which serves nothing else."""

from urllib.parse import urlsplit

import pytest
from pydantic import ValidationError

from penstock.settings import Settings
from tests import user_agents
from tests.links.conftest import LINKS
from tests.tenant import BASE_URL, visitor

HOST = "go.example.com"
EDGE = user_agents.DESKTOP["edge"]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return Settings(**{**settings.model_dump(), "link_host": HOST})


@pytest.fixture
def on_host(server):
    """A request for the links' host, as a proxy passes it on."""

    def on_host(path, method="GET", host=HOST, **more):
        headers = {"Host": host, "User-Agent": EDGE}
        return visitor(server, headers).request(method, path, follow_redirects=False, **more)

    return on_host


@pytest.mark.usefixtures("warehouse")
def test_the_host_serves_links_association_files_and_health(make_link, on_host):
    slug = make_link(fallbackUrl="https://www.example.com/")["slug"]
    assert on_host(f"/l/{slug}").headers["location"] == "https://www.example.com/"
    for path in (
        "/.well-known/apple-app-site-association",
        "/.well-known/assetlinks.json",
        "/health/live",
        "/health/ready",
    ):
        assert on_host(path).status_code == 200, path


def test_the_host_knows_neither_dashboard_nor_api(server, workspace, on_host):
    unknown = on_host("/l/no-such-link")
    paths = {route.split("{")[0] for route in server.get("/api/openapi.json").json()["paths"]}
    paths |= {"/", "/login", "/links", "/signup", "/t.js", "/static/app.css", "/api/docs", "/l/"}
    paths |= {"//login", "/l", "/health", "/health/live/", "/robots.txt", "/l/../login"}
    paths -= {"/.well-known/apple-app-site-association", "/.well-known/assetlinks.json"}
    for path in sorted(paths):
        for host in (HOST, HOST.upper(), f"{HOST}:8443", f"{HOST}."):
            answer = on_host(path, host=host)
            assert (answer.status_code, answer.text) == (404, unknown.text), (path, host)
    for method, path in (("POST", f"{LINKS}/resolve"), ("POST", "/api/track"), ("PATCH", LINKS)):
        assert on_host(path, method, json={}).status_code == 404
    key = {"Authorization": workspace.client.headers["authorization"], "Host": HOST}
    assert visitor(server, key).get(LINKS).status_code == 404
    head = on_host("/login", "HEAD")
    assert (head.status_code, head.content) == (404, b"")


def test_the_dashboards_host_goes_on_serving_links(server, make_link, open_link):
    record = make_link()
    assert open_link(record["slug"]).status_code == 200
    assert visitor(server).get("/login").status_code == 200


def test_addresses_of_links_have_the_host(client, make_app, make_link, open_link):
    record = make_link()
    assert record["hostedUrl"].startswith(f"http://{HOST}/l/{record['slug']}?lk=")
    desktop = open_link(record["slug"], EDGE).text
    assert f"<figcaption>http://{HOST}/l/{record['slug']}</figcaption>" in desktop
    check = client.get(f"/api/settings/websites/{record['websiteId']}/app-links/check").json()
    assert check["ios"]["file"].startswith(f"http://{HOST}/.well-known/")
    assert [finding["field"] for finding in check["address"]["findings"]] == [
        "PENSTOCK_PUBLIC_URL"  # it is not https
    ]


@pytest.mark.parametrize("base_url", [BASE_URL, f"http://{HOST}"])
def test_an_app_that_was_opened_by_a_url_of_either_host_is_matched(
    server, app_id, make_link, base_url
):
    slug = make_link()["slug"]
    opened = {
        "websiteId": app_id,
        "installId": "i-1",
        "platform": "ios",
        "firstOpen": True,
        "url": f"{base_url}/l/{slug}",
    }
    answer = visitor(server).post(f"{LINKS}/resolve", json=opened).json()
    assert (answer["method"], answer["matched"]) == ("url", True)


@pytest.mark.parametrize("url", [f"{BASE_URL}/", f"http://{HOST}/l/a"])
def test_a_link_leads_back_to_neither_host(client, app_id, url):
    link = {"websiteId": app_id, "name": "a", "slug": "a", "destinationPath": "/"}
    answer = client.post(LINKS, json=link | {"fallbackUrl": url})
    assert [error["code"] for error in answer.json()["errors"]] == ["leads_back"]


@pytest.mark.parametrize(
    "host",
    ["", "https://go.example.com", "go.example.com/", "a b", "ann@go.example.com", "go:x", "a\n",
     urlsplit(BASE_URL).netloc, f"{urlsplit(BASE_URL).hostname}:8443"],
)  # fmt: skip
def test_a_host_that_is_none_or_the_dashboards_is_refused_at_the_start(host):
    with pytest.raises(ValidationError):
        Settings(public_url=BASE_URL, link_host=host)
