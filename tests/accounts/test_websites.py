"""Websites of kind web and mobile."""

import pytest

from tests.answers import body_of, faults
from tests.cases import cases

APP = {
    "iosBundleId": "com.example.shop",
    "iosTeamId": "A1B2C3D4E5",
    "appStoreUrl": "https://apps.apple.com/app/id123",
    "androidPackage": "com.example.shop",
    "androidSha256Fingerprints": [":".join(["AB"] * 32), ":".join(["0f"] * 32)],
    "playStoreUrl": "https://play.google.com/store/apps/details?id=com.example.shop",
    "customScheme": "myshop",
}
STORED_APP = APP | {"androidSha256Fingerprints": [":".join(["AB"] * 32), ":".join(["0F"] * 32)]}
MATCHING = {
    "iosProbabilisticMatching": False,
    "androidProbabilisticMatching": True,
    "iosClipboardMatching": False,
}
KINDS = ("pageview", "screenview", "event", "transaction", "provider")
RETENTION = dict.fromkeys(f"{kind}RetentionDays" for kind in KINDS)
NO_APP = dict.fromkeys(APP) | {"androidSha256Fingerprints": []} | MATCHING
ROUTE = "/api/settings/websites"


def create(client, **form):
    return body_of(client.post(ROUTE, json={"name": "Shop", "kind": "web"} | form), 201)


def test_a_new_website_is_returned_in_full_and_read_back(client):
    new_website = create(client, domain="Shop.Example.com")
    assert new_website["id"].startswith("web_")
    assert new_website["createdAt"] == new_website["updatedAt"]
    expected = (
        {
            "name": "Shop",
            "kind": "web",
            "domain": "shop.example.com",
            "identityScope": None,
            "requiresSignedIdentities": False,
        }
        | NO_APP
        | RETENTION
    )
    assert {key: new_website[key] for key in expected} == expected
    assert set(new_website) == set(expected) | {"id", "createdAt", "updatedAt"}
    assert client.get(f"{ROUTE}/{new_website['id']}").json() == new_website


def test_a_mobile_app_has_app_fields(client):
    new_website = create(client, kind="mobile", **APP)
    assert {key: new_website[key] for key in APP} == STORED_APP
    assert client.get(f"{ROUTE}/{new_website['id']}").json() == new_website


def test_each_way_of_matching_is_a_setting_with_a_default(client):
    opposite = {name: not value for name, value in MATCHING.items()}
    new_website = create(client, kind="mobile", **opposite)
    address = f"{ROUTE}/{new_website['id']}"
    assert {name: client.get(address).json()[name] for name in MATCHING} == opposite
    assert client.patch(address, json=dict.fromkeys(MATCHING)).status_code == 200
    assert {name: client.get(address).json()[name] for name in MATCHING} == MATCHING


def test_a_session_manages_websites_too(workspace):
    new_website = create(workspace.browser)
    assert workspace.client.get(f"{ROUTE}/{new_website['id']}").json() == new_website


def test_the_list_is_paged_oldest_first(client, clock):
    for number in range(3):
        clock.advance(seconds=1)
        create(client, name=f"Site {number}")
    page = client.get(ROUTE, params={"page": 2, "pageSize": 2}).json()
    assert [website["name"] for website in page.pop("data")] == ["Site 1", "Site 2"]
    assert page == {"page": 2, "pageSize": 2, "total": 4}


@cases(("field", "value"), APP.items())
def test_app_fields_are_only_for_mobile_apps(client, field, value):
    answer = client.post(ROUTE, json={"name": "Shop", "kind": "web", field: value})
    assert faults(answer) == {field: "only_mobile"}
    new_website = create(client)
    answer = client.patch(f"{ROUTE}/{new_website['id']}", json={field: value})
    assert faults(answer) == {field: "only_mobile"}


def test_null_in_an_app_field_equals_omitting_it(client):
    assert create(client, **dict.fromkeys(APP))["customScheme"] is None


@cases(
    ("field", "value", "code"),
    [
        ("iosBundleId", "com example", "not_a_bundle_id"),
        ("iosBundleId", "com..example", "not_a_bundle_id"),
        ("iosBundleId", "x" * 156, "too_long"),
        ("iosTeamId", "a1b2c3d4e5", "not_a_team_id"),
        ("iosTeamId", "A1B2C3D4E", "not_a_team_id"),
        ("appStoreUrl", "http://apps.apple.com/app", "not_a_url"),
        ("appStoreUrl", "apps.apple.com/app", "not_a_url"),
        ("appStoreUrl", "javascript:alert(1)", "not_a_url"),
        ("appStoreUrl", "https://user:pass@apps.apple.com", "not_a_url"),
        ("appStoreUrl", "https://apps.apple.com/a b", "not_a_url"),
        ("appStoreUrl", "https://apps.apple.com:99999/", "not_a_url"),
        ("appStoreUrl", "https://[::1", "not_a_url"),
        ("playStoreUrl", "https://", "not_a_url"),
        ("playStoreUrl", "https://play.google.com/\n", "not_a_url"),
        ("playStoreUrl", "https://play.google.com/" + "x" * 2048, "too_long"),
        ("androidPackage", "shop", "not_a_package"),
        ("androidPackage", "com.1shop", "not_a_package"),
        ("androidPackage", "com.exämple", "not_a_package"),
        ("androidSha256Fingerprints", "AB", "wrong_type"),
        ("androidSha256Fingerprints", [":".join(["AB"] * 32)] * 21, "too_many"),
        ("customScheme", "https", "not_a_scheme"),
        ("customScheme", "JavaScript", "not_a_scheme"),
        ("customScheme", "my shop", "not_a_scheme"),
        ("customScheme", "myshop://", "not_a_scheme"),
        ("domain", "https://shop.example.com", "not_a_domain"),
        ("domain", "shop.example.com/path", "not_a_domain"),
        ("domain", "shop..example.com", "not_a_domain"),
        ("domain", "shop_example.com", "not_a_domain"),
        ("domain", "shop.example.com:0", "not_a_domain"),
        ("domain", "shop\u0000.example.com", "not_a_domain"),
        ("domain", "", "not_a_domain"),
        ("name", "", "too_short"),
        ("name", None, "wrong_type"),
        ("identityScope", "", "too_short"),
        ("identityScope", "a\u0000b", "control_character"),
        ("workspaceId", "wsp_1", "unknown_field"),
    ],
)
def test_each_fault_names_its_field(client, field, value, code):
    form = {"name": "Shop", "kind": "mobile", field: value}
    assert faults(client.post(ROUTE, json=form)) == {field: code}


def test_a_fault_in_a_fingerprint_names_its_index(client):
    form = {
        "name": "Shop",
        "kind": "mobile",
        "androidSha256Fingerprints": [":".join(["AB"] * 32), "AB:CD"],
    }
    answer = client.post(ROUTE, json=form)
    assert faults(answer) == {"androidSha256Fingerprints[1]": "not_a_fingerprint"}


def test_all_faults_at_once(client):
    form = {
        "kind": "web",
        "domain": "a b",
        "iosTeamId": "x",
        "customScheme": "myshop",
        "colour": "red",
    }
    fields = set(faults(client.post(ROUTE, json=form)))
    assert fields == {"name", "domain", "iosTeamId", "customScheme", "colour"}


@cases("kind", ["desktop", "", None, 1])
def test_the_kind_is_web_or_mobile(client, kind):
    answer = client.post(ROUTE, json={"name": "Shop", "kind": kind})
    assert list(faults(answer)) == ["kind"]


@cases("domain", ["localhost", "localhost:3000", "shop.example.com", "192.0.2.1", "bücher.example"])
def test_a_domain_is_a_host_name(client, domain):
    assert create(client, domain=domain)["domain"] == domain.replace("bücher", "xn--bcher-kva")


def test_omitted_fields_keep_their_value_and_null_clears(client, clock):
    new_website = create(client, kind="mobile", domain="shop.example.com", **APP)
    clock.advance(seconds=1)
    changed = client.patch(
        f"{ROUTE}/{new_website['id']}",
        json={"name": "New", "iosTeamId": None, "androidSha256Fingerprints": None},
    )
    body = body_of(changed)
    assert body["updatedAt"] > new_website["updatedAt"]
    assert body == new_website | {
        "name": "New",
        "iosTeamId": None,
        "androidSha256Fingerprints": [],
        "updatedAt": body["updatedAt"],
    }
    assert client.get(f"{ROUTE}/{new_website['id']}").json() == body


@cases(
    ("change", "fault"),
    [
        ({"name": None}, {"name": "not_null"}),
        ({"name": " "}, {"name": "too_short"}),
        ({"kind": "mobile"}, {"kind": "read_only"}),
        ({"identityScope": "x"}, {"identityScope": "read_only"}),
    ],
)
def test_a_change_of_a_fixed_field_changes_nothing(client, change, fault):
    new_website = create(client)
    assert faults(client.patch(f"{ROUTE}/{new_website['id']}", json=change)) == fault
    assert client.get(f"{ROUTE}/{new_website['id']}").json() == new_website


def test_a_change_is_seen_at_once(client, services):
    new_website = create(client)
    assert services.website_service.find_website(new_website["id"]).name == "Shop"
    client.patch(f"{ROUTE}/{new_website['id']}", json={"name": "New"})
    assert services.website_service.find_website(new_website["id"]).name == "New"


@pytest.mark.every_database
def test_a_deleted_website_is_gone(client, workspace, services):
    new_website = create(client)
    assert services.website_service.find_website(new_website["id"]) is not None
    assert client.delete(f"{ROUTE}/{new_website['id']}").status_code == 204
    assert services.website_service.find_website(new_website["id"]) is None
    for answer in (
        client.get(f"{ROUTE}/{new_website['id']}"),
        client.patch(f"{ROUTE}/{new_website['id']}", json={"name": "New"}),
        client.delete(f"{ROUTE}/{new_website['id']}"),
    ):
        assert answer.status_code == 404
    assert [website["id"] for website in client.get(ROUTE).json()["data"]] == [workspace.website_id]


def test_a_website_is_its_own_identity_scope_unless_it_names_one(
    workspace, other_workspace, services
):
    def scope_of(tenant, **form):
        return services.website_service.find_website(create(tenant.client, **form)["id"]).scope_id

    alone = create(workspace.client)["id"]
    assert services.website_service.find_website(alone).scope_id == alone
    shared = scope_of(workspace, identityScope="brand")
    assert shared == f"{workspace.id}/brand"
    assert scope_of(workspace, kind="mobile", identityScope="brand") == shared
    assert scope_of(workspace, identityScope="other") != shared
    assert scope_of(other_workspace, identityScope="brand") != shared


@cases("website_id", ["web_unknown", "a%00b", "%FF%FE", "é", "x" * 3000, "'; --"])
def test_an_unknown_website_is_404(client, website_id):
    for answer in (
        client.get(f"{ROUTE}/{website_id}"),
        client.patch(f"{ROUTE}/{website_id}", json={"name": "New"}),
        client.delete(f"{ROUTE}/{website_id}"),
    ):
        assert answer.status_code == 404


@pytest.mark.parametrize("form", [{}, {"kind": "mobile"} | APP])
def test_a_website_may_be_changed_with_its_own_record(client, form):
    address = f"{ROUTE}/{create(client, **form)['id']}"
    record = client.get(address).json()
    answer = client.patch(address, json=record)
    assert body_of(answer) | {"updatedAt": None} == record | {"updatedAt": None}
    changed = client.patch(address, json=answer.json() | {"name": "New"})
    assert (changed.status_code, changed.json()["name"]) == (200, "New")


@cases(("field", "value"), [("id", "web_other"), ("kind", "mobile"), ("identityScope", "all")])
def test_a_read_only_field_of_a_website_cannot_be_changed(client, field, value):
    record = create(client)
    answer = client.patch(f"{ROUTE}/{record['id']}", json=record | {field: value})
    assert faults(answer) == {field: "read_only"}
