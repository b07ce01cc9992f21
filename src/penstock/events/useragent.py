"""What a browser or an app runs on, from its User-Agent."""

from functools import lru_cache

import ua_parser
from crawlerdetect import CrawlerDetect  # type: ignore[import-untyped]

from penstock.events.model import Source

_LONGEST = 1000
_crawlers = CrawlerDetect()


@lru_cache(maxsize=10_000)
def user_agent_columns(user_agent: str, source: Source) -> dict[str, str]:
    """The columns `device`, `os` and `browser`, as far as they are known. Kept for all: do not change.

    device: desktop, mobile, tablet or bot. A crawler's events are stored like any other, to be left out by a filter on `$device`. Libraries
    through which apps send (okhttp) count as crawlers too, so an app is never called one.
    """
    user_agent = user_agent[:_LONGEST]
    if not user_agent:
        return {}
    parsed = ua_parser.parse(user_agent)
    columns = {
        "device": _device(user_agent, parsed.device.family if parsed.device else "", source),
        "os": parsed.os.family if parsed.os else "",
        "browser": parsed.user_agent.family if parsed.user_agent and source is Source.BROWSER else "",
    }
    return {name: value for name, value in columns.items() if value}


def _device(user_agent: str, model: str, source: Source) -> str:
    if source is Source.BROWSER and _crawlers.isCrawler(user_agent):
        return "bot"
    # Android leaves out "Mobile" on tablets; for the rest "Mobi" is the mark (MDN, "Browser detection using the user agent").
    if model == "iPad" or "Tablet" in user_agent or ("Android" in user_agent and "Mobi" not in user_agent and source is Source.BROWSER):
        return "tablet"
    return "mobile" if "Mobi" in user_agent or source is Source.APP else "desktop"
