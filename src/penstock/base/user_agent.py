"""The parser of User-Agent headers: platform, OS, browser, device, in-app browser, robot."""

from enum import StrEnum
from functools import cache
from threading import Lock
from typing import NamedTuple

from anyio import to_thread

from penstock.base.patterns import Match, Pattern, is_digits

MAX_CHARS = 512
"""Maximum number of characters that are parsed; browsers send fewer than 300."""
_MAX_CACHED = 10_000


NO_USER_AGENT = "no_user_agent"


class Platform(StrEnum):
    """Platforms, spelled as in the warehouse. An iPad counts as a Mac, because it sends the same
    header.
    """

    IOS = "ios"
    ANDROID = "android"
    MOBILE = "mobile"
    """Any other mobile device."""
    DESKTOP = "desktop"


class Device(StrEnum):
    """Kinds of devices, spelled as in the warehouse."""

    DESKTOP = "desktop"
    MOBILE = "mobile"
    TABLET = "tablet"


class UserAgent(NamedTuple):
    """A parsed User-Agent. Unknown texts are empty; an unknown `os_major` is 0.

    os, browser: ua-parser's family names, such as `Mac OS X` and `Chrome`. device: the device if a
    browser sent the header. app_device: the device if an app sent it, never a desktop. in_app: the
    app whose built-in browser sent the header; empty for a robot. robot: why the client is not a
    person: `no_user_agent`, `preview:<service>` or `crawler`; otherwise empty. is_crawler: whether
    crawlerdetect's list matches, which includes HTTP libraries that apps use, such as okhttp.
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
"""User-Agent pattern for each service that fetches a shared link to show a preview."""

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
"""User-Agent pattern for each app that opens links in its own browser.

Such a browser opens another app only after the user taps.
"""

PROGRAMS = r"^node(?:\.js)?(?:/|$)|^Deno/|^Bun/|\bCFNetwork/|^Dalvik/|SnapchatAds|BarracudaCentral"
"""Pattern for programs that open links without a person and that crawlerdetect does not know.

It includes the network libraries of iOS and Android, because an app that loads a link itself does
not show a page.
"""

_ANDROID_WEB_VIEW = "; wv)"
_PREVIEW = Pattern("|".join(f"(?P<{name}>{pattern})" for name, pattern in PREVIEWS.items()))
_IN_APP = Pattern("|".join(f"(?P<{name}>{pattern})" for name, pattern in IN_APP.items()))
# Chrome sends "Android 10; K" on every device. Safari 26 and later still send iOS 18, but Safari's
# own version equals the system's.
_REDUCED_ANDROID = "Android 10; K)"
_SAFARI_VERSION = Pattern(r" Version/(\d{2,3})\.")
_PROGRAM = Pattern(PROGRAMS, ignore_case=True)
_YANDEX = "Yandex(?!Search)"
FROZEN_IOS_MAJOR = 18
"""The iOS version that Safari 26 and later still send."""


_cache: dict[str, UserAgent] = {}
"""The latest results. Keys are cut to `MAX_CHARS`, to limit the size of the cache."""
_cache_lock = Lock()


def parse_user_agent(user_agent: str) -> UserAgent:
    """Parse a User-Agent header. Never raises. Only the first 512 characters count.

    Parsing a new text takes up to a few milliseconds, so use `parse_in_thread` on the event loop.
    The first call builds the patterns, which takes 0.3 s and 26 MB.
    """
    text = user_agent[:MAX_CHARS]
    if (known := _cache.get(text)) is not None:
        return known
    parsed = _parse(text)
    with _cache_lock:
        if len(_cache) >= _MAX_CACHED:
            del _cache[next(iter(_cache))]
        _cache[text] = parsed
    return parsed


async def parse_in_thread(user_agent: str) -> UserAgent:
    """Like `parse_user_agent`, without blocking the event loop."""
    if (known := _cache.get(user_agent[:MAX_CHARS])) is not None:
        return known
    return await to_thread.run_sync(parse_user_agent, user_agent)


def _parse(user_agent: str) -> UserAgent:
    import ua_parser

    parsed = ua_parser.parse(user_agent)
    os = parsed.os.family if parsed.os else ""
    platform = _platform(user_agent, os)
    marked = _marked_device(user_agent, parsed.device.family if parsed.device else "")
    is_crawler = _is_crawler(user_agent)
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
    """Return the device that the text states, if any.

    Browsers on Android omit `Mobile` on tablets; on other systems `Mobi` means a phone. Source:
    MDN, "Browser detection using the user agent".
    """
    if model == "iPad" or "Tablet" in user_agent:
        return Device.TABLET
    return Device.MOBILE if "Mobi" in user_agent else None


def _os_major(user_agent: str, platform: Platform, major: str) -> int:
    if platform not in (Platform.IOS, Platform.ANDROID) or _REDUCED_ANDROID in user_agent:
        return 0
    version = int(major) if is_digits(major) and len(major) <= 3 else 0
    if platform is Platform.IOS and version == FROZEN_IOS_MAJOR:
        safari = _SAFARI_VERSION.search(user_agent)
        return max(version, int(safari[1])) if safari else version
    return version


def _robot(user_agent: str, is_crawler: bool) -> str:
    if not user_agent.strip():
        return NO_USER_AGENT
    if preview := _PREVIEW.search(user_agent):
        return f"preview:{_named_group(preview)}"
    return "crawler" if is_crawler or _PROGRAM.search(user_agent) else ""


def _in_app(user_agent: str, platform: Platform) -> str:
    if app := _IN_APP.search(user_agent):
        return _named_group(app)
    # Unlike browsers, a web view sends no "Safari/" on iOS, and "wv" on Android.
    is_ios_web_view = (
        platform is Platform.IOS and "AppleWebKit/" in user_agent and "Safari/" not in user_agent
    )
    return "other" if is_ios_web_view or _ANDROID_WEB_VIEW in user_agent else ""


def _named_group(match: Match) -> str:
    """Return the name of the only group that matched."""
    return next(name for name, text in match.groupdict().items() if text is not None)


@cache
def _crawler_patterns() -> tuple[Pattern, Pattern]:
    """Return two patterns: parts that crawlerdetect removes from a text first, and crawlers in the
    rest.

    The library itself applies both with Python's `re`, which takes 100 ms for 1,000 letters.
    """
    from crawlerdetect import providers  # type: ignore[import-untyped]

    without_lookahead = {_YANDEX: _not_before("Yandex", "Search")}
    crawlers = [without_lookahead.get(pattern, pattern) for pattern in providers.crawlers.data]
    return (
        Pattern("|".join(providers.exclusions.data), ignore_case=True, captures=False),
        Pattern("|".join(crawlers), ignore_case=True, captures=False),
    )


def _not_before(word: str, follower: str) -> str:
    """Build an RE2 pattern equivalent to `word(?!follower)`, because RE2 has no lookahead."""
    differing = [f"{follower[:index]}(?:[^{char}]|$)" for index, char in enumerate(follower)]
    return f"{word}(?:{'|'.join(differing)})"


def _is_crawler(user_agent: str) -> bool:
    exclusions, crawlers = _crawler_patterns()
    rest = exclusions.sub(lambda _: "", user_agent.strip())
    return bool(rest) and crawlers.search(rest) is not None
