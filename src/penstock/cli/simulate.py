"""`penstock links simulate`: taps a link and opens its app for the first time, on a running
service.
"""

import re
from enum import StrEnum
from html import unescape
from secrets import token_hex
from typing import Annotated
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

import httpx
import typer

from penstock.base.clock import parse_time
from penstock.base.wording import utc_time
from penstock.cli.client import (
    LOCAL,
    ApiKey,
    Record,
    Url,
    listed_records,
    record_of,
    service_client,
)
from penstock.cli.options import fail
from penstock.links.attribution.wording import METHODS, REASONS

links = typer.Typer(no_args_is_help=True, help="Managed links.", add_completion=False)


class Phone(StrEnum):
    IOS = "ios"
    ANDROID = "android"


_USER_AGENTS = {
    Phone.IOS: (
        "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 "
        "(KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1"
    ),
    Phone.ANDROID: (
        "Mozilla/5.0 (Linux; Android 15; SM-S921B) AppleWebKit/537.36 (KHTML, like Gecko) "
        "SamsungBrowser/28.0 Chrome/130.0.0.0 Mobile Safari/537.36"
    ),
}
_OS_VERSIONS = {Phone.IOS: "18.5", Phone.ANDROID: "15"}


@links.command()
def simulate(
    slug: Annotated[str, typer.Argument(help="Slug of the link: the part of its URL after /l/.")],
    platform: Annotated[Phone, typer.Option(help="Platform of the phone.")],
    url: Url = LOCAL,
    api_key: ApiKey = "",
) -> None:
    """Simulate a tap on a link and the app's first open, and explain the match.

    Both are real requests and appear in statistics.
    """
    with (
        service_client(url, api_key, owns="link") as client,
        httpx.Client(base_url=url, timeout=30) as phone,
    ):
        link = _link(client, slug)
        evidence = _tap(phone, link, platform)
        resolved = _open(phone, link, platform, evidence)
    _print_match(resolved)


def _link(client: httpx.Client, slug: str) -> Record:
    matching = listed_records(client, f"/api/mobile/deferred-links?{urlencode({'search': slug})}")
    link = next((link for link in matching if link["slug"] == slug), None)
    return link or fail(f"this workspace has no link with the slug {slug}")


def _tap(phone: httpx.Client, link: Record, platform: Phone) -> Record:
    """Open the link in the phone's browser. Returns the evidence of the tap that the app can
    send.
    """
    page = phone.get(
        f"/l/{link['slug']}", headers={"User-Agent": _USER_AGENTS[platform]}, follow_redirects=False
    )
    print(f"1. A phone ({platform}) opens {link['hostedUrl']}")
    if page.status_code == 404:
        print("   Not found: the link is disabled or expired, or its app was deleted.")
        print(_INSTALLED_WITHOUT_CLICK)
        return {}
    if page.is_redirect:
        target = page.headers["location"]
        has_expired = link["expiresAt"] is not None and target == link["expiredUrl"]
        reason = "link has expired" if has_expired else _NO_APP_PAGE
        print(f"   The phone is redirected to {target}, because the {reason}.")
        print(_INSTALLED_WITHOUT_CLICK)
        return {}
    buttons = buttons_of(page.text)
    print("   The link shows a page with buttons that open")
    for address in buttons:
        print(f"     {address}")
    evidence = evidence_of(buttons, platform)
    print(_TAP_TEXTS[next(iter(evidence), "")])
    return evidence


_NO_APP_PAGE = "app has no store page or scheme for this platform"
_INSTALLED_WITHOUT_CLICK = "2. The app is installed without a click token."
_TAP_TEXTS = {
    "installReferrer": (
        "2. The person taps the store button. Google Play passes the referrer to the installed app."
    ),
    "clickToken": "2. The person taps the app button. The app receives its click token.",
    "": _INSTALLED_WITHOUT_CLICK,
}


def buttons_of(page: str) -> list[str]:
    """Return the URLs of the buttons on a landing page."""
    return [unescape(address) for address in re.findall(r'<a href="([^"]+)"', page)]


def evidence_of(buttons: list[str], platform: str) -> Record:
    """Return the evidence after a tap: the install referrer, else the click token, else nothing."""
    for address in buttons:
        referrer = parse_qs(urlsplit(address).query).get("referrer", [""])[0]
        if platform == Phone.ANDROID and referrer and urlsplit(address).scheme == "https":
            return {"installReferrer": referrer}
    for address in buttons:
        if token := re.search(r"[?&]ct=([\w-]+)", unquote(address)):
            return {"clickToken": token[1]}
    return {}


def _open(phone: httpx.Client, link: Record, platform: Phone, evidence: Record) -> Record:
    base = {
        "websiteId": link["websiteId"],
        "installId": f"simulated-{token_hex(8)}",
        "platform": platform,
        "firstOpen": True,
    }
    body = base | {"osVersion": _OS_VERSIONS[platform], "appVersion": "simulated"} | evidence
    print(f"3. The app opens for the first time as install {base['installId']}.")
    return record_of(phone.post("/api/mobile/deferred-links/resolve", json=body))


def _print_match(resolved: Record) -> None:
    if not resolved["matched"]:
        method = f" The evidence was: {METHODS[resolved['method']]}." if resolved["method"] else ""
        fail(f"no match ({resolved['reason']}): {REASONS[resolved['reason']]}.{method}")
    utm = ", ".join(f"{name} {value}" for name, value in resolved["utm"].items() if value)
    print(f"Matched by {METHODS[resolved['method']]}, with confidence {resolved['confidence']:g}.")
    clicked = utc_time(parse_time(resolved["clickedAt"]))
    print(
        f"   Clicked on {clicked}; the app opens at {resolved['destinationPath']}; "
        f"UTM: {utm or 'none'}."
    )
    print(
        f"   An install event with $link {resolved['link']['slug']} was stored for visitor "
        f"{resolved['visitorId']}."
    )
