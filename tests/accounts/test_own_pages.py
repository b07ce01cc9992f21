"""What a browser may do with its session cookie: JSON, from Penstock's own pages."""

from tests.answers import problem
from tests.cases import cases
from tests.tenant import BASE_URL


@cases(
    "headers",
    [
        {},
        {"Origin": BASE_URL},
        {"Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": BASE_URL, "Sec-Fetch-Site": "same-origin"},
    ],
)
def test_the_cookie_alone_is_enough_from_our_own_pages(workspace, headers):
    answer = workspace.browser.post("/api/settings/api-keys", json={"name": "k"}, headers=headers)
    assert answer.status_code == 201
    assert workspace.browser.get("/api/settings/websites", headers=headers).status_code == 200


@cases(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": BASE_URL + ".evil.example"},
        {"Origin": BASE_URL.replace("http://", "https://")},
        {"Origin": BASE_URL + ":8080"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": BASE_URL, "Sec-Fetch-Site": "cross-site"},
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"},
    ],
)
def test_a_foreign_page_is_403(workspace, headers):
    browser = workspace.browser
    for answer in (
        browser.post("/api/settings/api-keys", json={"name": "k"}, headers=headers),
        browser.get("/api/settings/websites", headers=headers),
        browser.delete(f"/api/settings/websites/{workspace.website_id}", headers=headers),
        browser.post("/api/auth/logout", headers=headers),
    ):
        assert problem(answer) == (403, "foreign_origin")
    assert browser.get("/api/settings/api-keys").json()["total"] == 1


def test_the_public_url_is_our_own_origin_behind_a_proxy(workspace):
    headers = {"Host": "127.0.0.1:8000", "Origin": BASE_URL}
    assert workspace.browser.get("/api/settings/websites", headers=headers).status_code == 200


@cases(
    "content_type",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "text/json"],
)
def test_a_body_that_is_not_json_is_415(workspace, content_type):
    answer = workspace.browser.post(
        "/api/settings/api-keys", content=b'{"name": "k"}', headers={"Content-Type": content_type}
    )
    assert answer.status_code == 415


def test_a_json_body_may_name_its_charset(workspace):
    headers = {"Content-Type": "application/json; charset=utf-8"}
    answer = workspace.browser.post(
        "/api/settings/api-keys", content=b'{"name": "k"}', headers=headers
    )
    assert answer.status_code == 201


def test_a_key_is_not_bound_to_an_origin(client):
    answer = client.get("/api/settings/websites", headers={"Origin": "https://elsewhere.example"})
    assert answer.status_code == 200
