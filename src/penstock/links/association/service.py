"""Builds the association files that let phones open links in apps, and checks an app's settings.

Makes no requests. Sources: Apple, "Supporting associated domains"; Google, "Digital Asset
Links" and "Configure dynamic App Links rules".
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar
from urllib.parse import urlsplit

from pydantic_core import to_json

from penstock.accounts.model import MobileApp, Website
from penstock.accounts.websites.service import WebsiteService
from penstock.base.ids import WorkspaceId
from penstock.base.networks import is_ip_address
from penstock.links.association.schema import (
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
    PlatformState,
)
from penstock.links.management.addresses import is_private_name
from penstock.links.model import PUBLIC_PATH
from penstock.settings import Settings

APPLE_FILE = "/.well-known/apple-app-site-association"
ANDROID_FILE = "/.well-known/assetlinks.json"

MAX_FILE_BYTES = 128 * 1024
"""Maximum size of each file. Apple's content delivery network rejects larger files."""

_FRAME_BYTES = 200
"""Bytes reserved for the JSON around the entries."""
_Entry = TypeVar("_Entry", str, AndroidStatement)
_LINK_PATHS = (PathPattern(path=f"{PUBLIC_PATH}*"),)
_PUBLIC_URL, _LINK_HOST = "PENSTOCK_PUBLIC_URL", "PENSTOCK_LINK_HOST"
_ONLY_HTTPS = "phones fetch the files over HTTPS only"
_NON_PUBLIC_SUFFIXES = (".test", ".invalid", ".onion")


class AssociationService:
    """Builds the installation's association files and checks the apps of a workspace."""

    def __init__(self, websites: WebsiteService, settings: Settings) -> None:
        self._websites, self._settings = websites, settings

    async def apple_file(self) -> AppleFile:
        return apple_file(await self._websites.mobile_apps())

    async def android_file(self) -> AndroidFile:
        return android_file(await self._websites.mobile_apps())

    def check(self, workspace_id: WorkspaceId, website_id: str) -> AppLinksCheck:
        """Check an app. Blocks: call it from a worker thread.

        Raises `NotFound` if the app belongs to another workspace.
        """
        website = self._websites.app(workspace_id, website_id)
        return check(website, self._settings, self._websites.load_mobile_apps())


def apple_file(apps: Iterable[MobileApp]) -> AppleFile:
    """Build the file for apps with a bundle ID and a team ID, without duplicates, in the given
    order.

    Omits entries that do not fit into the file.
    """
    details = filter(None, map(_apple_detail, apps))
    app_ids = _fit_into_file(
        dict.fromkeys(app_id for detail in details for app_id in detail.app_ids)
    )
    # All apps share one detail, because they open the same paths, and Apple limits the file to 128
    # KB.
    return AppleFile(applinks=AppleLinks(details=(_detail_of(*app_ids),) if app_ids else ()))


def android_file(apps: Iterable[MobileApp]) -> AndroidFile:
    """Build the file for apps with a package and a fingerprint, without duplicates, in the given
    order.

    Omits entries that do not fit into the file.
    """
    return AndroidFile(
        tuple(_fit_into_file(dict.fromkeys(filter(None, map(_android_statement, apps)))))
    )


def _fit_into_file(entries: Iterable[_Entry]) -> list[_Entry]:
    """Return the entries that fit into a file, in order. Skips entries that are too large."""
    fitting, free_bytes = [], MAX_FILE_BYTES - _FRAME_BYTES
    for entry in entries:
        size = len(to_json(entry, by_alias=True)) + 1
        if size <= free_bytes:
            free_bytes -= size
            fitting.append(entry)
    return fitting


def check(website: Website, settings: Settings, apps: Sequence[MobileApp]) -> AppLinksCheck:
    """Return an app's entries in the files, its missing settings, and problems with the public URL.

    apps: all apps of the installation.
    """
    app = website.app
    apple_entry, android_entry = _apple_detail(app), _android_statement(app)
    listed_ids = {app_id for each in apple_file(apps).applinks.details for app_id in each.app_ids}
    address = AddressCheck(url=settings.link_url, findings=tuple(_address_findings(settings)))
    ios_findings, android_findings = [*_ios_findings(app)], [*_android_findings(app)]
    if apple_entry and not listed_ids.issuperset(apple_entry.app_ids):
        ios_findings.append(_file_full("iosBundleId"))
    if android_entry and android_entry not in android_file(apps).root:
        android_findings.append(_file_full("androidPackage"))
    ios = IosCheck(
        state=_state(app.ios_bundle_id or app.ios_team_id, ios_findings),
        file=settings.link_url + APPLE_FILE,
        entry=apple_entry,
        findings=tuple(ios_findings),
    )
    android = AndroidCheck(
        state=_state(app.android_package or app.android_sha256_fingerprints, android_findings),
        file=settings.link_url + ANDROID_FILE,
        entry=android_entry,
        findings=tuple(android_findings),
    )
    states = {ios.state, android.state}
    ready = not address.findings and "ready" in states and "notReady" not in states
    return AppLinksCheck(
        website_id=website.id, ready=ready, address=address, ios=ios, android=android
    )


def _apple_detail(app: MobileApp) -> AppleDetail | None:
    return (
        _detail_of(f"{app.ios_team_id}.{app.ios_bundle_id}")
        if app.ios_team_id and app.ios_bundle_id
        else None
    )


def _detail_of(*app_ids: str) -> AppleDetail:
    return AppleDetail(app_ids=app_ids, components=_LINK_PATHS)


def _android_statement(app: MobileApp) -> AndroidStatement | None:
    if not app.android_package or not app.android_sha256_fingerprints:
        return None
    fingerprints = tuple(dict.fromkeys(app.android_sha256_fingerprints))
    return AndroidStatement(
        target=AndroidTarget(
            package_name=app.android_package, sha256_cert_fingerprints=fingerprints
        ),
        relation_extensions=AndroidExtensions(handle_all_urls=AndroidRules(components=_LINK_PATHS)),
    )


def _file_full(field: str) -> Finding:
    return Finding(
        field=field,
        message=f"The file of this installation is full at {MAX_FILE_BYTES // 1024} KB and leaves "
        "this app out. Delete apps that are not used, or ask the operator.",
    )


def _state(has_settings: object, findings: Sequence[Finding]) -> PlatformState:
    if not has_settings:
        return "notSet"
    return "notReady" if findings else "ready"


def _ios_findings(app: MobileApp) -> Iterator[Finding]:
    if not app.ios_bundle_id:
        yield Finding(
            field="iosBundleId",
            message="Set iosBundleId to the bundle ID of the iOS app, such as com.example.shop.",
        )
    if not app.ios_team_id:
        yield Finding(
            field="iosTeamId",
            message="Set iosTeamId to the ten characters of the App ID prefix, such as A1B2C3D4E5; "
            "usually it is the team ID.",
        )
    elif app.ios_bundle_id and app.ios_bundle_id.startswith(f"{app.ios_team_id}."):
        bundle_id = app.ios_bundle_id.removeprefix(f"{app.ios_team_id}.")
        yield Finding(
            field="iosBundleId",
            message=f"Set iosBundleId to {bundle_id}, without the team ID: "
            "Apple's file puts the team ID before it.",
        )


def _android_findings(app: MobileApp) -> Iterator[Finding]:
    if not app.android_package:
        yield Finding(
            field="androidPackage",
            message="Set androidPackage to the application ID of the Android app, such as "
            "com.example.shop.",
        )
    if not app.android_sha256_fingerprints:
        yield Finding(
            field="androidSha256Fingerprints",
            message="Set androidSha256Fingerprints to the SHA-256 fingerprint of the certificate "
            "that signs the Android app. With Play App Signing, use Google's app signing key, not "
            "your upload key.",
        )


def _address_findings(settings: Settings) -> Iterator[Finding]:
    if settings.link_host is None:
        for message in _address_faults(settings):
            yield Finding(field=_PUBLIC_URL, message=f"Set {_PUBLIC_URL} to {message}.")
        return
    for message in _host_faults(settings.link_url, "a host"):
        yield Finding(field=_LINK_HOST, message=f"Set {_LINK_HOST} to {message}.")
    if not settings.link_url.startswith("https://"):
        message = f"Set {_PUBLIC_URL} to a URL that begins with https://: {_ONLY_HTTPS}."
        yield Finding(field=_PUBLIC_URL, message=message)


def _address_faults(settings: Settings) -> Iterator[str]:
    """Suggest better values for the public URL, with reasons. Examines only the URL's text."""
    if settings.public_url is None:
        yield (
            "the https URL of your links, such as https://go.example.com: currently links begin "
            f"with {settings.base_url}, which phones cannot reach"
        )
        return
    parts = urlsplit(settings.base_url)
    if parts.scheme != "https":
        yield f"a URL that begins with https://: {_ONLY_HTTPS}"
    yield from _host_faults(settings.base_url, "a URL")
    if parts.path:
        yield (
            "a URL without a path: phones fetch the files from the root of the host, "
            f"not below {parts.path}"
        )


def _host_faults(url: str, kind: str) -> Iterator[str]:
    """Yield problems with a URL's host and port. kind: `a URL` or `a host`, for the messages."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    if is_ip_address(host):
        yield f"{kind} with a domain name instead of the IP address {host}: apps need a domain"
    elif is_private_name(host) or host.removesuffix(".").endswith(_NON_PUBLIC_SUFFIXES):
        yield f"{kind} with a public domain name: phones cannot reach {host} from the internet"
    if port not in (None, 443):
        yield f"{kind} without a port: phones fetch the files from port 443, not {port}"
