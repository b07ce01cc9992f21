"""`penstock links simulate`: a tap on a link and the first open that follows, played against a running service."""

import re
from enum import StrEnum
from html import unescape
from secrets import token_hex
from typing import Annotated
from urllib.parse import parse_qs, unquote, urlsplit

import httpx
import typer

from penstock.cli.asking import LOCAL, ApiKey, Record, Url, answered, asking
from penstock.cli.options import fail
from penstock.links.wording import METHODS, REASONS

links = typer.Typer(no_args_is_help=True, help="Managed links.")


class Phone(StrEnum):
    IOS = "ios"
    ANDROID = "android"


_USER_AGENTS = {
    Phone.IOS: (
        "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 "
        "Mobile/15E148 Safari/604.1"
    ),
    Phone.ANDROID: (
        "Mozilla/5.0 (Linux; Android 15; SM-S921B) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/28.0 Chrome/130.0.0.0 "
        "Mobile Safari/537.36"
    ),
}
_OS_VERSIONS = {Phone.IOS: "18.5", Phone.ANDROID: "15"}

_PAGE = 100


@links.command()
def simulate(
    slug: Annotated[str, typer.Argument(help="The end of the link's public address.")],
    platform: Annotated[Phone, typer.Option(help="The phone that opens it.")],
    url: Url = LOCAL,
    api_key: ApiKey = "",
) -> None:
    """Play a tap on a link and the app's first open, and say what was matched and why. Both are real: they are counted."""
    with asking(url, api_key, owns="link") as client, httpx.Client(base_url=url, timeout=30) as phone:
        link = _link(client, slug)
        evidence = _tap(phone, link, platform)
        resolved = _open(phone, link, platform, evidence)
    _tell(resolved)


def _link(client: httpx.Client, slug: str) -> Record:
    page, total = 1, 1
    while (page - 1) * _PAGE < total:
        query: dict[str, str | int] = {"search": slug, "page": page, "pageSize": _PAGE}
        found = answered(client.get("/api/mobile/deferred-links", params=query))
        for link in found["data"]:
            if link["slug"] == slug:
                return dict(link)
        page, total = page + 1, found["total"]
    return fail(f"the workspace has no link {slug}")


def _tap(phone: httpx.Client, link: Record, platform: Phone) -> Record:
    """Open the link as the phone's browser does, and what the app can know of it afterwards."""
    page = phone.get(f"/l/{link['slug']}", headers={"User-Agent": _USER_AGENTS[platform]}, follow_redirects=False)
    print(f"1. A phone ({platform}) opens {link['hostedUrl']}")
    if page.status_code == 404:
        print("   It leads nowhere: the link is disabled, or its app was deleted.")
        return {}
    if page.is_redirect:
        print(f"   It goes on to {page.headers['location']}: nothing is known of how to open or get the app on this platform.")
        return {}
    buttons = buttons_of(page.text)
    print("   It sees a page that leads to")
    for address in buttons:
        print(f"     {address}")
    evidence = evidence_of(buttons, platform)
    print(_TAPPED[next(iter(evidence), "")])
    return evidence


_TAPPED = {
    "installReferrer": "2. It taps on the store; Google Play hands the referrer on to the installed app.",
    "clickToken": "2. It taps on the app's button; the app comes by the click token in it.",
    "": "2. No button carries a click token; the app is installed without one.",
}


def buttons_of(page: str) -> list[str]:
    """Where the buttons of a landing page lead."""
    return [unescape(address) for address in re.findall(r'<a href="([^"]+)"', page)]


def evidence_of(buttons: list[str], platform: str) -> Record:
    """What the app can know of a tap on the page's buttons: the install referrer, else the click token, else nothing."""
    for address in buttons:
        referrer = parse_qs(urlsplit(address).query).get("referrer", [""])[0]
        if platform == Phone.ANDROID and referrer and urlsplit(address).scheme == "https":
            return {"installReferrer": referrer}
    for address in buttons:
        if token := re.search(r"[?&]ct=([\w-]+)", unquote(address)):
            return {"clickToken": token[1]}
    return {}


def _open(phone: httpx.Client, link: Record, platform: Phone, evidence: Record) -> Record:
    sent = {"websiteId": link["websiteId"], "installId": f"simulated-{token_hex(8)}", "platform": platform, "firstOpen": True}
    body = sent | {"osVersion": _OS_VERSIONS[platform], "appVersion": "simulated"} | evidence
    print(f"3. The app opens for the first time as install {sent['installId']}.")
    return answered(phone.post("/api/mobile/deferred-links/resolve", json=body))


def _tell(resolved: Record) -> None:
    if not resolved["matched"]:
        found = f" Found by {METHODS[resolved['method']]}." if resolved["method"] else ""
        fail(f"no match ({resolved['reason']}): {REASONS[resolved['reason']]}.{found}")
    utm = ", ".join(f"{name} {value}" for name, value in resolved["utm"].items() if value)
    print(f"Matched by {METHODS[resolved['method']]}, with confidence {resolved['confidence']:g}.")
    print(f"   Clicked at {resolved['clickedAt']}; the app opens {resolved['destinationPath']}; UTM: {utm or 'none'}.")
    print(f"   An install event with $link {resolved['link']['slug']} is stored for visitor {resolved['visitorId']}.")
