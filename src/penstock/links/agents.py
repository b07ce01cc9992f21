"""Who opens a link, as its User-Agent tells: the platform, the app whose browser it is, or the program that is no person."""

import re
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

import ua_parser
from crawlerdetect import CrawlerDetect  # type: ignore[import-untyped]

_LONGEST = 1000
_crawlers = CrawlerDetect()


class Platform(StrEnum):
    """The value is the warehouse's spelling. An iPad says that it is a Mac, and is taken for one."""

    IOS = "ios"
    ANDROID = "android"
    MOBILE = "mobile"
    """A phone of another kind."""
    DESKTOP = "desktop"


class Agent(NamedTuple):
    """os_major: 0 when unknown. in_app: the app whose browser it is; empty for any other. robot: why it is no person; empty for one."""

    platform: Platform
    os_major: int
    in_app: str
    robot: str


PREVIEWS = {
    "facebook": "facebookexternalhit|Facebot|facebookcatalog|meta-externalfetcher",
    "whatsapp": "^WhatsApp/",
    "telegram": "TelegramBot",
    "slack": "Slackbot|Slack-ImgProxy",
    "x": "Twitterbot",
    "linkedin": "LinkedInBot",
    "discord": "Discordbot",
    "teams": "SkypeUriPreview|Microsoft Preview|OutlookLinkPreview",
    "google": "Google-PageRenderer|Google-Read-Aloud",
    "pinterest": "Pinterestbot",
    "reddit": "redditbot",
    "snapchat": "Snap URL Preview",
    "viber": "^Viber/",
    "line": "line-poker",
    "kakaotalk": "kakaotalk-scrap",
    "vk": "vkShare",
    "bluesky": "Bluesky Cardyb",
    "mastodon": "Mastodon/",
    "matrix": "^Synapse",
    "mattermost": "Mattermost-Bot",
    "rocketchat": "Rocket.Chat",
    "zoom": "ZoomBot",
    "iframely": "Iframely",
    "embedly": "Embedly",
}
"""Programs that fetch a link to show a preview of it where it was shared, with the pattern of their User-Agent."""

IN_APP = {
    "facebook": r"FBAN/|FBAV/|FB_IAB/",
    "instagram": r"Instagram ",
    "tiktok": r"musical_ly|BytedanceWebview|TikTok|trill_",
    "snapchat": r"Snapchat/",
    "pinterest": r"\[Pinterest/",
    "linkedin": r"LinkedInApp",
    "x": r"Twitter for |TwitterAndroid",
    "telegram": r"Telegram-Android|Telegram-iOS",
    "whatsapp": r"WhatsApp/",
    "slack": r"\bSlack(?:_SSB)?/",
    "line": r"\bLine/",
    "wechat": r"MicroMessenger/",
    "kakaotalk": r"KAKAOTALK",
    "viber": r"Viber/",
    "vk": r"VKAndroidApp|VKClient",
    "reddit": r"Reddit/",
    "discord": r"Discord/",
    "threads": r"Barcelona ",
    "google": r"\bGSA/",
}
"""Apps that open links in a browser of their own, with the pattern of its User-Agent. Nothing leaves these without a tap."""

_ANDROID_WEB_VIEW = re.compile(r"; wv\)")
_PREVIEW = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in PREVIEWS.items()))
_IN_APP = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in IN_APP.items()))
# Chrome tells "Android 10; K" whatever the device runs. Safari from 26 on keeps saying iOS 18; its own version is that of the system.
_REDUCED_ANDROID = re.compile(r"Android 10; K\)")
_SAFARI_VERSION = re.compile(r" Version/(\d{2,3})\.")
FROZEN_IOS = 18


@lru_cache(maxsize=10_000)
def agent_of(user_agent: str) -> Agent:
    user_agent = user_agent[:_LONGEST]
    parsed = ua_parser.parse(user_agent)
    platform = _platform(user_agent, parsed.os.family if parsed.os else "")
    os_major = _os_major(user_agent, platform, (parsed.os.major if parsed.os else None) or "")
    robot = _robot(user_agent)
    return Agent(platform, os_major, "" if robot else _in_app(user_agent, platform), robot)


def _platform(user_agent: str, system: str) -> Platform:
    if system == "iOS":
        return Platform.IOS
    if system == "Android":
        return Platform.ANDROID
    return Platform.MOBILE if "Mobi" in user_agent or system in ("KaiOS", "Windows Phone") else Platform.DESKTOP


def _os_major(user_agent: str, platform: Platform, told: str) -> int:
    if platform not in (Platform.IOS, Platform.ANDROID) or _REDUCED_ANDROID.search(user_agent):
        return 0
    major = int(told) if told.isascii() and told.isdigit() and len(told) <= 3 else 0
    safari = _SAFARI_VERSION.search(user_agent)
    return int(safari[1]) if platform is Platform.IOS and major == FROZEN_IOS and safari and int(safari[1]) > major else major


def _robot(user_agent: str) -> str:
    if not user_agent.strip():
        return "no_user_agent"
    if preview := _PREVIEW.search(user_agent):
        return f"preview:{preview.lastgroup}"
    return "crawler" if _crawlers.isCrawler(user_agent) else ""


def _in_app(user_agent: str, platform: Platform) -> str:
    if known := _IN_APP.search(user_agent):
        return known.lastgroup or ""
    # A web view on iOS says neither Safari nor another browser's name; a browser on Android says no "wv".
    bare = platform is Platform.IOS and "AppleWebKit/" in user_agent and "Safari/" not in user_agent
    return "other" if bare or _ANDROID_WEB_VIEW.search(user_agent) else ""
