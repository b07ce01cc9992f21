"""Decides what to send to people who open a link, and records their clicks."""

from collections.abc import Callable

from penstock.accounts.model import MobileApp, Website
from penstock.base.ids import ClickId, new_id
from penstock.base.user_agent import Platform, UserAgent, parse_in_thread
from penstock.core import Core
from penstock.links.clicks.daily_browsers import DailyBrowsers
from penstock.links.clicks.match_keys import MatchKeys
from penstock.links.clicks.model import (
    Click,
    ResponseKind,
    click_row,
    new_click_token,
    referrer_host,
)
from penstock.links.clicks.quota import ClickQuota
from penstock.links.management.service import LinkService
from penstock.links.model import Link
from penstock.links.redirect.geoip import CountryLookup
from penstock.links.redirect.landing_page import PageContext, landing_page, missing_page
from penstock.links.redirect.languages import accepted_languages, page_language
from penstock.links.redirect.model import LinkResponse, Visit
from penstock.links.redirect.targets import web_target


class RedirectService:
    """Responds to visits. add_click: buffers a click's row without waiting for storage."""

    def __init__(
        self,
        core: Core,
        links: LinkService,
        quota: ClickQuota,
        add_click: Callable[[bytes], None],
    ) -> None:
        """Raises `GeoipFileError` if the GeoIP file in the settings is unusable."""
        self._links, self._quota, self._add_click = links, quota, add_click
        self._match_keys = MatchKeys(core.database, core.clock)
        self._base_url, self._clock = core.settings.link_url, core.clock
        self._browsers, self._countries = DailyBrowsers(), CountryLookup(core.settings.geoip)

    async def respond(self, visit: Visit) -> LinkResponse:
        """Return the response and its click. Call `record` with the click once the response has
        been built.
        """
        target = await self._links.find_public(visit.slug)
        if target is None:
            language = page_language(accepted_languages(visit.accept_language))
            return LinkResponse(404, missing_page(language))
        user_agent = await parse_in_thread(visit.user_agent)
        match_key = b""
        if _has_match_key(visit, user_agent):
            match_key = await self._match_keys.fetch(target[1].id, visit.address)
        return self._response(visit, target, user_agent, match_key)

    def _response(
        self, visit: Visit, target: tuple[Link, Website], user_agent: UserAgent, match_key: bytes
    ) -> LinkResponse:
        link, website = target
        now_ms = self._clock()
        languages = accepted_languages(visit.accept_language)
        if link.is_expired(now_ms):
            if link.expired_url is None:
                return LinkResponse(404, missing_page(page_language(languages)))
            return LinkResponse(302, location=link.expired_url)
        robot = user_agent.robot or _non_person(visit)
        answer = (
            ResponseKind.PREVIEW
            if visit.is_head
            else choose_response(user_agent, link, website.app)
        )
        click = Click(
            id=ClickId(new_id("clk", now_ms)),
            link=link,
            at_ms=now_ms,
            answer=answer,
            user_agent=user_agent,
            robot=robot,
            referrer_host=referrer_host(visit.referrer),
            language=languages[0] if languages else "",
            token=new_click_token() if answer is ResponseKind.PAGE and not robot else "",
            qr=visit.is_scan,
            country=self._countries.country(visit.address),
            match_key=match_key,
        )
        if answer is ResponseKind.REDIRECT:
            return LinkResponse(302, location=web_target(link, visit.query) or "", click=click)
        language = page_language(languages)
        page = landing_page(
            PageContext(
                link,
                website,
                user_agent,
                click.token,
                language,
                self._base_url,
                web_target(link, visit.query),
            )
        )
        return LinkResponse(200, page.html, page.has_script, click=click)

    def record(self, visit: Visit, click: Click) -> None:
        """Buffer the click. Call it exactly once for each response, on the event loop."""
        if not self._quota.admits(click.link):
            return
        first_of_day = not click.robot and self._browsers.is_first(
            click.link.id, visit.address, visit.user_agent, click.at_ms
        )
        self._add_click(click_row(click, first_of_day=first_of_day))


def _has_match_key(visit: Visit, user_agent: UserAgent) -> bool:
    """Whether an app open may claim the click by its network. True only for phone clicks by
    people.
    """
    is_phone = user_agent.platform in (Platform.IOS, Platform.ANDROID)
    return is_phone and not user_agent.robot and not _non_person(visit)


def _non_person(visit: Visit) -> str:
    """Return why a browser's request is not a click by a person; empty if it is one."""
    if visit.is_head:
        return "head"
    return "prefetch" if visit.is_prefetch else ""


def choose_response(user_agent: UserAgent, link: Link, app: MobileApp) -> ResponseKind:
    """Choose the response by the decision table in docs/links.md.

    The server does not need to know whether the app is installed: a phone with the app opens it
    without asking the server.
    """
    if user_agent.robot:
        return ResponseKind.PREVIEW
    if user_agent.in_app:
        return ResponseKind.PAGE  # An in-app browser leaves its app only after the user taps.
    has_store = {
        Platform.IOS: app.app_store_url is not None,
        Platform.ANDROID: app.android_package is not None or app.play_store_url is not None,
        Platform.MOBILE: False,
        Platform.DESKTOP: False,
    }
    if has_store[user_agent.platform] or link.fallback_url is None:
        return ResponseKind.PAGE
    return ResponseKind.REDIRECT
