"""The public side: the decision table, the pages, and what requests can never influence."""

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from itertools import product
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from penstock.app import build_services
from penstock.links.model import CLICK_TOKEN_PARAM
from penstock.links.redirect.languages import TEXTS
from tests import loops, user_agents
from tests.cases import cases
from tests.links.conftest import APP, LINKS
from tests.tenant import BASE_URL, visitor

WEB = "https://www.example.com/offers/1?a=b&c=d#top"
STORE, PLAY = APP["appStoreUrl"], APP["playStoreUrl"]
EN = TEXTS["en"]


class Page(HTMLParser):
    """A parsed page: tags with attributes, URLs of links by their text, and visible text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags, self.links, self.text, self._href = [], {}, "", None
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._href = dict(attrs).get("href") if tag == "a" else self._href

    def handle_endtag(self, tag):
        self._href = None if tag == "a" else self._href

    def handle_data(self, data):
        self.text += data
        if self._href is not None:
            self.links[data] = self._href

    def meta(self, name):
        return next(
            (
                attributes["content"]
                for tag, attributes in self.tags
                if tag == "meta" and name in (attributes.get("property"), attributes.get("name"))
            ),
            None,
        )


def page_content(answer):
    """The texts of a page's buttons, or the URL of a redirect."""
    if answer.status_code == 302:
        assert answer.content == b""
        return answer.headers["location"]
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return list(Page(answer.text).links)


IOS, ANDROID, OTHER = user_agents.IOS, user_agents.ANDROID, user_agents.OTHER_MOBILE
IN_APP = [*user_agents.IN_APP_IOS.values(), *user_agents.IN_APP_ANDROID.values()]
DESKTOP = user_agents.DESKTOP
NO_APP: dict[str, str] = {}
OPEN, GET, ON_WEB = EN.open_app, EN.get_app, EN.web
TABLE = [
    # row, app, user agents, with fallbackUrl, without
    ("ios", APP, IOS.values(), [OPEN, GET, ON_WEB], [OPEN, GET]),
    ("ios without a scheme", {"appStoreUrl": STORE}, IOS.values(), [GET, ON_WEB], [GET]),
    ("ios without a store", {"androidPackage": "a.b", "playStoreUrl": PLAY}, IOS.values(), WEB, []),
    ("ios with a scheme alone", {"customScheme": "acme"}, IOS.values(), WEB, [OPEN]),
    ("android", APP, ANDROID.values(), [OPEN, GET, ON_WEB], [OPEN, GET]),
    (
        "android, package alone",
        {"androidPackage": "a.b"},
        ANDROID.values(),
        [OPEN, GET, ON_WEB],
        [OPEN, GET],
    ),
    (
        "android, store alone",
        {"playStoreUrl": PLAY},
        ANDROID.values(),
        [OPEN, GET, ON_WEB],
        [OPEN, GET],
    ),
    (
        "android, another store",
        {"playStoreUrl": "https://store.example/a"},
        ANDROID.values(),
        [GET, ON_WEB],
        [GET],
    ),
    ("android without app data", {"appStoreUrl": STORE}, ANDROID.values(), WEB, []),
    (
        "mobile without app data",
        NO_APP,
        [*IOS.values(), *ANDROID.values(), *OTHER.values()],
        WEB,
        [],
    ),
    ("another phone", APP, OTHER.values(), WEB, ["App Store", "Google Play"]),
    ("in-app browser", APP, IN_APP, [OPEN, GET, ON_WEB], [OPEN, GET]),
    ("in-app browser without app data", NO_APP, IN_APP, [ON_WEB], []),
    ("desktop", APP, DESKTOP.values(), WEB, ["App Store", "Google Play"]),
    ("desktop without app data", NO_APP, DESKTOP.values(), WEB, []),
]


@pytest.mark.parametrize(
    ("row", "app", "user_agents", "with_fallback", "without"), TABLE, ids=[row[0] for row in TABLE]
)
def test_the_decision_table(
    open_link, make_app, make_link, row, app, user_agents, with_fallback, without
):
    app_id = make_app(
        **{"name": "Acme Shop"} | {name: value for name, value in app.items() if name != "name"}
    )
    make_link(slug="web", websiteId=app_id, fallbackUrl=WEB)
    make_link(slug="bare", websiteId=app_id)
    for user_agent in user_agents:
        assert page_content(open_link("web", user_agent)) == with_fallback, user_agent
        assert page_content(open_link("bare", user_agent)) == without, user_agent
        assert Page(open_link("bare", user_agent).text).text.count("Acme Shop") >= 1


@cases("user_agent", user_agents.ROBOTS)
def test_a_robot_gets_open_graph_tags_and_no_link_into_the_app(open_link, two_links, user_agent):
    for slug in ("web", "bare"):
        answer = open_link(slug, user_agent)
        assert answer.status_code == 200
        page = Page(answer.text)
        assert [page.meta(name) for name in ("og:title", "og:url", "og:type")] == [
            "Acme Shop",
            f"{BASE_URL}/l/{slug}",
            "website",
        ]
        assert EN.open_app not in page.links
        assert CLICK_TOKEN_PARAM + "=" not in unquote(answer.text)


@pytest.mark.parametrize(
    "user_agent", [IOS["safari"], ANDROID["chrome"], DESKTOP["edge"], "curl/8.7.1"]
)
def test_head_is_200_with_page_headers(open_link, make_link, user_agent):
    make_link(slug="web", fallbackUrl=WEB)
    answer = open_link("web", user_agent, method="HEAD")
    assert (
        answer.status_code,
        answer.headers["cache-control"],
        answer.headers["x-robots-tag"],
    ) == (200, "no-store", "noindex")
    assert "location" not in answer.headers


# Buttons ------------------------------------------------------------------------------------------


@pytest.fixture
def two_links(make_link):
    """Links with a source: `web` with a fallback URL, and `bare` without."""
    make_link(slug="web", fallbackUrl=WEB, utmSource="stored")
    make_link(slug="bare", utmSource="stored")


def links_of(answer):
    return Page(answer.text).links


def test_ios_opens_the_scheme_with_route_link_and_token(open_link, make_link):
    link = make_link(slug="a", destinationPath="/offers/ü b?x=1#part")
    links = links_of(open_link("a", IOS["safari"]))
    url = links[OPEN]
    assert url.startswith("acmeshop:///offers/%C3%BC%20b?x=1&")
    query = parse_qs(urlsplit(url).query)
    assert (query["x"], query["lk"], urlsplit(url).fragment) == (["1"], [link["id"]], "part")
    assert re.fullmatch(r"[\w-]{22}", query[CLICK_TOKEN_PARAM][0])
    assert links[GET] == STORE


def test_android_opens_an_intent_that_falls_back_to_the_store(open_link, make_link):
    link = make_link(
        slug="a", destinationPath="/offers/1", utmSource="news letter", utmCampaign="a&b=c"
    )
    links = links_of(open_link("a", ANDROID["chrome"]))
    data, extras = links[OPEN].split("#Intent;")
    token = parse_qs(urlsplit(data).query)[CLICK_TOKEN_PARAM][0]
    assert data == f"intent:///offers/1?lk={link['id']}&{CLICK_TOKEN_PARAM}={token}"
    *attributes, end = extras.split(";")
    attributes = dict(extra.split("=", 1) for extra in attributes)
    assert (end, attributes["scheme"], attributes["package"]) == (
        "end",
        "acmeshop",
        "com.example.shop",
    )
    assert unquote(attributes["S.browser_fallback_url"]) == links[GET]
    store = parse_qs(urlsplit(links[GET]).query)
    assert store["id"] == ["com.example.shop"]
    assert parse_qs(store["referrer"][0]) == {
        CLICK_TOKEN_PARAM: [token],
        "utm_source": ["news letter"],
        "utm_campaign": ["a&b=c"],
    }


def test_without_a_scheme_android_opens_the_hosted_url(open_link, make_app, make_link):
    link = make_link(slug="a", websiteId=make_app(androidPackage="com.example.shop"))
    url = links_of(open_link("a", ANDROID["chrome"]))[OPEN]
    assert url.startswith(f"intent://testserver.local/l/a?lk={link['id']}&{CLICK_TOKEN_PARAM}=")
    assert ";scheme=http;package=com.example.shop;" in url.replace("#Intent", "")


def test_each_page_has_its_own_token(open_link, make_link):
    make_link(slug="a")
    assert len({links_of(open_link("a", IOS["safari"]))[OPEN] for _ in range(5)}) == 5


# Languages ----------------------------------------------------------------------------------------


@cases(
    ("accepted", "language"),
    [
        ("de-AT,de;q=0.9,en;q=0.8", "de"), ("fr", "fr"), ("es-419", "es"),
        ("pt-BR,pt;q=0.9", "pt"), ("ja", "ja"), ("JA-jp", "ja"),
        ("en-GB", "en"),
        ("", "en"), ("*", "en"), ("zh-CN,zh;q=0.9", "en"), ("zh;q=0.9,fr;q=0.8,de;q=0.85", "de"),
        ("de;q=0,fr;q=0.1", "fr"),
        ("de;q=0", "en"),
        ("fr ; q=0.5 , ja", "ja"), ("garbage;;;,q=,=,,-,de", "de"), ("x" * 10_000, "en"),
        ("de;q=9", "en"), ("ä,\"<script>", "en"),
    ],
)  # fmt: skip
def test_a_page_is_in_the_most_preferred_language(open_link, two_links, accepted, language):
    answer = open_link("bare", IOS["safari"], Accept_Language=accepted.encode())
    page = Page(answer.text)
    assert page.tags[0][0] == "html"
    assert page.tags[0][1]["lang"] == language
    assert list(page.links) == [TEXTS[language].open_app, TEXTS[language].get_app]
    assert (
        TEXTS[language].missing
        in open_link("unknown", IOS["safari"], Accept_Language=accepted.encode()).text
    )


def test_every_language_has_its_own_texts():
    assert len(
        {getattr(texts, name) for texts in TEXTS.values() for name in texts.__slots__}
    ) == 6 * len(EN.__slots__)


# Links that do not exist --------------------------------------------------------------------------


@pytest.fixture
def disabled_link(client, make_link):
    """A disabled link named `off`."""
    link = make_link(slug="off", fallbackUrl=WEB)
    client.patch(LINKS, json={"id": link["id"], "isActive": False})


@cases(
    ("method", "user_agent"),
    product(("GET", "HEAD"), (IOS["safari"], DESKTOP["edge"], "WhatsApp/2.25.14.75 i", "")),
)
def test_a_disabled_and_an_unknown_link_are_the_same_404(
    open_link, disabled_link, method, user_agent
):
    disabled, unknown = (
        open_link("off", user_agent, method=method),
        open_link("unknown", user_agent, method=method),
    )
    assert disabled.status_code == unknown.status_code == 404
    assert disabled.content == unknown.content
    for answer in (disabled, unknown):
        for name in ("x-request-id", "ratelimit"):  # of each request
            del answer.headers[name]
    assert disabled.headers == unknown.headers
    assert disabled.headers["x-robots-tag"] == "noindex"
    assert disabled.headers["cache-control"] == "no-store"


@cases(
    "slug",
    [
        "web%00", "web%0d%0aSet-Cookie:x", "%2e%2e", "..%2fweb",
        "web/x", "/web", "web.html", "web;x",
        "%F0%9F%8C%B7", "'--", "<script>alert(1)</script>", "a" * 5000,
        "https://evil.example", "//evil.example", "lnk_", "web\u202ex",
    ],
)  # fmt: skip
def test_a_hostile_slug_is_a_404_without_redirect(open_link, two_links, slug):
    answer = open_link(slug, DESKTOP["edge"])
    if slug == "/web":  # the framework ignores an extra slash
        assert answer.headers.get("location") in (None, WEB)
        return
    assert answer.status_code == 404
    assert "location" not in answer.headers
    assert "set-cookie" not in answer.headers
    assert "<script" not in answer.text
    assert "evil" not in answer.text or answer.headers["content-type"] == "application/problem+json"


def test_links_of_a_deleted_app_are_404(open_link, client, make_app, make_link):
    app_id = make_app()
    make_link(slug="a", websiteId=app_id, fallbackUrl=WEB)
    assert open_link("a", DESKTOP["edge"]).status_code == 302
    client.delete(f"/api/settings/websites/{app_id}")
    assert open_link("a", DESKTOP["edge"]).status_code == 404


def test_disabling_and_enabling_take_effect_at_once(open_link, client, make_link):
    link = make_link(slug="a", fallbackUrl=WEB)
    for is_active, status in [(True, 302), (False, 404), (True, 302), (False, 404)]:
        client.patch(LINKS, json={"id": link["id"], "isActive": is_active})
        assert open_link("a", DESKTOP["edge"]).status_code == status


def test_another_node_sees_a_disabled_link_within_a_second(
    services, client, make_link, monkeypatch
):
    from penstock.base import ttl_cache

    node = build_services(services.settings, services.clock, services.warehouse).links
    link = make_link(slug="a")
    assert loops.run(node.find_public, "a") is not None
    client.patch(LINKS, json={"id": link["id"], "isActive": False})
    real = ttl_cache.monotonic
    monkeypatch.setattr(ttl_cache, "monotonic", lambda: real() + 1.0)
    assert loops.run(node.find_public, "a") is None


# Safety -------------------------------------------------------------------------------------------


@cases(
    "query",
    [
        "url=https://evil.example", "redirect=//evil.example", "fallbackUrl=https://evil.example",
        "destinationPath=//evil.example",
        "lk=lnk_other&utm_source=evil", "next=javascript:alert(1)",
        "%0d%0aLocation:%20https://evil.example",
        "to=https%3A%2F%2Fevil.example#",
        "ct=evil", "lk=%22%3E%3Cscript%3E", "qr=1&url=https://evil.example",
        "qr=%22%3E%3Cscript%3E",
    ],
)  # fmt: skip
def test_the_query_never_reaches_the_response(open_link, two_links, query):
    redirect = open_link(f"web?{query}", DESKTOP["edge"])
    assert redirect.headers["location"] == WEB
    for user_agent in (IOS["safari"], ANDROID["chrome"], DESKTOP["edge"]):
        text = open_link(f"bare?{query}", user_agent).text
        assert "evil" not in text
        assert "<script" not in text


@cases(
    "headers",
    [
        {"Host": "evil.example"}, {"X-Forwarded-Host": "evil.example"},
        {"X-Forwarded-Proto": "javascript"},
        {"Forwarded": "host=evil.example"},
        {"Referer": "https://evil.example/\"><script>"},
        {"X-Original-URL": "https://evil.example"}, {"X-Rewrite-URL": "//evil.example"},
        {"Accept-Language": "\"><script>alert(1)</script>"}, {"Origin": "https://evil.example"},
    ],
)  # fmt: skip
def test_headers_never_reach_the_response(open_link, two_links, headers):
    assert open_link("web", DESKTOP["edge"], **headers).headers["location"] == WEB
    text = open_link("bare", ANDROID["chrome"], **headers).text
    assert "evil" not in text
    assert "<script" not in text


def test_a_hostile_user_agent_gets_a_page_without_it(open_link, make_link):
    make_link(slug="a")
    for user_agent in [
        '"><script>alert(1)</script>',
        "Mozilla/5.0 (iPhone; CPU iPhone OS 999999999999 like Mac OS X)",
        "x" * 20_000,
        "\x7f" * 50,
    ]:
        answer = open_link("a", user_agent)
        assert answer.status_code == 200
        assert "<script" not in answer.text


MARKUP = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>{{7*7}}</title></style>"


def test_markup_in_stored_fields_stays_text(open_link, make_app, make_link):
    app_id = make_app(
        **APP
        | {
            "name": MARKUP,
            "appStoreUrl": "https://apps.apple.com/a?\"'><script>x</script>",
            "playStoreUrl": f"{PLAY}&\"'><script>",
        }
    )
    make_link(
        slug="a", websiteId=app_id, name=MARKUP, destinationPath=f"/{MARKUP}",
        fallbackUrl="https://www.example.com/\"'><script>",
        utmSource=MARKUP, utmMedium=MARKUP, utmCampaign=MARKUP,
    )  # fmt: skip
    make_link(
        slug="bare", websiteId=app_id, name=MARKUP, destinationPath=f"/{MARKUP}", utmSource=MARKUP
    )
    phones = (
        IOS["safari"],
        ANDROID["chrome"],
        user_agents.IN_APP_ANDROID["instagram"],
        OTHER["kaios"],
        "Twitterbot/1.0",
    )
    for slug, user_agent in [*(("a", phone) for phone in phones), ("bare", DESKTOP["edge"])]:
        answer = open_link(slug, user_agent)
        if answer.status_code == 302:
            assert "<" not in answer.headers["location"]
            continue
        page = Page(answer.text)
        assert {tag for tag, _ in page.tags} <= {
            "html",
            "head",
            "meta",
            "title",
            "style",
            "body",
            "main",
            "h1",
            "bdi",
            "p",
            "ul",
            "li",
            "a",
            *(("figure", "figcaption", "div", "svg", "g", "path") if slug == "bare" else ()),
        }
        assert {
            name for _, attributes in page.tags for name in attributes if name.startswith("on")
        } == set()
        assert MARKUP in page.text
        assert "49" not in page.text
        for url in page.links.values():
            assert urlsplit(url).scheme in ("https", "intent", "acmeshop")


def test_the_internal_name_is_never_in_a_response(open_link, make_link):
    make_link(slug="web", name="Secret plan", fallbackUrl=WEB)
    make_link(slug="bare", name="Secret plan")
    for user_agent in (IOS["safari"], ANDROID["chrome"], DESKTOP["edge"], "Twitterbot/1.0"):
        for slug in ("web", "bare"):
            answer = open_link(slug, user_agent)
            assert "Secret" not in answer.text + str(answer.headers)


def test_pages_are_small_scriptless_and_under_a_strict_policy(open_link, make_app, make_link):
    app_id = make_app(**APP | {"name": "ü" * 200})
    make_link(
        slug="a",
        websiteId=app_id,
        destinationPath="/" + "ü" * 300,
        fallbackUrl="https://example.com/" + "a" * 2000,
    )
    make_link(slug="bare" * 16, websiteId=app_id)
    for slug, user_agent in [
        ("a", IOS["safari"]),
        ("bare" * 16, DESKTOP["edge"]),
        ("a", user_agents.IN_APP_ANDROID["tiktok"]),
        ("a", "WhatsApp/2 i"),
        ("unknown", IOS["safari"]),
    ]:
        answer = open_link(slug, user_agent, Accept_Language="ja")
        assert len(answer.content) < 15 * 1024
        policy = dict(
            rule.split(" ", 1) for rule in answer.headers["content-security-policy"].split("; ")
        )
        assert re.fullmatch(r"'sha256-[\w+/]{43}='", policy.pop("style-src"))
        assert set(policy.values()) == {"'none'"}
        assert {"default-src", "base-uri", "form-action", "frame-ancestors"} == set(policy)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "javascript" not in answer.text.lower()
        assert not [
            tag
            for tag, attributes in Page(answer.text).tags
            if tag in ("script", "link", "img", "iframe", "form") or "style" in attributes
        ]


def test_get_the_app_copies_the_link_with_its_token_where_an_app_wants_that(
    open_link, make_app, make_link
):
    """On iOS only, for people only; the policy allows this one script by its hash."""
    make_link(slug="copied", websiteId=make_app(**APP, iosClipboardMatching=True))
    make_link(slug="plain")
    answer = open_link("copied")
    page = Page(answer.text)
    token = parse_qs(urlsplit(page.links[OPEN]).query)["ct"][0]
    [button] = [attributes for _, attributes in page.tags if "data-copies" in attributes]
    assert button["href"] == STORE
    assert button["data-copies"] == f"{BASE_URL}/l/copied?ct={token}"
    [script] = re.findall(r"<script>(.*?)</script>", answer.text, re.DOTALL)
    digest = b64encode(sha256(script.encode()).digest()).decode()
    policy = answer.headers["content-security-policy"].split("; ")
    assert f"script-src 'sha256-{digest}'" in policy
    assert len(answer.content) < 15 * 1024
    for slug, user_agent in (
        ("plain", IOS["safari"]),
        ("copied", ANDROID["samsung"]),
        ("copied", DESKTOP["edge"]),
        ("copied", "WhatsApp/2 i"),
    ):
        other = open_link(slug, user_agent)
        assert "<script" not in other.text + other.headers["content-security-policy"]
        assert "script-src" not in other.headers["content-security-policy"]
        assert "data-copies" not in other.text


def test_the_policy_has_the_hash_of_the_style(open_link, make_link):
    make_link(slug="a")
    answer = open_link("a", IOS["safari"])
    style = answer.text.split("<style>")[1].split("</style>")[0]
    assert (
        b64encode(sha256(style.encode()).digest()).decode()
        in answer.headers["content-security-policy"]
    )


@pytest.mark.parametrize("user_agent", [IOS["safari"], DESKTOP["edge"], "curl/8.7.1"])
def test_no_response_may_be_cached_or_indexed(open_link, make_link, user_agent):
    make_link(slug="web", fallbackUrl=WEB)
    answer = open_link("web", user_agent)
    assert (answer.headers["cache-control"], answer.headers["x-robots-tag"]) == (
        "no-store",
        "noindex",
    )


@pytest.mark.parametrize("user_agent", [DESKTOP["edge"], IOS["safari"]])
def test_a_visit_is_answered_without_the_framework_cached_or_not(
    open_on_wire, make_link, forbid_framework, user_agent
):
    link = make_link(fallbackUrl=WEB)
    forbid_framework()

    def open_link(**headers):
        answer = open_on_wire(link["slug"], user_agent, **{"X-Request-Id": "same", **headers})
        return page_content(answer), {**answer.headers, "date": None}

    first = open_link()
    assert [open_link(), open_link()] == [first, first]
    _, headers = open_link(**{"X-Forwarded-For": "203.0.113.9"})
    assert headers["ratelimit"].startswith('"address";')


REPEATED = "ref=7&ref=8&ref=7"
SENT = (
    f"utm_source=mail&utm_term=a+b&{REPEATED}&lk=lnk_1&ct=x&qr=1&c=mine&n=%00&h=%0d%0aSet-Cookie:x"
)
PASSED = f"utm_term=a%20b&{REPEATED}&utm_source=poster&utm_medium=print"
FALLBACK = "https://www.example.com/offers/1?a=b&c=d"


@pytest.mark.parametrize("user_agent", [DESKTOP["edge"], IOS["safari"]])
def test_a_link_passes_the_query_on_to_its_fallback_where_it_is_told_to(
    open_link, make_link, client, user_agent
):
    """The page's own parameters stay, Penstock's do not leave, and the link's UTM is the link's. A
    repeated parameter keeps all its values.
    """

    def fallback(slug):
        answer = open_link(f"{slug}?{SENT}", user_agent)
        if answer.status_code == 302:
            return answer.headers["location"]
        return Page(answer.text).links[ON_WEB]

    fields = {"fallbackUrl": FALLBACK + "#top", "utmSource": "poster", "utmMedium": "print"}
    record = make_link(slug="plain", **fields)
    assert record["passQuery"] is False
    assert fallback("plain") == FALLBACK + "#top"
    make_link(slug="passing", passQuery=True, **fields)
    assert fallback("passing") == f"{FALLBACK}&{PASSED}#top"
    changed = client.patch(LINKS, json={"id": record["id"], "passQuery": True}).json()
    assert (changed["passQuery"], changed["revision"]) == (True, 1)
    assert fallback("plain") == f"{FALLBACK}&{PASSED}#top"


def test_a_query_that_makes_the_url_too_long_is_not_passed_on(open_link, make_link):
    make_link(slug="a", fallbackUrl=WEB, passQuery=True)
    assert open_link("a?p=" + "%27" * 1400, DESKTOP["edge"]).headers["location"] == WEB


ENDINGS = ["", ".", ",", ")", "!", "'", "%3E", "*", "%20", "%0A", "%E2%80%8B", "/", ".)%0D%0A", "-"]


@pytest.mark.parametrize("path", ["/l/spring-sale", "/L/Spring-SALE"])
def test_a_link_is_found_in_capitals_and_with_what_was_pasted_behind_it(server, make_link, path):
    make_link(slug="spring-sale", fallbackUrl=WEB)
    browser = visitor(server, {"User-Agent": DESKTOP["edge"]})
    locations = {
        ending: browser.get(path + ending, follow_redirects=False).headers.get("location")
        for ending in ENDINGS
    }
    assert locations == dict.fromkeys(ENDINGS, WEB)
    for other in ("x", "/x", ".html", "%C3%A9x"):
        assert browser.get(path + other).status_code == 404, other


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_other_methods_are_405(open_link, make_link, method):
    make_link(slug="a")
    assert open_link("a", IOS["safari"], method=method).status_code == 405
