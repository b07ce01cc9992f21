"""`penstock links simulate`: a tap on a link and the first open that follows, played against a running service."""

import re
from enum import StrEnum
from html import unescape
from secrets import token_hex
from typing import Annotated
from urllib.parse import parse_qs, unquote, urlsplit

import httpx
import typer

from penstock.cli.asking import Record, answered
from penstock.cli.options import WRONG_USE, fail
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
    url: Annotated[str, typer.Option(envvar="PENSTOCK_URL", help="Address of the service.")] = "http://127.0.0.1:8000",
    api_key: Annotated[
        str, typer.Option(envvar="PENSTOCK_API_KEY", help="API key; better given in the environment.", show_default=False)
    ] = "",
) -> None:
    """Play a tap on a link and the app's first open, and say what was matched and why. Both are real: they are counted."""
    if not api_key:
        fail("set PENSTOCK_API_KEY to an API key of the workspace that owns the link", WRONG_USE)
    try:
        with httpx.Client(base_url=url, timeout=30) as client:
            link = _link(client, slug, {"Authorization": f"Bearer {api_key}"})
            evidence = _tap(client, link, platform)
            resolved = _open(client, link, platform, evidence)
    except httpx.ConnectError:
        fail(f"no Penstock answers at {url}; start one, or set PENSTOCK_URL")
    except httpx.HTTPError as error:
        fail(f"the connection to {url} broke ({error or type(error).__name__})")
    _tell(resolved)


def _link(client: httpx.Client, slug: str, key: dict[str, str]) -> Record:
    page, total = 1, 1
    while (page - 1) * _PAGE < total:
        query: dict[str, str | int] = {"search": slug, "page": page, "pageSize": _PAGE}
        found = answered(client.get("/api/mobile/deferred-links", params=query, headers=key))
        for link in found["data"]:
            if link["slug"] == slug:
                return dict(link)
        page, total = page + 1, found["total"]
    return fail(f"the workspace has no link {slug}")


def _tap(client: httpx.Client, link: Record, platform: Phone) -> Record:
    """Open the link as the phone's browser does, and what the app can know of it afterwards."""
    page = client.get(f"/l/{link['slug']}", headers={"User-Agent": _USER_AGENTS[platform]}, follow_redirects=False)
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


def _open(client: httpx.Client, link: Record, platform: Phone, evidence: Record) -> Record:
    sent = {"websiteId": link["websiteId"], "installId": f"simulated-{token_hex(8)}", "platform": platform, "firstOpen": True}
    body = sent | {"osVersion": _OS_VERSIONS[platform], "appVersion": "simulated"} | evidence
    print(f"3. The app opens for the first time as install {sent['installId']}.")
    return answered(client.post("/api/mobile/deferred-links/resolve", json=body))


def _tell(resolved: Record) -> None:
    if not resolved["matched"]:
        found = f" Found by {METHODS[resolved['method']]}." if resolved["method"] else ""
        fail(f"no match ({resolved['reason']}): {REASONS[resolved['reason']]}.{found}")
    utm = ", ".join(f"{name} {value}" for name, value in resolved["utm"].items() if value)
    print(f"Matched by {METHODS[resolved['method']]}, with confidence {resolved['confidence']:g}.")
    print(f"   Clicked at {resolved['clickedAt']}; the app opens {resolved['destinationPath']}; UTM: {utm or 'none'}.")
    print(f"   An install event with $link {resolved['link']['slug']} is stored for visitor {resolved['visitorId']}.")
