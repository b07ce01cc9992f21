"""Wire types for the association files, in the platforms' formats, and for the check of an app's
entries.

Sources: Apple, "Supporting associated domains"; Google, "Digital Asset Links" and "Configure
dynamic App Links rules".
"""

from typing import Annotated, Literal

from pydantic import Field, RootModel

from penstock.http.schema import Record

HANDLE_ALL_URLS: Literal["delegate_permission/common.handle_all_urls"] = (
    "delegate_permission/common.handle_all_urls"
)

PlatformState = Literal["ready", "notReady", "notSet"]


class PathPattern(Record):
    path: Annotated[str, Field(serialization_alias="/")]
    """Pattern of a URL path; `*` matches any characters."""


class AppleDetail(Record):
    """Apps and the URL paths that they open."""

    app_ids: Annotated[tuple[str, ...], Field(serialization_alias="appIDs")]
    """Team ID, a dot, bundle ID, such as `A1B2C3D4E5.com.example.shop`."""
    components: tuple[PathPattern, ...]


class AppleLinks(Record):
    details: tuple[AppleDetail, ...]


class AppleFile(Record):
    """The file apple-app-site-association."""

    applinks: AppleLinks


class AndroidTarget(Record):
    namespace: Literal["android_app"] = "android_app"
    package_name: Annotated[str, Field(serialization_alias="package_name")]
    sha256_cert_fingerprints: Annotated[
        tuple[str, ...], Field(serialization_alias="sha256_cert_fingerprints")
    ]


class AndroidRules(Record):
    components: Annotated[
        tuple[PathPattern, ...], Field(serialization_alias="dynamic_app_link_components")
    ]
    """Used by Android 15 and later, ignored by older versions."""


class AndroidExtensions(Record):
    handle_all_urls: Annotated[AndroidRules, Field(serialization_alias=HANDLE_ALL_URLS)]


class AndroidStatement(Record):
    """Allows an app to open URLs on this host."""

    relation: tuple[Literal["delegate_permission/common.handle_all_urls"]] = (HANDLE_ALL_URLS,)
    target: AndroidTarget
    relation_extensions: Annotated[
        AndroidExtensions, Field(serialization_alias="relation_extensions")
    ]


class AndroidFile(RootModel[tuple[AndroidStatement, ...]]):
    """The file assetlinks.json."""


class Finding(Record):
    field: str
    """The field of the website, or the setting (`PENSTOCK_LINK_HOST` or `PENSTOCK_PUBLIC_URL`),
    that should change.
    """
    message: str
    """A sentence that says what to set, and why."""


class AddressCheck(Record):
    url: str
    """The address of links. The URLs of links begin with it."""
    findings: tuple[Finding, ...]


class _PlatformCheck(Record):
    state: PlatformState
    """`notSet`: no field of this platform is set."""
    file: str
    """URL where phones look for the association file."""
    findings: Annotated[
        tuple[Finding, ...], Field(description="What is missing or wrong; empty when `ready`.")
    ]


class IosCheck(_PlatformCheck):
    entry: AppleDetail | None
    """The app's entry in the file; null if it has no entry."""


class AndroidCheck(_PlatformCheck):
    entry: AndroidStatement | None
    """The app's entry in the file; null if it has no entry."""


class AppLinksCheck(Record):
    website_id: str
    ready: bool
    """True if the address has no findings, at least one platform is `ready`, and none is
    `notReady`.
    """
    address: AddressCheck
    ios: IosCheck
    android: AndroidCheck
