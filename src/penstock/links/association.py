"""By what phones know the apps that open links: the association files, and what an app lacks to be in them. Nothing here is fetched.

Sources: Apple, "Supporting associated domains"; Google, "Digital Asset Links" and "Configure dynamic App Links rules".
"""

from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

from penstock.accounts.model import MobileApp, Website
from penstock.accounts.service import AccountService
from penstock.base.ids import WorkspaceId
from penstock.links.addresses import is_ip_address, is_private_name
from penstock.links.association_schema import (
    AddressCheck,
    AndroidCheck,
    AndroidExtensions,
    AndroidFile,
    AndroidRules,
    AndroidStatement,
    AndroidTarget,
    AppleDetail,
    AppleFile,
    AppleLinks,
    AppLinksCheck,
    Finding,
    IosCheck,
    PathPattern,
    State,
)
from penstock.settings import Settings

APPLE_FILE = "/.well-known/apple-app-site-association"
ANDROID_FILE = "/.well-known/assetlinks.json"

_LINK_PATHS = (PathPattern(path="/l/*"),)
_PUBLIC_URL = "PENSTOCK_PUBLIC_URL"
_UNKNOWN_TO_DNS = (".test", ".invalid", ".onion")


class AssociationService:
    """The association files are of the installation, for it has one host; the check is of one app of a workspace."""

    def __init__(self, accounts: AccountService, settings: Settings) -> None:
        self._accounts, self._settings = accounts, settings

    async def apple_file(self) -> AppleFile:
        return apple_file(await self._accounts.mobile_apps())

    async def android_file(self) -> AndroidFile:
        return android_file(await self._accounts.mobile_apps())

    def check(self, workspace_id: WorkspaceId, website_id: str) -> AppLinksCheck:
        """`NotFound` when the workspace has no such app. Blocks: call it from a worker thread."""
        return check(self._accounts.app(workspace_id, website_id), self._settings)


def apple_file(apps: Iterable[MobileApp]) -> AppleFile:
    """Every app that has a bundle ID and a team ID, once each, in the order given."""
    details = filter(None, map(_apple_detail, apps))
    app_ids = dict.fromkeys(app_id for detail in details for app_id in detail.app_ids)
    # One detail for all apps: they open the same paths, and Apple takes no file over 128 KB.
    return AppleFile(applinks=AppleLinks(details=(_detail_of(*app_ids),) if app_ids else ()))


def android_file(apps: Iterable[MobileApp]) -> AndroidFile:
    """Every app that has a package and a fingerprint, once each, in the order given."""
    return AndroidFile(tuple(dict.fromkeys(filter(None, map(_android_statement, apps)))))


def check(website: Website, settings: Settings) -> AppLinksCheck:
    """What the files say for an app, and what it lacks; what of the public address phones cannot use."""
    app = website.app
    address = AddressCheck(url=settings.base_url, findings=tuple(_address_findings(settings)))
    ios_findings, android_findings = tuple(_ios_findings(app)), tuple(_android_findings(app))
    ios = IosCheck(
        state=_state(app.ios_bundle_id or app.ios_team_id, ios_findings),
        file=settings.base_url + APPLE_FILE,
        entry=_apple_detail(app),
        findings=ios_findings,
    )
    android = AndroidCheck(
        state=_state(app.android_package or app.android_sha256_fingerprints, android_findings),
        file=settings.base_url + ANDROID_FILE,
        entry=_android_statement(app),
        findings=android_findings,
    )
    states = {ios.state, android.state}
    ready = not address.findings and "ready" in states and "notReady" not in states
    return AppLinksCheck(website_id=website.id, ready=ready, address=address, ios=ios, android=android)


def _apple_detail(app: MobileApp) -> AppleDetail | None:
    return _detail_of(f"{app.ios_team_id}.{app.ios_bundle_id}") if app.ios_team_id and app.ios_bundle_id else None


def _detail_of(*app_ids: str) -> AppleDetail:
    return AppleDetail(app_ids=app_ids, components=_LINK_PATHS)


def _android_statement(app: MobileApp) -> AndroidStatement | None:
    if not app.android_package or not app.android_sha256_fingerprints:
        return None
    fingerprints = tuple(dict.fromkeys(app.android_sha256_fingerprints))
    return AndroidStatement(
        target=AndroidTarget(package_name=app.android_package, sha256_cert_fingerprints=fingerprints),
        relation_extensions=AndroidExtensions(handle_all_urls=AndroidRules(components=_LINK_PATHS)),
    )


def _state(begun: object, findings: tuple[Finding, ...]) -> State:
    if not begun:
        return "notSet"
    return "notReady" if findings else "ready"


def _ios_findings(app: MobileApp) -> Iterator[Finding]:
    if not app.ios_bundle_id:
        yield Finding(
            field="iosBundleId",
            message="Set iosBundleId to the bundle ID of the iOS app, as com.example.shop: Apple's file names an app by team and bundle.",
        )
    if not app.ios_team_id:
        yield Finding(
            field="iosTeamId",
            message="Set iosTeamId to the ten characters of the app's App ID prefix, which is mostly the team ID, as A1B2C3D4E5: "
            "Apple's file names an app by team and bundle.",
        )
    elif app.ios_bundle_id and app.ios_bundle_id.startswith(f"{app.ios_team_id}."):
        bundle_id = app.ios_bundle_id.removeprefix(f"{app.ios_team_id}.")
        yield Finding(
            field="iosBundleId",
            message=f"Set iosBundleId to {bundle_id}: it begins with the team ID, which the file puts before it anyway.",
        )


def _android_findings(app: MobileApp) -> Iterator[Finding]:
    if not app.android_package:
        yield Finding(
            field="androidPackage",
            message="Set androidPackage to the application ID of the Android app, as com.example.shop: "
            "Google's file names an app by its package and the certificate that signs it.",
        )
    if not app.android_sha256_fingerprints:
        yield Finding(
            field="androidSha256Fingerprints",
            message="Set androidSha256Fingerprints to the SHA-256 fingerprint of the certificate that signs the Android app; "
            "with Play App Signing that is Google's app signing key, not the upload key.",
        )


def _address_findings(settings: Settings) -> Iterator[Finding]:
    for message in _address_faults(settings):
        yield Finding(field=_PUBLIC_URL, message=message)


def _address_faults(settings: Settings) -> Iterator[str]:
    """What of the public address, by its spelling alone, keeps phones from the files or from the links."""
    if settings.public_url is None:
        yield (
            f"Set {_PUBLIC_URL} to the https address of the links, as https://links.example.com: without it they begin with "
            f"{settings.base_url}, which phones cannot reach."
        )
        return
    try:
        parts = urlsplit(settings.base_url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        parts, host, port = urlsplit(""), "", None
    strange = "@" in parts.netloc or parts.query or parts.fragment or any(character.isspace() for character in settings.base_url)
    if parts.scheme not in ("http", "https") or not host or strange:
        yield f"Set {_PUBLIC_URL} to an address such as https://links.example.com: what it is now cannot be read as one."
        return
    if parts.scheme != "https":
        yield f"Set {_PUBLIC_URL} to an address that begins with https://: phones take the files over HTTPS only."
    if is_ip_address(host):
        yield f"Set {_PUBLIC_URL} to an address with a domain name: it has the IP address {host}, and apps can name domains only."
    elif is_private_name(host) or host.removesuffix(".").endswith(_UNKNOWN_TO_DNS):
        yield f"Set {_PUBLIC_URL} to an address with a public domain name: phones cannot reach {host} from the internet."
    if port not in (None, 443):
        yield f"Set {_PUBLIC_URL} to an address without a port: phones look for the files at port 443, not {port}."
    if parts.path:
        yield f"Set {_PUBLIC_URL} to an address without a path: phones look for the files at the top of the host, not below {parts.path}."
