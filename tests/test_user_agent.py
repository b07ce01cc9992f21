"""What the User-Agent parser reads from real User-Agents, and the event columns of it."""

from pathlib import Path
from time import thread_time

import pytest
from crawlerdetect import CrawlerDetect

from penstock.base import user_agent
from penstock.base.user_agent import IN_APP, PREVIEWS, Device, parse_user_agent
from penstock.events.model import Source
from penstock.events.user_agent_columns import user_agent_columns
from tests import user_agents


@pytest.mark.parametrize(
    ("platform", "known"),
    [
        ("ios", user_agents.IOS),
        ("android", user_agents.ANDROID),
        ("mobile", user_agents.OTHER_MOBILE),
        ("desktop", user_agents.DESKTOP),
    ],
)
def test_browsers_have_a_platform_and_are_neither_robots_nor_in_app(platform, known):
    for text in known.values():
        parsed = parse_user_agent(text)
        assert (parsed.platform, parsed.in_app, parsed.robot) == (platform, "", ""), text


@pytest.mark.parametrize(
    ("platform", "known"),
    [("ios", user_agents.IN_APP_IOS), ("android", user_agents.IN_APP_ANDROID)],
)
def test_in_app_browsers_have_the_name_of_their_app(platform, known):
    for name, text in known.items():
        parsed = parse_user_agent(text)
        assert (parsed.platform, parsed.in_app, parsed.robot) == (platform, name, ""), text


@pytest.mark.parametrize(("text", "robot"), user_agents.ROBOTS.items(), ids=lambda text: text[:30])
def test_robots_have_a_reason(text, robot):
    parsed = parse_user_agent(text)
    assert (parsed.robot, parsed.in_app) == (robot, "")


@pytest.mark.parametrize(
    ("text", "os_major"),
    [
        (user_agents.IOS["safari"], 18),
        (user_agents.IOS["safari_26"], 26),
        (user_agents.IOS["chrome"], 18),
        (user_agents.IOS["ipad_mobile_site"], 16),
        (user_agents.ANDROID["samsung"], 15),
        (user_agents.ANDROID["chrome"], 0),
        (user_agents.IN_APP_ANDROID["facebook"], 14),
        (user_agents.DESKTOP["edge"], 0),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 99999_5 like Mac OS X) AppleWebKit/605.1.15", 0),
    ],
)
def test_the_os_version_is_read_where_it_can_be_trusted(text, os_major):
    assert parse_user_agent(text).os_major == os_major


@pytest.mark.parametrize(
    ("text", "device", "app_device"),
    [
        (user_agents.IOS["safari"], Device.MOBILE, Device.MOBILE),
        (user_agents.IOS["ipad_mobile_site"], Device.TABLET, Device.TABLET),
        (user_agents.ANDROID["firefox"], Device.MOBILE, Device.MOBILE),
        (user_agents.ANDROID["chrome_tablet"], Device.TABLET, Device.MOBILE),
        ("Mozilla/5.0 (Android 9; Tablet; rv:68.0) Firefox/68.0", Device.TABLET, Device.TABLET),
        ("MyApp/1.0 (Android 14)", Device.TABLET, Device.MOBILE),
        ("MyApp/3 CFNetwork/1410 Darwin/22.6.0", Device.DESKTOP, Device.MOBILE),
        (user_agents.DESKTOP["edge"], Device.DESKTOP, Device.MOBILE),
        (user_agents.DESKTOP["safari_mac_or_ipad"], Device.DESKTOP, Device.MOBILE),
    ],
)
def test_the_device_depends_on_whether_a_browser_or_an_app_sent_it(text, device, app_device):
    parsed = parse_user_agent(text)
    assert (parsed.device, parsed.app_device) == (device, app_device)


@pytest.mark.parametrize(
    ("text", "source", "columns"),
    [
        (
            user_agents.IOS["safari"],
            Source.BROWSER,
            {"device": "mobile", "os": "iOS", "browser": "Mobile Safari"},
        ),
        (user_agents.IOS["safari"], Source.APP, {"device": "mobile", "os": "iOS"}),
        (
            user_agents.DESKTOP["edge"],
            Source.BROWSER,
            {"device": "desktop", "os": "Windows", "browser": "Edge"},
        ),
        ("curl/8.7.1", Source.BROWSER, {"device": "bot", "browser": "curl"}),
        ("okhttp/4.12.0", Source.APP, {"device": "mobile"}),
        ("", Source.BROWSER, {}),
    ],
)
def test_event_columns_of_a_user_agent(text, source, columns):
    assert user_agent_columns(parse_user_agent(text), source) == columns


def test_previews_and_in_app_browsers_are_documented():
    page = (Path(__file__).parents[1] / "docs" / "links.md").read_text("utf-8")
    for patterns in (PREVIEWS, IN_APP):
        names = ", ".join(f"`{name}`" for name in patterns)
        assert names in " ".join(page.split()), names


def test_a_new_user_agent_takes_little_time_whatever_its_letters_are():
    started_s = thread_time()
    for number in range(50):
        for letters in ("abc", "a", "a/"):
            parse_user_agent(f"{number}{letters * 1_000}")
    assert thread_time() - started_s < 2  # the library alone takes 80 ms for 1,000 letters


def test_only_the_first_characters_of_a_long_user_agent_are_read_and_kept():
    start = user_agents.DESKTOP["edge"].ljust(user_agent.MAX_CHARS)
    assert parse_user_agent(start + "Googlebot" * 7_000) is parse_user_agent(start)
    assert max(map(len, user_agent._cache)) <= user_agent.MAX_CHARS


@pytest.mark.parametrize(
    "text",
    [
        *user_agents.ROBOTS,
        *user_agents.DESKTOP.values(),
        *user_agents.IOS.values(),
        *user_agents.ANDROID.values(),
        *user_agents.IN_APP_ANDROID.values(),
        "Mozilla/5.0 (compatible; YandexBot/3.0)",
        "YandexSearch/21.3 Mozilla/5.0 (iPhone)",
        "Yandex",
        "yandexSea",
        "okhttp/4.12.0",
        "curl/8.7.1",
        "Safari/605.1.15",
        "",
        " \t",
        "Ünïcode bot",
    ],
)
def test_crawlers_are_those_of_the_library(text):
    assert parse_user_agent(text).is_crawler == CrawlerDetect().is_crawler(text)
