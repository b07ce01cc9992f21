"""The demo's managed links, with taps, previews, scans and app opens.

A click's time is the time of its request, so all clicks happen while the demo starts. Every run
makes the same clicks.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import httpx

from penstock.cli.simulate import buttons_of, evidence_of

APP: dict[str, Any] = {
    "iosBundleId": "com.acme.shop",
    "iosTeamId": "A1B2C3D4E5",
    "androidPackage": "com.acme.shop",
    "customScheme": "acmeshop",
    "appStoreUrl": "https://apps.apple.com/app/id1234567890",
    "iosProbabilisticMatching": True,
}
"""Fields of the app's website record."""

_SENDERS = 4
_RESOLVE = "/api/mobile/deferred-links/resolve"
_FALLBACK = "https://www.acme-shop.example.com"


@dataclass(frozen=True, slots=True)
class Campaign:
    """A link and its clicks. scans: clicks through the QR code. installs, opens: first and later
    app opens after taps.
    """

    body: Mapping[str, Any]
    clicks: int
    scans: int
    bots: int
    installs: int
    opens: int
    is_active: bool = True


CAMPAIGNS = (
    Campaign(
        {
            "name": "Poster in the shop", "slug": "teapot-poster",
            "destinationPath": "/products/teapot",
            "utmSource": "poster", "utmMedium": "print", "utmCampaign": "spring",
        },
        clicks=46, scans=39, bots=1, installs=14, opens=3,
    ),
    Campaign(
        {
            "name": "Spring newsletter", "slug": "spring-sale",
            "destinationPath": "/offers/42?from=mail",
            "fallbackUrl": f"{_FALLBACK}/offers/42",
            "utmSource": "newsletter", "utmMedium": "email", "utmCampaign": "spring",
        },
        clicks=92, scans=0, bots=7, installs=17, opens=9,
    ),
    Campaign(
        {
            "name": "Invite a friend", "slug": "invite-a-friend",
            "destinationPath": "/invite", "fallbackUrl": f"{_FALLBACK}/invite",
            "utmSource": "friends",
        },
        clicks=24, scans=0, bots=11, installs=4, opens=1, is_active=False,
    ),
)  # fmt: skip
"""Links in order of creation."""

_BOTS = (
    "WhatsApp/2.24.6",
    "Slackbot-LinkExpanding 1.0",
    "TelegramBot (like TwitterBot)",
    "Mozilla/5.0 (compatible; Googlebot/2.1)",
)
_DESKTOPS = (
    "X11; Linux x86_64",
    "Windows NT 10.0; Win64; x64",
    "Macintosh; Intel Mac OS X 10_15_7",
)
_PHONES = ("SM-S921B", "SM-A546B", "Pixel 8", "Pixel 9", "XQ-DQ54")


@dataclass(slots=True)
class _Tap:
    platform: str
    version: str
    agent: str
    evidence: dict[str, Any] = field(default_factory=dict)


def use_links(client: httpx.Client, app_id: str) -> None:
    """Create the links and use them. client: sends the API key, although taps do not need it."""
    random = Random(20_26)
    with (
        httpx.Client(base_url=client.base_url, timeout=60) as public_client,
        ThreadPoolExecutor(_SENDERS) as senders,
    ):
        for number, campaign in enumerate(CAMPAIGNS):
            answer = client.post(
                "/api/mobile/deferred-links", json={"websiteId": app_id, **campaign.body}
            ).raise_for_status()
            _use(public_client, senders, campaign, answer.json(), random, number)
            if not campaign.is_active:
                change = {"id": answer.json()["id"], "isActive": False}
                client.patch("/api/mobile/deferred-links", json=change).raise_for_status()


def _use(
    client: httpx.Client,
    senders: ThreadPoolExecutor,
    campaign: Campaign,
    link: Mapping[str, Any],
    random: Random,
    number: int,
) -> None:
    taps = [_tap(random) for _ in range(campaign.clicks)]
    calls: list[Callable[[], None]] = [
        partial(_open_page, client, link, tap, scan=at < campaign.scans)
        for at, tap in enumerate(taps)
    ]
    calls += [
        partial(_open_page, client, link, _Tap("", "", _BOTS[at % len(_BOTS)]))
        for at in range(campaign.bots)
    ]
    random.shuffle(calls)
    list(senders.map(lambda call: call(), calls))
    phones = [tap for tap in taps if tap.evidence]
    bodies = [
        _first_open(link, phones[at], f"demo-{number}-{at}")
        for at in range(min(campaign.installs, len(phones)))
    ]
    repeat_open = {
        "websiteId": link["websiteId"],
        "platform": "ios",
        "osVersion": "18.5",
        "appVersion": "4.2",
        "firstOpen": False,
    }
    bodies += [
        repeat_open | {"installId": f"demo-{number}-known-{at}", "url": link["hostedUrl"]}
        for at in range(campaign.opens)
    ]
    # One app sends another app's evidence, and one app sends no evidence.
    if bodies:
        bodies.append({**bodies[0], "installId": f"demo-{number}-copy"})
        bodies.append({**repeat_open, "installId": f"demo-{number}-silent", "firstOpen": True})
    for body in bodies:
        client.post(_RESOLVE, json=body).raise_for_status()


def _tap(random: Random) -> _Tap:
    kind = random.choices(("ios", "android", "desktop"), weights=(45, 40, 15))[0]
    if kind == "ios":
        version = random.choice(("17.6", "18.3", "18.5"))
        os_name = f"CPU iPhone OS {version.replace('.', '_')} like Mac OS X"
        agent = f"Mozilla/5.0 (iPhone; {os_name}) AppleWebKit/605.1.15 (KHTML, like Gecko)"
        return _Tap(
            kind,
            version,
            f"{agent} Version/{version} Mobile/15E{random.randint(140, 160)} Safari/604.1",
        )
    browser = f"AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{random.randint(128, 141)}.0.0.0"
    if kind == "android":
        version = random.choice(("13", "14", "15"))
        return _Tap(
            kind,
            version,
            f"Mozilla/5.0 (Linux; Android {version}; {random.choice(_PHONES)}) {browser} "
            "Mobile Safari/537.36",
        )
    return _Tap(kind, "", f"Mozilla/5.0 ({random.choice(_DESKTOPS)}) {browser} Safari/537.36")


def _open_page(
    client: httpx.Client, link: Mapping[str, Any], tap: _Tap, *, scan: bool = False
) -> None:
    query = {"qr": "1"} if scan else {}
    page = client.get(
        f"/l/{link['slug']}",
        params=query,
        headers={"User-Agent": tap.agent},
        follow_redirects=False,
    )
    if tap.platform in ("ios", "android"):
        tap.evidence = evidence_of(buttons_of(page.text), tap.platform)


def _first_open(link: Mapping[str, Any], tap: _Tap, install_id: str) -> dict[str, Any]:
    body = {
        "websiteId": link["websiteId"],
        "platform": tap.platform,
        "osVersion": tap.version,
        "appVersion": "4.2",
        "firstOpen": True,
    }
    return body | {"installId": install_id} | tap.evidence
