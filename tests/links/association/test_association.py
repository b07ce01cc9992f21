"""The association files in the formats of Apple and Google, and the check of an app.

Sources: Apple, "Supporting associated domains"; Google, "Digital Asset Links" and "Configure
dynamic App Links rules".
"""

import json
import re
from functools import partial
from pathlib import Path

import pytest
from litestar.testing import TestClient

from penstock.accounts.websites import service as websites
from penstock.app import build_services
from penstock.links.association import service as association
from tests.answers import body_of
from tests.applications import application
from tests.tenant import BASE_URL

APPLE = "/.well-known/apple-app-site-association"
ANDROID = "/.well-known/assetlinks.json"
PATHS = [{"/": "/l/*"}]
ALL_URLS = "delegate_permission/common.handle_all_urls"
A, B = ":".join(["AB"] * 32), ":".join(["0F"] * 32)
IOS = {"iosBundleId": "com.example.shop", "iosTeamId": "A1B2C3D4E5"}
DROID = {"androidPackage": "com.example.shop", "androidSha256Fingerprints": [A]}


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url


def create_app(tenant, **fields):
    answer = tenant.client.post(
        "/api/settings/websites", json={"name": "Shop", "kind": "mobile"} | fields
    )
    return body_of(answer, 201)["id"]


def statement(package, *fingerprints):
    return {
        "relation": [ALL_URLS],
        "target": {
            "namespace": "android_app",
            "package_name": package,
            "sha256_cert_fingerprints": list(fingerprints),
        },
        "relation_extensions": {ALL_URLS: {"dynamic_app_link_components": PATHS}},
    }


def detail(*app_ids):
    return {"appIDs": list(app_ids), "components": PATHS}


def check(tenant, website_id):
    return tenant.client.get(f"/api/settings/websites/{website_id}/app-links/check")


def fields_of(part):
    return [finding["field"] for finding in part["findings"]]


# The files


def test_without_an_app_both_files_are_valid_and_empty(server, workspace):
    assert server.get(APPLE).json() == {"applinks": {"details": []}}
    assert server.get(ANDROID).json() == []


def test_an_app_is_in_both_files_in_the_documented_form(server, workspace):
    create_app(workspace, **IOS, **DROID)
    answer = server.get(APPLE)
    assert answer.json() == {"applinks": {"details": [detail("A1B2C3D4E5.com.example.shop")]}}
    assert server.get(ANDROID).json() == [statement("com.example.shop", A)]


@pytest.mark.parametrize("path", [APPLE, ANDROID])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_file_is_json_without_redirect_and_cacheable_for_five_minutes(
    server, workspace, path, method
):
    answer = server.request(method, path, follow_redirects=False)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "public, max-age=300"
    assert "set-cookie" not in answer.headers


@pytest.mark.every_database
def test_the_files_list_all_workspaces_apps_oldest_first(server, workspace, other_workspace, clock):
    create_app(workspace, **IOS, **DROID)
    clock.advance(seconds=1)
    create_app(
        other_workspace,
        iosBundleId="org.example.news",
        iosTeamId="ZZZZZZZZZZ",
        androidPackage="org.example.news",
        androidSha256Fingerprints=[B, A],
    )
    clock.advance(seconds=1)
    create_app(workspace, name="iOS alone", iosBundleId="com.example.kiosk", iosTeamId="A1B2C3D4E5")
    app_ids = [
        "A1B2C3D4E5.com.example.shop",
        "ZZZZZZZZZZ.org.example.news",
        "A1B2C3D4E5.com.example.kiosk",
    ]
    assert server.get(APPLE).json() == {"applinks": {"details": [detail(*app_ids)]}}
    answer = server.get(ANDROID)
    assert answer.json() == [statement("com.example.shop", A), statement("org.example.news", B, A)]


def test_an_app_of_two_workspaces_is_listed_once(server, workspace, other_workspace):
    for tenant in (workspace, other_workspace):
        create_app(tenant, **IOS, **DROID)
    answer = server.get(APPLE)
    assert answer.json()["applinks"]["details"] == [detail("A1B2C3D4E5.com.example.shop")]
    assert server.get(ANDROID).json() == [statement("com.example.shop", A)]


def test_a_fingerprint_is_listed_in_capitals_and_once(server, workspace):
    create_app(
        workspace, androidPackage="com.example.shop", androidSha256Fingerprints=[A.lower(), A, B]
    )
    assert server.get(ANDROID).json() == [statement("com.example.shop", A, B)]


@pytest.mark.parametrize("missing", [*IOS, *DROID])
def test_an_app_without_a_field_is_not_in_that_file(server, workspace, missing):
    create_app(
        workspace, **{field: value for field, value in (IOS | DROID).items() if field != missing}
    )
    assert (server.get(APPLE).json()["applinks"]["details"] == []) == (missing in IOS)
    assert (server.get(ANDROID).json() == []) == (missing in DROID)


def test_changes_and_deletions_reach_the_files_at_once(server, workspace):
    assert server.get(APPLE).json()["applinks"]["details"] == []
    website_id = create_app(workspace, **IOS)
    assert server.get(APPLE).json()["applinks"]["details"] == [
        detail("A1B2C3D4E5.com.example.shop")
    ]
    workspace.client.patch(
        f"/api/settings/websites/{website_id}", json={"iosBundleId": "com.example.new"}
    )
    assert server.get(APPLE).json()["applinks"]["details"] == [detail("A1B2C3D4E5.com.example.new")]
    workspace.client.delete(f"/api/settings/websites/{website_id}")
    assert server.get(APPLE).json()["applinks"]["details"] == []


def test_a_workspace_has_a_limited_number_of_apps(workspace, monkeypatch):
    monkeypatch.setattr(websites, "MAX_APPS", 2)
    first = create_app(workspace)
    create_app(workspace)
    answer = workspace.client.post(
        "/api/settings/websites", json={"name": "Shop", "kind": "mobile"}
    )
    [fault] = answer.json()["errors"]
    assert (answer.status_code, fault["field"], fault["code"]) == (422, "kind", "too_many_apps")
    workspace.client.delete(f"/api/settings/websites/{first}")
    create_app(workspace)


def test_a_full_file_has_the_first_app_of_each_workspace_and_says_who_is_left_out(
    server, workspace, other_workspace, monkeypatch
):
    """A stranger who creates apps crowds nobody else out."""
    monkeypatch.setattr(association, "MAX_FILE_BYTES", association._FRAME_BYTES + 700)
    names = [f"com.example.app{number}" for number in range(30)]
    apps = [
        create_app(workspace, **{**IOS, **DROID, "iosBundleId": name, "androidPackage": name})
        for name in names
    ]
    create_app(other_workspace, **{**IOS, "iosBundleId": "com.other"})
    [listed] = [entry["appIDs"] for entry in server.get(APPLE).json()["applinks"]["details"]]
    assert listed[:2] == [f"A1B2C3D4E5.{names[0]}", "A1B2C3D4E5.com.other"]
    assert 2 < len(listed) < 30
    assert 0 < len(server.get(ANDROID).json()) < 30
    assert max(len(server.get(path).content) for path in (APPLE, ANDROID)) < 900
    last = check(workspace, apps[-1]).json()
    assert (fields_of(last["ios"]), fields_of(last["android"])) == (
        ["iosBundleId"],
        ["androidPackage"],
    )
    assert "is full" in last["ios"]["findings"][0]["message"]
    assert check(workspace, apps[0]).json()["ios"]["findings"] == []


# The check


@pytest.fixture
def check_new_app_at(workspace, settings, clock, warehouse):
    """Creates an app and checks it on a service with another public URL over the same stores."""

    def check_new_app(public_url, **fields):
        website_id = create_app(workspace, **fields)
        services = build_services(
            settings.model_copy(update={"public_url": public_url}), clock, warehouse
        )
        client = TestClient(application(services), base_url=BASE_URL)
        key = workspace.client.headers["authorization"]
        answer = client.get(
            f"/api/settings/websites/{website_id}/app-links/check", headers={"Authorization": key}
        )
        services.database.close()
        return body_of(answer)

    return check_new_app


@pytest.fixture
def check_new_app(check_new_app_at):
    return partial(check_new_app_at, "https://go.example.com")


def test_a_complete_app_is_ready_and_the_check_shows_its_file_entries(server, check_new_app):
    result = check_new_app(**IOS, **DROID)
    assert result == {
        "websiteId": result["websiteId"],
        "ready": True,
        "address": {"url": "https://go.example.com", "findings": []},
        "ios": {
            "state": "ready",
            "file": f"https://go.example.com{APPLE}",
            "findings": [],
            "entry": server.get(APPLE).json()["applinks"]["details"][0],
        },
        "android": {
            "state": "ready",
            "file": f"https://go.example.com{ANDROID}",
            "findings": [],
            "entry": server.get(ANDROID).json()[0],
        },
    }


@pytest.mark.parametrize(
    ("missing", "platform", "sentence"),
    [
        ("iosBundleId", "ios", r"Set iosBundleId to the bundle ID .*"),
        ("iosTeamId", "ios", r"Set iosTeamId to the ten characters .*"),
        ("androidPackage", "android", r"Set androidPackage to the application ID .*"),
        (
            "androidSha256Fingerprints",
            "android",
            r"Set androidSha256Fingerprints to the SHA-256 fingerprint .*Play App Signing.*",
        ),
    ],
)
def test_each_missing_field_has_a_finding_with_what_to_set(
    check_new_app, missing, platform, sentence
):
    result = check_new_app(
        **{field: value for field, value in (IOS | DROID).items() if field != missing}
    )
    other = "android" if platform == "ios" else "ios"
    assert (result["ready"], result[platform]["state"], result[other]["state"]) == (
        False,
        "notReady",
        "ready",
    )
    assert result[platform]["entry"] is None
    [finding] = result[platform]["findings"]
    assert finding["field"] == missing
    assert re.fullmatch(sentence, finding["message"])


@pytest.mark.parametrize(
    ("fields", "platform", "other"), [(IOS, "ios", "android"), (DROID, "android", "ios")]
)
def test_an_app_of_one_platform_is_ready_and_lists_what_the_other_needs(
    check_new_app, fields, platform, other
):
    result = check_new_app(**fields)
    assert (result["ready"], result[platform]["state"], result[other]["state"]) == (
        True,
        "ready",
        "notSet",
    )
    assert fields_of(result[other]) == list(DROID if other == "android" else IOS)


def test_an_app_without_settings_is_not_ready(check_new_app):
    result = check_new_app()
    assert (result["ready"], result["ios"]["state"], result["android"]["state"]) == (
        False,
        "notSet",
        "notSet",
    )


def test_a_bundle_id_that_begins_with_the_team_id_is_a_finding(check_new_app):
    result = check_new_app(iosBundleId="A1B2C3D4E5.com.example.shop", iosTeamId="A1B2C3D4E5")
    assert (result["ready"], result["ios"]["state"], fields_of(result["ios"])) == (
        False,
        "notReady",
        ["iosBundleId"],
    )
    assert result["ios"]["entry"]["appIDs"] == ["A1B2C3D4E5.A1B2C3D4E5.com.example.shop"]
    assert "Set iosBundleId to com.example.shop, without" in result["ios"]["findings"][0]["message"]


ADDRESSES = [
    ("https://go.example.com", []),
    ("https://go.example.com/", []),
    ("https://go.example.com:443", []),
    ("https://bücher.example.com", []),
    (None, ["which phones cannot reach"]),
    ("http://go.example.com", ["begins with https://"]),
    ("https://203.0.113.7", ["IP address 203.0.113.7"]),
    ("https://127.1", ["IP address 127.1"]),
    ("https://[2001:db8::1]", ["IP address 2001:db8::1"]),
    ("https://localhost", ["cannot reach localhost"]),
    ("https://penstock", ["cannot reach penstock"]),
    ("https://penstock.local.", ["cannot reach penstock.local."]),
    ("https://penstock.home.arpa", ["cannot reach penstock.home.arpa"]),
    ("https://mylocal", ["cannot reach mylocal"]),
    ("https://go.example.com:8443", ["port 443, not 8443"]),
    ("https://go.example.com/penstock", ["not below /penstock"]),
    (
        "http://192.168.1.5:8000/x",
        ["begins with https://", "IP address", "not 8000", "not below /x"],
    ),
]


@pytest.mark.slow("builds the application for each URL")
def test_the_public_url_is_checked_by_its_spelling(check_new_app_at):
    for public_url, expected in ADDRESSES:
        result = check_new_app_at(public_url, **IOS)
        findings = result["address"]["findings"]
        assert [finding["field"] for finding in findings] == ["PENSTOCK_PUBLIC_URL"] * len(
            expected
        ), public_url
        for finding, part in zip(findings, expected, strict=True):
            assert finding["message"].startswith("Set PENSTOCK_PUBLIC_URL to "), public_url
            assert part in finding["message"], public_url
        assert result["ready"] == (not expected), public_url


def test_only_apps_of_the_own_workspace_can_be_checked(workspace, other_workspace):
    website_id = create_app(workspace, **IOS, **DROID)
    for answer in (
        check(other_workspace, website_id),
        check(workspace, workspace.website_id),
        check(workspace, "web_unknown"),
        check(workspace, "a%00b"),
    ):
        assert answer.status_code == 404
    assert check(other_workspace, website_id).json()["code"] == "app_not_found"
    assert check(other_workspace, website_id).json()["detail"] == "App not found"


def test_the_check_shows_nothing_of_other_workspaces(other_workspace, check_new_app):
    create_app(
        other_workspace, **IOS, androidPackage="com.example.shop", androidSha256Fingerprints=[B]
    )
    result = check_new_app(**DROID)
    assert result["android"]["entry"] == statement("com.example.shop", A)
    assert result["ios"]["entry"] is None


def test_the_documented_check_is_real(check_new_app):
    page = (Path(__file__).parents[3] / "docs" / "app-links.md").read_text("utf-8")
    [block] = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    documented = json.loads(block)
    result = check_new_app(**IOS, androidSha256Fingerprints=[A])
    assert documented == result | {"websiteId": documented["websiteId"]}
