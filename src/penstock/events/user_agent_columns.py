"""Event columns derived from the User-Agent."""

from penstock.base.user_agent import NO_USER_AGENT, UserAgent
from penstock.events.model import Source


def user_agent_columns(user_agent: UserAgent, source: Source) -> dict[str, str]:
    """Return the columns `device`, `os` and `browser`. Unknown values are omitted.

    Crawler events get the device `bot`, so that reports can filter them by `$device`. An app is
    never a bot, because HTTP libraries that apps use, such as okhttp, are listed as crawlers.
    """
    if user_agent.robot == NO_USER_AGENT:
        return {}
    if source is Source.BROWSER:
        device = "bot" if user_agent.is_crawler else user_agent.device
        columns = {"device": device, "os": user_agent.os, "browser": user_agent.browser}
    else:
        columns = {"device": user_agent.app_device, "os": user_agent.os}
    return {name: str(value) for name, value in columns.items() if value}
