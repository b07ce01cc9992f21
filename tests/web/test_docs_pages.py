"""The pages under /api/docs."""

import re

from tests.cases import cases
from tests.records import new_website


def test_every_operation_of_the_openapi_document_is_on_the_page(server):
    document = server.get("/api/openapi.json").json()
    page = " ".join(server.get("/api/docs").text.split())
    expected = {
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods
    }
    shown = {
        (method, path.replace("<wbr>", ""))
        for method, path in re.findall(
            r'<span class="method \w+">(\w+)</span> <span class="path">(.*?)</span>', page
        )
    }
    assert shown == expected
    assert ("POST", "/api/auth/signup") in shown


@cases(
    ("method", "path", "read_only", "writable"),
    [
        ("put", "/api/funnels/{funnel_id}", {"id", "revision", "createdAt", "updatedAt"}, "name"),
        ("patch", "/api/mobile/deferred-links", {"slug", "hostedUrl", "stats"}, "isActive"),
        ("patch", "/api/settings/members/{user_id}", {"userId", "email", "since"}, "role"),
        ("patch", "/api/settings/websites/{website_id}", {"id", "kind"}, "name"),
        ("patch", "/api/settings/workspace", {"inForce"}, "name"),
        ("patch", "/api/goals/{goal_id}", {"id", "revision"}, "match"),
    ],
)
def test_the_document_lists_the_read_only_fields_of_a_body(
    server, method, path, read_only, writable
):
    operation = server.get("/api/openapi.json").json()["paths"][path][method]
    fields = operation["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert all(fields[name]["readOnly"] for name in read_only)
    assert "readOnly" not in fields[writable]


def test_the_document_says_that_a_key_is_optional_on_the_open_routes_that_check_one(server):
    paths = server.get("/api/openapi.json").json()["paths"]
    for path in ("/api/track", "/api/identify"):
        assert paths[path]["post"]["security"] == [{}, {"key": []}]
    assert paths["/api/auth/login"]["post"]["security"] == []


@cases("path", ["/api/docs", "/api/docs/errors"])
def test_pages_load_nothing_from_elsewhere(server, path):
    answer = server.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert re.findall(r'(?:src|href)="(?:https?:)?//', answer.text) == []
    [sheet] = re.findall(r'<link rel="stylesheet" href="([^"]+)"', answer.text)
    assert server.get(sheet).headers["content-type"].startswith("text/css")


@cases("path", ["/api/docs", "/api/docs/errors"])
def test_every_link_within_a_page_leads_somewhere(server, path):
    page = server.get(path).text
    anchors = set(re.findall(r'id="([^"]+)"', page))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= anchors


def test_an_apps_page_leads_to_the_call_that_resolves_its_links(workspace, server):
    app_id = new_website(workspace.browser, "App", "mobile")
    page = workspace.browser.get(f"/settings/websites/{app_id}").text
    docs = workspace.browser.get("/api/docs").text
    anchors = re.findall(r'href="/api/docs#([^"]+)"', page)
    assert "post-api-mobile-deferred-links-resolve" in anchors
    assert [anchor for anchor in anchors if f'id="{anchor}"' not in docs] == []


def test_the_type_of_a_problem_leads_to_its_explanation(server):
    problem = server.get("/api/nowhere").json()
    path, _, anchor = problem["type"].partition("#")
    assert f'id="{anchor}"' in server.get(path).text
