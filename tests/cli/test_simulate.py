"""`penstock links simulate` as a real process against a real service."""

import re

import pytest

from tests.cli import commands
from tests.links.conftest import APP, LINKS
from tests.processes import new_python
from tests.records import create, new_website
from tests.serving import error_of, output_of, penstock


@pytest.fixture(scope="module")
def service(service):
    """With links into an app and into a bare one, of which one is disabled."""
    client = service.client
    app = new_website(client, **APP | {"kind": "mobile"})
    bare = new_website(client, "Bare", "mobile")
    link = {"name": "Spring", "destinationPath": "/offers/1", "utmCampaign": "may"}
    for website_id, slug in ((app, "spring"), (app, "spring-2"), (app, "gone"), (bare, "bare")):
        create(client, LINKS, {**link, "websiteId": website_id, "slug": slug})
    [gone] = client.get(LINKS, params={"search": "gone"}).json()["data"]
    client.patch(LINKS, json={"id": gone["id"], "isActive": False})
    return service


def run(service, slug, platform, **settings):
    return commands.run(service, "links", "simulate", slug, "--platform", platform, **settings)


@pytest.mark.parametrize(
    ("platform", "method"),
    [("ios", "the click token"), ("android", "Google Play's install referrer")],
)
def test_a_tap_and_a_first_open_are_simulated_and_explained(service, platform, method):
    output = output_of(run(service, "spring", platform))
    assert f"Matched by {method}" in output
    assert "with confidence 1." in output
    assert re.search(r"Clicked on \d+ \w{3} \d{4}, \d\d:\d\d UTC; the app opens", output)
    assert "the app opens at /offers/1; UTM: campaign may." in output
    [newest, *_] = service.client.get(f"{LINKS}/matches").json()["data"]
    assert newest["installId"] in output
    assert (newest["matched"], newest["platform"], newest["link"]["slug"]) == (
        True,
        platform,
        "spring",
    )


def test_without_a_click_token_the_network_is_matched(service):
    assert "Matched by network" in output_of(run(service, "bare", "android", start=new_python))
    assert "no match (not_allowed)" in error_of(run(service, "bare", "ios"))


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
    assert message in error_of(run(service, slug, "android", **settings), code)


@pytest.mark.usefixtures("starts_service")
def test_the_help_says_what_a_slug_is():
    text = " ".join(penstock("links", "simulate", "--help").stdout.split())
    assert "Slug of the link: the part of its URL after /l/." in text
