"""The pages under /api/docs."""

import re

import pytest


def test_every_operation_of_the_openapi_document_is_on_the_page(server):
    document, page = server.get("/api/openapi.json").json(), server.get("/api/docs").text
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


@pytest.mark.parametrize("path", ["/api/docs", "/api/docs/errors"])
def test_pages_load_nothing_from_elsewhere(server, path):
    answer = server.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert re.findall(r'(?:src|href)="(?:https?:)?//', answer.text) == []
    [sheet] = re.findall(r'<link rel="stylesheet" href="([^"]+)"', answer.text)
    assert server.get(sheet).headers["content-type"].startswith("text/css")


@pytest.mark.parametrize("path", ["/api/docs", "/api/docs/errors"])
def test_every_link_within_a_page_leads_somewhere(server, path):
    page = server.get(path).text
    anchors = set(re.findall(r'id="([^"]+)"', page))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= anchors


def test_an_apps_page_leads_to_the_call_that_resolves_its_links(workspace, server):
    app = workspace.browser.post(
        "/api/settings/websites", json={"name": "App", "kind": "mobile"}
    ).json()
    [anchor] = re.findall(
        r'href="/api/docs#([^"]+)"', workspace.browser.get(f"/settings/websites/{app['id']}").text
    )
    assert f'id="{anchor}"' in server.get("/api/docs").text


def test_the_type_of_a_problem_leads_to_its_explanation(server):
    problem = server.get("/api/nowhere").json()
    path, _, anchor = problem["type"].partition("#")
    assert f'id="{anchor}"' in server.get(path).text
