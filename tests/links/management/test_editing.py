"""Editing links: revisions, what clicks keep, expiry, tags and archive, on both databases."""

import pytest

from penstock.base.clock import iso
from tests.answers import body_of, columns_of, problem
from tests.cases import cases
from tests.links.attribution.conftest import Phone
from tests.links.conftest import LINKS
from tests.tenant import audit_log
from tests.waiting import eventually

EDITED = {
    "name": "Summer",
    "destinationPath": "/offers/2",
    "fallbackUrl": "https://www.example.com/2",
    "utmSource": "podcast",
    "utmMedium": "audio",
    "utmCampaign": "summer",
    "expiresAt": "2299-01-01T00:00:00.000Z",
    "expiredUrl": "https://www.example.com/over",
    "tags": ["eu", "summer"],
}
WEB = "https://www.example.com/over"


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url


@pytest.fixture
def edit(client):
    """Changes a link; returns its record."""

    def edit(record, **changes):
        return body_of(client.patch(LINKS, json={"id": record["id"], **changes}))

    return edit


def history(client, record):
    return client.get(f"{LINKS}/{record['id']}/history").json()


@pytest.mark.usefixtures("warehouse")
def test_one_link_is_read_with_its_statistics(client, make_link):
    record = make_link(tags=["Spring", "eu", "spring"])
    assert record["tags"] == ["eu", "spring"]
    assert client.get(f"{LINKS}/{record['id']}").json() == record


@pytest.mark.usefixtures("warehouse")
def test_every_field_but_app_and_slug_can_be_edited(client, clock, make_link, edit):
    record = make_link()
    clock.advance(seconds=5)
    edited = edit(record, **EDITED)
    new = {name: edited[name] for name in ("hostedUrl", "updatedAt")}
    assert edited == record | EDITED | new | {"revision": 2}
    assert edited["updatedAt"] > record["updatedAt"]
    assert "utm_source=podcast" in edited["hostedUrl"]
    assert client.get(f"{LINKS}/{record['id']}").json() == edited
    optional = [name for name in EDITED if name not in ("name", "destinationPath", "tags")]
    cleared = edit(record, **dict.fromkeys(optional), tags=[])
    assert [cleared[name] for name in optional] == [None] * len(optional)
    assert (cleared["tags"], cleared["revision"]) == ([], 3)


@pytest.mark.usefixtures("warehouse")
@cases(
    ("field", "value", "code"),
    [
        ("name", None, "not_null"),
        ("name", " ", "too_short"),
        ("destinationPath", "//evil.example", "not_a_route"),
        ("destinationPath", None, "not_null"),
        ("fallbackUrl", "http://localhost/", "private_host"),
        ("expiredUrl", "http://testserver.local/l/a", "leads_back"),
        ("utmSource", "a" * 201, "too_long"),
        ("expiresAt", "tomorrow", "not_a_time"),
        ("expiresAt", 1_700_000_000, "looks_like_seconds"),
        ("expiresAt", 1_700_000_000_000_000, "looks_like_microseconds"),
        ("tags", None, "not_null"),
        ("tags", ["a"] * 21, "too_many"),
        ("tags", ["a,b"], "not_a_tag"),
        ("tags", [" "], "not_a_tag"),
        ("tags", ["a\n"], "control_character"),
        ("tags", ["a" * 51], "too_long"),
        ("isArchived", "yes", "wrong_type"),
        ("slug", "other", "read_only"),
        ("revision", 7, "read_only"),
    ],
)
def test_a_broken_rule_of_an_edit_is_reported_and_changes_nothing(
    client, make_link, field, value, code
):
    record = make_link()
    answer = client.patch(LINKS, json={"id": record["id"], "name": "Other", field: value})
    faults = [
        (error["field"].partition("[")[0], error["code"]) for error in answer.json()["errors"]
    ]
    assert (answer.status_code, faults) == (422, [(field, code)])
    assert client.get(f"{LINKS}/{record['id']}").json() == record


@pytest.mark.every_database
def test_a_link_that_changed_since_it_was_read_is_not_overwritten(client, make_link):
    stale = make_link()
    changed = client.patch(LINKS, json={"id": stale["id"], "name": "Other"}).json()
    assert problem(client.patch(LINKS, json=stale)) == (409, "stale_revision")
    assert client.get(f"{LINKS}/{stale['id']}").json() == changed


@pytest.mark.every_database
def test_the_history_has_every_revision_and_the_present_values_make_none(
    client, clock, make_link, edit
):
    record = make_link(utmSource="news")
    clock.advance(seconds=5)
    second = edit(record, destinationPath="/offers/2")
    clock.advance(seconds=5)
    assert edit(record, destinationPath="/offers/2", utmSource="news") == second
    assert edit(record, isArchived=True, tags=["a"])["revision"] == 2
    clock.advance(seconds=5)
    edit(record, name="Third", expiresAt="2299-01-01T00:00:00Z")
    revisions = history(client, record)
    assert revisions["total"] == 3
    assert columns_of(revisions["data"], "revision", "name", "destinationPath", "utmSource") == [
        (3, "Third", "/offers/2", "news"),
        (2, "Spring", "/offers/2", "news"),
        (1, "Spring", "/offers/1", "news"),
    ]
    assert revisions["data"][0]["expiresAt"] == "2299-01-01T00:00:00.000Z"
    times = [entry["at"] for entry in revisions["data"]]
    assert times == sorted(set(times), reverse=True)
    assert times[-1] == record["createdAt"]


def test_an_edit_is_in_the_audit_log(workspace, client, make_link, edit):
    record = make_link()
    edit(record, destinationPath="/offers/2")
    edit(record, isActive=False)
    changed = audit_log(workspace.browser, "link_changed")
    assert [entry["target"] for entry in changed] == [
        f"{record['id']} {record['slug']}: destinationPath"
    ]


@pytest.mark.usefixtures("warehouse")
def test_a_click_keeps_destination_and_utm_of_its_time(
    client, server, app_id, make_link, edit, clicks
):
    record = make_link(utmSource="news")
    phone = Phone(server, app_id, "android")
    token = phone.tap(record)
    edit(record, destinationPath="/offers/2", utmSource="podcast", name="Other")
    later_token = phone.tap(record)
    for _ in range(2):  # a retry has the same answer
        first = phone.open(installId="i-1", clickToken=token)
        assert (first["destinationPath"], first["utm"]["source"]) == ("/offers/1", "news")
    later = phone.open(installId="i-2", clickToken=later_token)
    assert (later["destinationPath"], later["utm"]["source"]) == ("/offers/2", "podcast")
    by_url = phone.open(installId="i-3", url=record["hostedUrl"])
    assert (by_url["destinationPath"], by_url["utm"]["source"]) == ("/offers/2", "podcast")
    edit(record, destinationPath="/offers/3", utmSource=None)
    again = phone.open(installId="i-3", url="")
    assert (again["destinationPath"], again["utm"]["source"]) == ("/offers/2", "podcast")
    rows = clicks(record, 2)
    assert columns_of(rows, "link_revision", "utm_source") == [(1, "news"), (2, "podcast")]


def test_an_edit_applies_at_once(make_link, edit, open_link):
    record = make_link(fallbackUrl="https://www.example.com/1")
    desktop = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"
    assert open_link(record["slug"], desktop).headers["location"] == "https://www.example.com/1"
    edit(record, fallbackUrl="https://www.example.com/2")
    assert open_link(record["slug"], desktop).headers["location"] == "https://www.example.com/2"


@pytest.mark.usefixtures("warehouse")
def test_an_expired_link_leads_to_its_url_or_is_not_ids(
    server, app_id, clock, make_link, edit, open_link, client
):
    record = make_link(expiresAt=iso(clock() + 60_000), expiredUrl=WEB)
    phone = Phone(server, app_id, "android")
    token = phone.tap(record)
    assert open_link(record["slug"]).status_code == 200
    clock.advance(seconds=60)
    answer = open_link(record["slug"])
    assert (answer.status_code, answer.headers["location"]) == (302, WEB)
    edit(record, expiredUrl=None)
    gone, unknown = open_link(record["slug"]), open_link("no-such-link")
    assert (gone.status_code, gone.text) == (404, unknown.text)
    assert phone.outcome(installId="i-1", clickToken=token) == ("click_token", None)
    assert phone.outcome(installId="i-2", url=record["hostedUrl"]) == ("url", "link_expired")
    eventually(
        lambda: client.get(f"{LINKS}/{record['id']}").json()["stats"]["clicks"] == 2
    )  # none of after the expiry


def test_lists_leave_out_archived_links_which_work_as_before(
    client, clock, make_link, edit, open_link
):
    active, disabled, archived = make_link(), make_link(), make_link()
    expired = make_link(expiresAt=iso(clock()))
    edit(disabled, isActive=False)
    assert edit(archived, isArchived=True)["isArchived"] is True
    assert open_link(archived["slug"]).status_code == 200

    def listed(**query):
        return {record["id"] for record in client.get(LINKS, params=query).json()["data"]}

    assert listed() == {active["id"], disabled["id"], expired["id"]}
    for state, record in {
        "active": active,
        "disabled": disabled,
        "expired": expired,
        "archived": archived,
    }.items():
        assert listed(state=state) == {record["id"]}
    edit(archived, isArchived=False)
    assert archived["id"] in listed()


@pytest.mark.every_database
def test_links_are_found_by_tag(client, other_workspace, make_link, edit):
    both, single = make_link(tags=["Frühling", "eu"]), make_link(tags=["us-east"])

    def ids(**query):
        return {record["id"] for record in client.get(LINKS, params=query).json()["data"]}

    assert ids(tag="FRÜHLING") == ids(tag="eu") == ids(search="ühl") == {both["id"]}
    assert ids(search="US-EA") == {single["id"]}
    assert ids(tag="us") == set()
    edit(both, tags=["us-east"])
    assert ids(tag="eu") == ids(search="ühl") == set()
    assert ids(tag="us-east") == {both["id"], single["id"]}
    assert other_workspace.client.get(LINKS, params={"tag": "us-east"}).json()["total"] == 0
    assert client.get(LINKS, params={"tag": "a,b"}).status_code == 400
