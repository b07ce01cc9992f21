"""`penstock links simulate` as a real process against a real service."""

import re

import pytest

from tests.links.conftest import APP, LINKS
from tests.processes import new_python
from tests.serving import Served, penstock


@pytest.fixture(scope="module")
def service(starts_service, tmp_path_factory):
    with Served(tmp_path_factory.mktemp("simulate") / "data") as running:
        running.key, _ = running.first_account()
        app = running.client.post("/api/settings/websites", json=APP | {"kind": "mobile"}).json()[
            "id"
        ]
        bare = running.client.post(
            "/api/settings/websites", json={"name": "Bare", "kind": "mobile"}
        ).json()["id"]
        for website_id, slug in ((app, "spring"), (app, "spring-2"), (app, "gone"), (bare, "bare")):
            link = {
                "websiteId": website_id,
                "name": "Spring",
                "slug": slug,
                "destinationPath": "/offers/1",
                "utmCampaign": "may",
            }
            record = running.client.post(LINKS, json=link).json()
        running.bare = record
        [gone] = running.client.get(LINKS, params={"search": "gone"}).json()["data"]
        running.client.patch(LINKS, json={"id": gone["id"], "isActive": False})
        yield running


def run(service, slug, platform, **settings):
    keys = {"PENSTOCK_URL": service.url, "PENSTOCK_API_KEY": service.key}
    return penstock("links", "simulate", slug, "--platform", platform, **{**keys, **settings})


@pytest.mark.parametrize(
    ("platform", "method"),
    [("ios", "the click token"), ("android", "Google Play's install referrer")],
)
def test_a_tap_and_a_first_open_are_simulated_and_explained(service, platform, method):
    result = run(service, "spring", platform)
    assert result.returncode == 0, result.stderr
    assert f"Matched by {method}" in result.stdout
    assert "with confidence 1." in result.stdout
    assert re.search(r"Clicked on \d+ \w{3} \d{4}, \d\d:\d\d UTC; the app opens", result.stdout)
    assert "the app opens at /offers/1; UTM: campaign may." in result.stdout
    [newest, *_] = service.client.get(f"{LINKS}/matches").json()["data"]
    assert newest["installId"] in result.stdout
    assert (newest["matched"], newest["platform"], newest["link"]["slug"]) == (
        True,
        platform,
        "spring",
    )


def test_without_a_click_token_the_network_is_matched(service):
    result = run(service, "bare", "android", start=new_python)
    assert (result.returncode, "Matched by network" in result.stdout) == (0, True), result.stderr
    result = run(service, "bare", "ios")
    assert (result.returncode, "no match (not_allowed)" in result.stderr) == (1, True)


@pytest.mark.parametrize(
    ("slug", "settings", "code", "message"),
    [
        ("unknown", {}, 1, "this workspace has no link with the slug unknown"),
        ("gone", {}, 1, "no match"),
        ("spring", {"PENSTOCK_API_KEY": ""}, 2, "set PENSTOCK_API_KEY"),
        ("spring", {"PENSTOCK_API_KEY": "psk_x"}, 1, "API key"),
        (
            "spring",
            {"PENSTOCK_URL": "http://127.0.0.1:1"},
            1,
            "no Penstock answers at http://127.0.0.1:1",
        ),
    ],
)
def test_an_error_names_its_cause(service, slug, settings, code, message):
    result = run(service, slug, "android", **settings)
    assert (result.returncode, message in result.stderr) == (code, True), result.stderr


@pytest.mark.usefixtures("starts_service")
def test_the_help_says_what_a_slug_is():
    text = " ".join(penstock("links", "simulate", "--help").stdout.split())
    assert "Slug of the link: the part of its URL after /l/." in text
