"""The parser of User-Agent headers: platform, OS, browser, device, in-app browser, robot."""

import re
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

import ua_parser
from crawlerdetect import CrawlerDetect  # type: ignore[import-untyped]

_MAX_CHARS = 1000
_crawlers = CrawlerDetect()


class Platform(StrEnum):
    """The value is the warehouse's spelling. An iPad sends a Mac's User-Agent and counts as one."""

    IOS = "ios"
    ANDROID = "android"
    MOBILE = "mobile"
    """Any other phone."""
    DESKTOP = "desktop"


class Device(StrEnum):
    """The value is the warehouse's spelling."""

    DESKTOP = "desktop"
    MOBILE = "mobile"
    TABLET = "tablet"


class UserAgent(NamedTuple):
    """A parsed User-Agent. Texts are empty, and `os_major` is 0, when unknown.

    os, browser: family names of ua-parser, such as `Mac OS X` and `Chrome`.
    device: when a browser sent it. app_device: when an app did, which is never a desktop.
    in_app: the app whose built-in browser it is; empty for a robot.
    robot: why it is not a person: `no_user_agent`, `preview:<service>` or `crawler`; else empty.
    is_crawler: known to crawlerdetect. That includes HTTP libraries that apps use, such as okhttp.
    """

    platform: Platform
    os: str
    os_major: int
    browser: str
    device: Device
    app_device: Device
    in_app: str
    robot: str
    is_crawler: bool


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
"""Pattern of the User-Agent of each service that fetches a shared link to show a preview."""

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
"""Pattern of the User-Agent of each app that opens links in its own browser.

Such a browser opens another app only after a tap.
"""

_ANDROID_WEB_VIEW = re.compile(r"; wv\)")
_PREVIEW = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in PREVIEWS.items()))
_IN_APP = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in IN_APP.items()))
# Chrome sends "Android 10; K" on every device. Safari 26 and later still send iOS 18; Safari's own
# version equals the system's.
_REDUCED_ANDROID = re.compile(r"Android 10; K\)")
_SAFARI_VERSION = re.compile(r" Version/(\d{2,3})\.")
FROZEN_IOS_MAJOR = 18
"""The iOS version that Safari 26 and later still send."""


@lru_cache(maxsize=10_000)
def parse_user_agent(user_agent: str) -> UserAgent:
    """Parse a User-Agent header. Never raises; only the first 1,000 characters count."""
    user_agent = user_agent[:_MAX_CHARS]
    parsed = ua_parser.parse(user_agent)
    os = parsed.os.family if parsed.os else ""
    platform = _platform(user_agent, os)
    marked = _marked_device(user_agent, parsed.device.family if parsed.device else "")
    is_crawler: bool = _crawlers.isCrawler(user_agent)
    robot = _robot(user_agent, is_crawler)
    return UserAgent(
        platform=platform,
        os=os,
        os_major=_os_major(user_agent, platform, (parsed.os.major if parsed.os else "") or ""),
        browser=parsed.user_agent.family if parsed.user_agent else "",
        device=marked or (Device.TABLET if "Android" in user_agent else Device.DESKTOP),
        app_device=marked or Device.MOBILE,
        in_app="" if robot else _in_app(user_agent, platform),
        robot=robot,
        is_crawler=is_crawler,
    )


def _platform(user_agent: str, os: str) -> Platform:
    if os == "iOS":
        return Platform.IOS
    if os == "Android":
        return Platform.ANDROID
    is_phone = "Mobi" in user_agent or os in ("KaiOS", "Windows Phone")
    return Platform.MOBILE if is_phone else Platform.DESKTOP


def _marked_device(user_agent: str, model: str) -> Device | None:
    """The device that the text names; None without a mark.

    Browsers on Android leave out `Mobile` on tablets; on others `Mobi` marks a phone.
    Source: MDN, "Browser detection using the user agent".
    """
    if model == "iPad" or "Tablet" in user_agent:
        return Device.TABLET
    return Device.MOBILE if "Mobi" in user_agent else None


def _os_major(user_agent: str, platform: Platform, major: str) -> int:
    if platform not in (Platform.IOS, Platform.ANDROID) or _REDUCED_ANDROID.search(user_agent):
        return 0
    version = int(major) if major.isascii() and major.isdigit() and len(major) <= 3 else 0
    if platform is Platform.IOS and version == FROZEN_IOS_MAJOR:
        safari = _SAFARI_VERSION.search(user_agent)
        return max(version, int(safari[1])) if safari else version
    return version


def _robot(user_agent: str, is_crawler: bool) -> str:
    if not user_agent.strip():
        return "no_user_agent"
    if preview := _PREVIEW.search(user_agent):
        return f"preview:{preview.lastgroup}"
    return "crawler" if is_crawler else ""


def _in_app(user_agent: str, platform: Platform) -> str:
    if app := _IN_APP.search(user_agent):
        return app.lastgroup or ""
    # Unlike browsers, a web view sends no "Safari/" on iOS, and "wv" on Android.
    is_ios_web_view = (
        platform is Platform.IOS and "AppleWebKit/" in user_agent and "Safari/" not in user_agent
    )
    return "other" if is_ios_web_view or _ANDROID_WEB_VIEW.search(user_agent) else ""
