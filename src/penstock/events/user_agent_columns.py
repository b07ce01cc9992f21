"""Event columns that come from the User-Agent."""

from penstock.base.user_agent import NO_USER_AGENT, UserAgent
from penstock.events.model import Source


def user_agent_columns(user_agent: UserAgent, source: Source) -> dict[str, str]:
    """The columns `device`, `os` and `browser`, as far as known.

    A crawler's events are stored with the device `bot`, to be filtered by `$device`. An app is
    never a bot, because the HTTP libraries that apps use (okhttp) count as crawlers.
    """
    if user_agent.robot == NO_USER_AGENT:
        return {}
    if source is Source.BROWSER:
        device = "bot" if user_agent.is_crawler else user_agent.device
        columns = {"device": device, "os": user_agent.os, "browser": user_agent.browser}
    else:
        columns = {"device": user_agent.app_device, "os": user_agent.os}
    return {name: str(value) for name, value in columns.items() if value}
