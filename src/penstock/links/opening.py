"""The public side: what whoever opens a link gets, and the click that is kept of it."""

from typing import NamedTuple

from penstock.accounts.model import MobileApp
from penstock.base.clock import Clock
from penstock.base.ids import ClickId, new_id
from penstock.links.agents import Agent, Platform, agent_of
from penstock.links.clicks import Answer, Browsers, Click, KeepRow, click_row, new_token, referrer_host
from penstock.links.geoip import Countries
from penstock.links.languages import preferred, spoken
from penstock.links.model import Link
from penstock.links.pages import landing_page, missing_page
from penstock.links.service import LinkService
from penstock.settings import Settings


class Visit(NamedTuple):
    """A request for a link. is_head: asks for the headers alone. prefetched: a browser fetches it before anybody asked to open it.

    scanned: the address was read from a QR code.
    """

    slug: str
    user_agent: str
    address: str
    accept_language: str
    referrer: str
    is_head: bool
    prefetched: bool
    scanned: bool


class Opened(NamedTuple):
    """status: 200 with a page, 302 with a location, 404 with a page."""

    status: int
    page: str = ""
    location: str = ""


class LinkOpener:
    """Answers visits. keep: takes a click's row and does not wait until it is stored."""

    def __init__(self, links: LinkService, settings: Settings, clock: Clock, keep: KeepRow) -> None:
        """GeoipUnreadable when the settings name a file of countries that cannot be used."""
        self._links, self._base_url, self._clock, self._keep = links, settings.base_url, clock, keep
        self._browsers, self._countries = Browsers(), Countries(settings.geoip)

    async def open(self, visit: Visit) -> Opened:
        languages = preferred(visit.accept_language)
        language = spoken(languages)
        found = await self._links.locate(visit.slug)
        if found is None:
            return Opened(404, missing_page(language))
        link, website = found
        agent, now_ms = agent_of(visit.user_agent), self._clock()
        robot = agent.robot or ("head" if visit.is_head else "prefetch" if visit.prefetched else "")
        answer = Answer.PREVIEW if visit.is_head else answer_to(agent, link, website.app)
        token = new_token() if answer is Answer.PAGE and not robot else ""
        click = Click(
            id=ClickId(new_id("clk", now_ms)),
            link=link,
            at_ms=now_ms,
            answer=answer,
            agent=agent,
            robot=robot,
            first_of_day=not robot and self._browsers.is_first(link.id, visit.address, visit.user_agent, now_ms),
            referrer_host=referrer_host(visit.referrer),
            language=languages[0] if languages else "",
            token=token,
            qr=visit.scanned,
            country=self._countries.of(visit.address),
        )
        self._keep(click_row(click))
        if answer is Answer.REDIRECT:
            return Opened(302, location=link.fallback_url or "")
        return Opened(200, landing_page(link, website, agent, token, language, self._base_url))


def answer_to(agent: Agent, link: Link, app: MobileApp) -> Answer:
    """The decision table. Whether the app is installed cannot be known here: a system that knows does not ask the server."""
    if agent.robot:
        return Answer.PREVIEW
    if agent.in_app:
        return Answer.PAGE  # such a browser leaves its app after a tap, if at all
    has_store = {
        Platform.IOS: app.app_store_url is not None,
        Platform.ANDROID: app.android_package is not None or app.play_store_url is not None,
        Platform.MOBILE: False,
        Platform.DESKTOP: False,
    }
    if has_store[agent.platform] or link.fallback_url is None:
        return Answer.PAGE
    return Answer.REDIRECT
