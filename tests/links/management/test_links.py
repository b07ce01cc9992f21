"""Creating, listing and disabling links: every broken rule with its field, on both databases."""

import json
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest

from penstock.app import build_services
from penstock.base.errors import Invalid
from penstock.links.management.schema import RESERVED_SLUGS
from tests.answers import body_of, faults, problem
from tests.cases import cases
from tests.links.conftest import LINKS
from tests.records import new_website
from tests.tenant import BASE_URL


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url


def link(app_id, **fields):
    return {
        "websiteId": app_id,
        "name": "Spring",
        "slug": "spring",
        "destinationPath": "/offers/1",
    } | fields


def test_a_link_may_be_changed_with_its_own_record(client, make_link, open_link):
    record = make_link()
    open_link(record["slug"])
    disabled = client.patch(LINKS, json=record | {"isActive": False, "stats": None})
    assert disabled.status_code == 200, disabled.text
    assert disabled.json() == record | {
        "isActive": False,
        "updatedAt": disabled.json()["updatedAt"],
        "stats": disabled.json()["stats"],
    }


def test_a_link_can_be_disabled_and_archived_from_the_start(client, app_id, open_link):
    body = link(app_id, isActive=False, isArchived=True)
    created = client.post(LINKS, json=body)
    assert [body_of(created, 201)[name] for name in ("isActive", "isArchived")] == [False, True]
    assert open_link("spring").status_code == 404
    assert client.get(LINKS).json()["data"] == []
    [record] = client.get(f"{LINKS}?state=archived").json()["data"]
    assert record["id"] == created.json()["id"]


@cases("field", ["slug", "hostedUrl", "createdAt", "websiteId"])
def test_a_read_only_field_of_a_link_cannot_be_changed(client, make_link, field):
    record = make_link()
    answer = client.patch(LINKS, json=record | {"isActive": False, field: "other"})
    assert faults(answer) == {field: "read_only"}
    assert client.get(LINKS).json()["data"][0]["isActive"] is True


@pytest.mark.usefixtures("warehouse")
def test_a_created_link_has_all_its_fields(client, app_id):
    fields = link(
        app_id,
        fallbackUrl="https://www.example.com/offers?id=1#top",
        utmSource="news letter",
        utmMedium="e&mail",
        utmCampaign="früh=1",
    )
    record = body_of(client.post(LINKS, json=fields), 201)
    assert {name: record[name] for name in fields} == fields
    assert record["isActive"] is True
    assert record["createdAt"] == record["updatedAt"]
    assert record["hostedUrl"] == (
        f"{BASE_URL}/l/spring?lk={record['id']}&utm_source=news%20letter&utm_medium=e%26mail&utm_campaign=fr%C3%BCh%3D1"
    )
    assert client.get(LINKS).json() == {"data": [record], "page": 1, "pageSize": 20, "total": 1}


def test_absent_and_empty_fields_are_null_and_not_in_the_hosted_url(client, app_id):
    record = client.post(
        LINKS, json=link(app_id, fallbackUrl=None, utmSource="", utmMedium=None)
    ).json()
    assert [record[name] for name in ("fallbackUrl", "utmSource", "utmMedium", "utmCampaign")] == [
        None
    ] * 4
    assert parse_qs(urlsplit(record["hostedUrl"]).query, keep_blank_values=True) == {
        "lk": [record["id"]]
    }


SLUGS = {
    "not_a_slug": [
        "", "A", "Spring", "-a", "a-", "-", "a_b", "a.b", "a b", "ä", "а", "a/b", "a%2Fb", "../x",
        "a\n", "\na", "a\x00", "a" * 65, "robots.txt", "ſ",
    ],
    "reserved_slug": sorted(RESERVED_SLUGS),
}  # fmt: skip
DESTINATIONS = {
    "too_short": [""],
    "too_long": ["/" + "a" * 2048],
    "outer_space": [" /a", "/a ", "/a\n", "\t/a", "\u00a0/a", "/a\u2003"],
    "control_character": [
        "/a\rb", "/a\nb", "/a\r\nSet-Cookie: x", "/\x00", "/a\x7fb", "/a\u0085b", "/a\u2028b",
        "/a%0d%0ab", "/a%00", "/%0A", "/a%250Ab", "/a?b=%0D%0A", "/a#%00",
    ],
    "bidi_control": ["/a\u202eb", "/a\u2066b", "/\u200fa", "/a%E2%80%AEb"],
    "not_a_route": [
        "a", "offers/1", "?a", "#a", "//evil.example", "///evil.example", "/\\evil.example",
        "\\\\evil.example", "/%2Fevil.example", "/%2fevil.example", "/%5Cevil.example",
        "/%5cevil.example", "/%252Fevil.example", "https://evil.example", "javascript:alert(1)",
        "myapp://x", "mailto:a@b.example", "/../x", "/a/../x", "/a/..", "/..", "/%2e%2e/x",
        "/%2E%2E/x", "/.%2e/x", "/a/%2e./x", "/a%2F..%2Fx", "/a\\..\\x", "/a%5C..%5Cx",
        "/%252e%252e/x", "/%3F/%2e%2e/x", "/..?a=1", "/..#a",
    ],
}  # fmt: skip
FALLBACKS = {
    "too_long": ["https://example.com/" + "a" * 2048],
    "control_character": ["https://example.com/a\r\nb", "https://exa\tmple.com",
    "https://example.com/\x00", "https://example.com/\u2028"],
    "bidi_control": ["https://example.com/\u202egpj"],
    "not_a_url": [
        "", "example.com", "/a", "//example.com/a", "https:", "https:/example.com",
        "https:///example.com", "https:////example.com", "https://", "https://:443/", "https://?a",
        "http:example.com", "ftp://example.com/", "javascript:alert(1)", "data:text/html,x",
        "intent://a", "myapp://x", "https://example.com:0/", "https://example.com:99999/",
        "https://example.com:http/", "https://example.com:-1/", "https://exa mple.com/",
        "https://example.com/a b", " https://example.com/", "https://example.com/ ",
        "https:\\\\example.com", "https://example.com\\@evil.example", "https://exa<mple.com/",
        "https://-a.example.com/", "https://a..example.com/", "https://[::1",
        "https://[fe80::1%25eth0]/", "https://127.1/", "https://2130706433/", "https://0x7f000001/",
        "https://0177.0.0.1/", "https://1.2.3.4.5/", "https://example.com../",
        "https://\u0301a.example/",
    ],
    "credentials_in_url": ["https://ann@example.com/", "https://ann:pw@example.com/",
    "https://@example.com/", "https://:@example.com/"],
    "private_host": [
        "http://localhost/", "http://localhost:3000/a", "http://LOCALHOST/", "http://localhost./",
        "http://a.localhost/", "http://127.0.0.1/", "http://127.8.9.1/", "http://0.0.0.0/",
        "http://10.0.0.1/", "http://172.16.0.1/", "http://192.168.1.1/", "http://169.254.169.254/",
        "http://100.64.0.1/", "http://224.0.0.1/", "http://255.255.255.255/", "http://[::1]/",
        "http://[::]/", "http://[fe80::1]/", "http://[fd00::1]/", "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/", "http://[2002:7f00:1::]/", "http://intranet/",
        "http://[64:ff9b::10.0.0.1]/", "http://[64:ff9b::7f00:1]/", "http://[64:ff9b:1::1]/",
        "http://[64:ff9b::e000:1]/", "http://[::ffff:192.168.0.1]/", "http://[::127.0.0.1]/",
        "http://[::ffff:0:127.0.0.1]/", "http://[fec0::1]/",
        "http://printer.local/", "http://a.internal/", "http://router.home.arpa/",
        "http://１２７.0.0.1/", "http://ⓛocalhost/",
    ],
    "leads_back": [f"{BASE_URL}/l/spring", f"{BASE_URL}:80/", "https://testserver.local/",
    "http://TESTSERVER.local./a"],
}  # fmt: skip
SHORT_TEXTS = ("name", "utmSource", "utmMedium", "utmCampaign")
TEXTS = {"too_long": ["a" * 201], "control_character": ["a\nb", "a\x00", "a\x7f"]}
CASES = [
    *(("slug", code, value) for code, values in SLUGS.items() for value in values),
    *(("destinationPath", code, value) for code,
    values in DESTINATIONS.items() for value in values),
    *(("fallbackUrl", code, value) for code, values in FALLBACKS.items() for value in values),
    *((field, code, value) for field in SHORT_TEXTS for code,
    values in TEXTS.items() for value in values),
    ("name", "too_short", ""),
    ("name", "too_short", "  "),
    *((field, "wrong_type", 1) for field in ("websiteId", "name", "slug", "destinationPath",
    "fallbackUrl", "utmSource", "utmMedium")),
    *((field, "wrong_type", None) for field in ("websiteId", "name", "slug", "destinationPath")),
    *((field, "unknown_field", "x") for field in ("id", "hostedUrl", "utmTerm")),
    ("isActive", "wrong_type", "x"),
]  # fmt: skip


def test_every_broken_rule_is_reported_with_its_field(client, app_id):
    failures = {}
    for field, code, value in CASES:
        answer = client.post(LINKS, json=link(app_id, **{field: value}))
        errors = [(error["field"], error["code"]) for error in answer.json().get("errors", [])]
        if answer.status_code != 422 or errors != [(field, code)]:
            failures[f"{field} {code} {value!r:.60}"] = (answer.status_code, errors)
    assert failures == {}
    assert client.get(LINKS).json()["total"] == 0


@cases("field", ["websiteId", "name", "slug", "destinationPath"])
def test_a_missing_field_is_reported(client, app_id, field):
    fields = link(app_id)
    del fields[field]
    answer = client.post(LINKS, json=fields)
    assert faults(answer) == {field: "required"}


def test_all_faults_of_a_link_are_reported_at_once(client, app_id):
    answer = client.post(
        LINKS,
        json=link(
            app_id,
            slug="A",
            destinationPath="//a",
            fallbackUrl="http://[::1]",
            name="",
            utmSource="a" * 201,
        ),
    )
    assert set(faults(answer)) == {"slug", "destinationPath", "fallbackUrl", "name", "utmSource"}


@cases("slug", ["a", "1", "spring-sale", "a--b", "0-0", "a" * 64, "apis"])
def test_these_slugs_are_valid(client, app_id, slug):
    assert client.post(LINKS, json=link(app_id, slug=slug)).json()["slug"] == slug


@pytest.mark.every_database
@cases(
    "path",
    [
        "/", "/a", "/a/", "/a//b", "/a b", "/a..b", "/...", "/a/.b", "/ä/日本", "/%C3%A4", "/100%",
        "/a?x=//b&y=/../z", "/a#/../b", "/javascript:alert(1)", '/"><script>', "/a:b@c",
        "/" + "a" * 2047,
    ],
)  # fmt: skip
def test_these_destinations_are_stored_unchanged(make_link, path):
    assert make_link(destinationPath=path)["destinationPath"] == path


@pytest.mark.every_database
@cases(
    ("value", "stored"),
    [
        ("https://example.com", "https://example.com"),
        ("HTTPS://Example.COM:8443/A?b=c#d", "https://example.com:8443/A?b=c#d"),
        ("https://example.com./a", "https://example.com./a"),
        (
            "https://bücher.example/straße?q=ü#ö",
            "https://xn--bcher-kva.example/stra%C3%9Fe?q=%C3%BC#%C3%B6",
        ),
        ("https://日本語.example/", "https://xn--wgv71a119e.example/"),
        ("https://xn--bcher-kva.example/", "https://xn--bcher-kva.example/"),
        ("https://８.8.8.8/", "https://8.8.8.8/"),
        ("https://[2606:4700:0:0::1111]:443/", "https://[2606:4700::1111]:443/"),
        ("https://example.com/%7Ea%2F?x=%22&y=[1]", "https://example.com/%7Ea%2F?x=%22&y=[1]"),
        ("https://example.com/\"<b>'", "https://example.com/%22%3Cb%3E'"),
        ("https://my_shop.example.com/", "https://my_shop.example.com/"),
        ("http://testserver.local:8081/", None),
        ("http://sub.example.local.example.com/", "http://sub.example.local.example.com/"),
    ],
)
def test_a_fallback_url_is_stored_in_ascii(client, app_id, value, stored):
    form = link(app_id, fallbackUrl=value, slug=uuid4().hex)
    answer = client.post(LINKS, json=form)
    if stored is None:
        assert answer.json()["errors"][0]["code"] == "private_host"
    else:
        assert answer.json()["fallbackUrl"] == stored


def test_private_hosts_can_be_allowed_but_never_the_links_own_host(services, workspace, app_id):
    settings = services.settings.model_copy(update={"links_to_private_hosts": True})
    links = build_services(settings, services.clock, services.warehouse).links
    own, local = (
        {**link(app_id), "fallbackUrl": url} for url in (f"{BASE_URL}/", "http://localhost:3000/")
    )
    assert (
        links.create(workspace.id, json.dumps(local).encode()).fallback_url
        == "http://localhost:3000/"
    )
    with pytest.raises(Invalid) as refused:
        links.create(workspace.id, json.dumps(own).encode())
    assert [fault.code for fault in refused.value.faults] == ["leads_back"]


@cases("which", ["unknown", "foreign", "web", "deleted", "nul", "empty"])
def test_a_website_that_is_not_an_app_of_the_workspace_is_not_found(
    client, workspace, other_workspace, make_app, which
):
    foreign = new_website(other_workspace.client, "Theirs", "mobile")
    gone = make_app()
    client.delete(f"/api/settings/websites/{gone}")
    website_id = {
        "unknown": "web_unknown", "foreign": foreign, "web": workspace.website_id, "deleted": gone,
        "nul": "web\x00", "empty": "",
    }[which]  # fmt: skip
    answer = client.post(LINKS, json=link(website_id))
    assert (answer.status_code, answer.json()["code"], answer.json()["detail"]) == (
        404,
        "app_not_found",
        "App not found: the website with this ID is of kind web, not mobile."
        if which == "web"
        else "App not found",
    )


@pytest.mark.every_database
def test_a_taken_slug_is_a_conflict_in_every_workspace_and_after_disabling(
    client, other_workspace, make_link, app_id
):
    first = make_link(slug="spring")
    client.patch(LINKS, json={"id": first["id"], "isActive": False})
    theirs = new_website(other_workspace.client, "Theirs", "mobile")
    for answer in (
        client.post(LINKS, json=link(app_id)),
        other_workspace.client.post(LINKS, json=link(theirs)),
    ):
        assert problem(answer) == (409, "slug_taken")
        assert "slug" in answer.json()["detail"]


@pytest.mark.usefixtures("warehouse")
def test_a_link_is_disabled_and_enabled_again(client, clock, make_link):
    record = make_link()
    clock.advance(seconds=5)
    disabled = client.patch(LINKS, json={"id": record["id"], "isActive": False})
    assert disabled.status_code == 200
    assert disabled.json() == record | {
        "isActive": False,
        "updatedAt": disabled.json()["updatedAt"],
    }
    assert disabled.json()["updatedAt"] > record["updatedAt"]
    clock.advance(seconds=5)
    answer = client.patch(LINKS, json={"id": record["id"], "isActive": False})
    assert answer.json() == disabled.json()
    on = client.patch(LINKS, json={"id": record["id"], "isActive": True}).json()
    assert on["isActive"] is True
    assert client.get(LINKS).json()["data"] == [on]


def test_a_malformed_change_is_reported(client, make_link):
    link_id = make_link()["id"]
    for body, field, code in [
        ({"isActive": False}, "id", "required"),
        ({"id": link_id, "isActive": "false"}, "isActive", "wrong_type"),
        ({"id": link_id, "isActive": None}, "isActive", "not_null"),
        ({"id": 1, "isActive": False}, "id", "wrong_type"),
        ({"id": link_id, "isActive": False, "colour": "red"}, "colour", "unknown_field"),
    ]:
        answer = client.patch(LINKS, json=body)
        assert faults(answer) == {field: code}, body


@pytest.mark.usefixtures("warehouse")
def test_a_link_of_another_workspace_cannot_be_changed_or_read(client, other_workspace, make_link):
    record = make_link()
    for link_id in (record["id"], "lnk_unknown", "", "\x00"):
        answer = other_workspace.client.patch(LINKS, json={"id": link_id, "isActive": False})
        assert problem(answer) == (404, "not_found")
    assert other_workspace.client.get(LINKS).json()["total"] == 0
    assert client.get(LINKS).json()["data"] == [record]


def test_the_list_pages_newest_first(client, clock, make_link):
    link_ids = []
    for _ in range(5):
        clock.advance(seconds=1)
        link_ids.insert(0, make_link()["id"])
    pages = [
        client.get(LINKS, params={"page": page, "pageSize": 2}).json() for page in (1, 2, 3, 4)
    ]
    assert [[record["id"] for record in page["data"]] for page in pages] == [
        link_ids[:2],
        link_ids[2:4],
        link_ids[4:],
        [],
    ]
    assert {page["total"] for page in pages} == {5}


@pytest.mark.every_database
def test_the_list_is_searched_by_name_and_slug_and_filtered_by_app_and_state(
    client, app_id, make_app, make_link
):
    other = make_app(name="Other")
    a = make_link(name="Frühling ÄRZTE 50%", slug="one")["id"]
    b = make_link(name="Summer", slug="fruh-two", websiteId=other)["id"]
    c = make_link(name="Winter_sale", slug="three")["id"]
    client.patch(LINKS, json={"id": c, "isActive": False})

    def find(**query):
        return {record["id"] for record in body_of(client.get(LINKS, params=query))["data"]}

    assert find(search="ärzte") == find(search="FRÜHL") == find(search="50%") == {a}
    assert find(search="%") == {a}
    assert find(search="_") == {c}
    assert find(search="FRUH-") == {b}
    assert find(search="three") == {c}
    assert find(search="") == {a, b, c}
    assert find(websiteId=app_id) == {a, c}
    assert find(websiteId=other, search="summer", state="active") == {b}
    assert find(state="disabled") == {c}
    assert find(state="active") == {a, b}


@cases(
    "query",
    [
        {"state": "gone"},
        {"page": 0},
        {"pageSize": 101},
        {"search": "a\x00"},
        {"search": "a" * 201},
        {"q": "a"},
        {"state": ""},
    ],
)
def test_a_malformed_query_is_400_with_its_parameter(client, workspace, query):
    answer = client.get(LINKS, params=query)
    assert list(faults(answer, 400)) == list(query)
