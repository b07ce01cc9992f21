"""Event columns that come from the User-Agent."""

from functools import lru_cache

from penstock.base.user_agent import parse_user_agent
from penstock.events.model import Source


@lru_cache(maxsize=10_000)
def user_agent_columns(user_agent: str, source: Source) -> dict[str, str]:
    """The columns `device`, `os` and `browser`, as far as known. Cached: do not change the dict.

    A crawler's events are stored with the device `bot`, to be filtered by `$device`. An app is
    never a bot, because the HTTP libraries that apps use (okhttp) count as crawlers.
    """
    if not user_agent:
        return {}
    parsed = parse_user_agent(user_agent)
    if source is Source.BROWSER:
        device = "bot" if parsed.is_crawler else parsed.device
        columns = {"device": device, "os": parsed.os, "browser": parsed.browser}
    else:
        columns = {"device": parsed.app_device, "os": parsed.os}
    return {name: str(value) for name, value in columns.items() if value}
