"""Landing pages in a browser, on phones and computers, with and without JavaScript."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from penstock.links.redirect.languages import TEXTS
from tests import user_agents
from tests.browser.conftest import patient
from tests.cases import full_except
from tests.links.conftest import APP, LINKS
from tests.records import create, new_website
from tests.serving import Served

Open = Callable[..., Page]

PHONE, SMALL_PHONE, COMPUTER = (390, 844), (320, 568), (1280, 800)
IPHONE, INSTAGRAM = user_agents.IOS["safari"], user_agents.IN_APP_IOS["instagram"]
ANDROID = user_agents.ANDROID["chrome"]
EDGE = user_agents.DESKTOP["edge"]
WEB = "https://www.example.com/"
NAMES = {
    "long": "Wonderful " * 20,
    "word": "W" * 200,
    "mixed": "متجر أكمي (abc) 🛍️",
    "markup": "<img src=x onerror=alert(1)><script>document.title = 'run'</script>",
}


@pytest.fixture(scope="module")
def landing(starts_service: None, tmp_path_factory) -> Iterator[str]:
    """The address of links: `web` with a fallback, `bare`, a disabled `off`, one for each name."""
    served = Served(tmp_path_factory.mktemp("landing") / "data")
    try:
        served.first_account()

        def make(slug: str, name: str = "Acme Shop", **fields: Any) -> str:
            app_id = new_website(served.client, **{**APP, "name": name, "kind": "mobile"})
            link = {"websiteId": app_id, "name": "a", "slug": slug, "destinationPath": "/offers/1"}
            record_id: str = create(served.client, LINKS, {**link, **fields})["id"]
            return record_id

        make("web", fallbackUrl=WEB)
        make("bare")
        app = {**APP, "name": "Acme Shop", "kind": "mobile", "iosClipboardMatching": True}
        make("copied", websiteId=new_website(served.client, **app))
        served.client.patch(LINKS, json={"id": make("off"), "isActive": False}).raise_for_status()
        for slug, name in NAMES.items():
            make(slug, name)
        yield f"{served.url}/l"
    finally:
        served.kill()


@pytest.fixture
def visit(browser: Browser, landing: str) -> Iterator[Open]:
    """Opens a link on a device. The page may request nothing else and must obey its policy."""
    contexts, unexpected = [], []

    def visit(
        slug: str, user_agent: str, size: tuple[int, int], *, script: bool = True, **more: Any
    ) -> Page:
        context = patient(
            browser.new_context(
                user_agent=user_agent,
                viewport={"width": size[0], "height": size[1]},
                java_script_enabled=script,
                **{"locale": "en-GB", **more},
            )
        )
        contexts.append(context)
        page, address = context.new_page(), f"{landing}/{slug}"
        page.on(
            "request",
            lambda request: (
                None
                if request.url in (address, APP["appStoreUrl"])
                else unexpected.append(request.url)
            ),
        )
        page.on(
            "console",
            lambda message: None if "404" in message.text else unexpected.append(message.text),
        )
        page.goto(address)
        return page

    yield visit
    for context in contexts:
        context.close()
    assert unexpected == []


def buttons(page: Page) -> list[str]:
    return page.get_by_role("link").all_inner_texts()


EN = TEXTS["en"]
ALL = [EN.open_app, EN.get_app, EN.web]


@pytest.mark.parametrize(
    "script",
    [True, pytest.param(False, marks=pytest.mark.full("each device without script"))],
    ids=["with script", "without"],
)
@pytest.mark.parametrize(
    "scheme", ["light", pytest.param("dark", marks=pytest.mark.full("the other theme"))]
)
@pytest.mark.parametrize(
    ("user_agent", "size", "slug", "expected"),
    [
        (IPHONE, PHONE, "web", ALL),
        (IPHONE, PHONE, "bare", ALL[:2]),
        pytest.param(ANDROID, PHONE, "web", ALL, marks=pytest.mark.full("another phone")),
        pytest.param(INSTAGRAM, SMALL_PHONE, "web", ALL, marks=pytest.mark.full("another phone")),
        (EDGE, COMPUTER, "bare", ["App Store", "Google Play"]),
        (IPHONE, PHONE, "off", []),
    ],
    ids=["iphone", "iphone, bare", "android", "instagram", "computer", "disabled"],
)
def test_a_page_shows_its_buttons_inside_the_window(
    visit, user_agent, size, slug, expected, scheme, script
):
    page = visit(slug, user_agent, size, script=script, color_scheme=scheme)
    assert page.get_by_role("heading", level=1).inner_text() == (
        "Acme Shop" if slug != "off" else EN.missing
    )
    assert buttons(page) == expected
    for button in page.get_by_role("link").all():
        box = button.bounding_box()
        assert box is not None
        assert box["height"] >= 44
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= size[0]
        assert box["y"] + box["height"] <= size[1]


@pytest.mark.parametrize("name", full_except(["markup"], NAMES, "other texts"))
@pytest.mark.parametrize(
    ("user_agent", "size"),
    [
        (IPHONE, SMALL_PHONE),
        pytest.param(EDGE, COMPUTER, marks=pytest.mark.full("another width")),
    ],
    ids=["phone", "computer"],
)
def test_no_name_widens_the_page_hides_buttons_or_runs_as_script(visit, user_agent, size, name):
    page = visit(name, user_agent, size)
    assert page.title().strip() == NAMES[name].strip()
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    first = page.get_by_role("link").first.bounding_box()
    assert first is not None
    assert first["y"] + first["height"] <= size[1]


def test_the_code_is_a_square_that_a_phone_can_read_in_any_scheme(visit):
    for scheme in ("light", "dark"):
        page = visit("bare", EDGE, COMPUTER, color_scheme=scheme)
        box = page.locator("svg").bounding_box()
        assert box is not None
        assert box["width"] == pytest.approx(box["height"], abs=1)
        assert box["width"] >= 200
        assert page.locator("svg path").first.get_attribute("fill") == "#fff"
        assert page.get_by_text("/l/bare").is_visible()


@pytest.mark.parametrize("language", full_except(["de"], TEXTS, "other languages"))
def test_a_page_speaks_the_browsers_language(visit, language):
    page = visit("web", IPHONE, PHONE, locale=language)
    texts = TEXTS[language]
    assert buttons(page) == [texts.open_app, texts.get_app, texts.web]
    assert page.get_by_text(texts.hint).is_visible()


def test_get_the_app_copies_the_link_and_leads_to_the_store(visit):
    page = visit("copied", IPHONE, PHONE, permissions=["clipboard-read", "clipboard-write"])
    assert page.get_by_text(EN.copies).is_visible()
    opened = page.get_by_role("link", name=EN.open_app).get_attribute("href") or ""
    page.route("https://apps.apple.com/**", lambda route: route.fulfill(status=204))
    with page.expect_request("https://apps.apple.com/**"):
        page.get_by_role("link", name=EN.get_app).click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == f"{page.url}?ct={opened.rpartition('ct=')[2]}"


def test_without_script_get_the_app_is_a_link_to_the_store(visit):
    page = visit("copied", IPHONE, PHONE, script=False)
    button = page.get_by_role("link", name=EN.get_app)
    assert button.get_attribute("href") == APP["appStoreUrl"]
    assert not page.get_by_text(EN.copies).is_visible()
