"""What goes over the wire for the association files, in the spelling of the platforms, and for their check.

Sources: Apple, "Supporting associated domains"; Google, "Digital Asset Links" and "Configure dynamic App Links rules".
"""

from typing import Annotated, Literal

from pydantic import Field, RootModel

from penstock.http.schema import Record

HANDLE_ALL_URLS: Literal["delegate_permission/common.handle_all_urls"] = "delegate_permission/common.handle_all_urls"

State = Literal["ready", "notReady", "notSet"]


class PathPattern(Record):
    path: Annotated[str, Field(serialization_alias="/", description="Pattern of a URL's path; `*` stands for any characters.")]


class AppleDetail(Record):
    """Apps and the URLs that they open."""

    app_ids: Annotated[
        tuple[str, ...], Field(serialization_alias="appIDs", description="Team ID, a dot, bundle ID, as `A1B2C3D4E5.com.example.shop`.")
    ]
    components: tuple[PathPattern, ...]


class AppleLinks(Record):
    details: tuple[AppleDetail, ...]


class AppleFile(Record):
    """The file apple-app-site-association."""

    applinks: AppleLinks


class AndroidTarget(Record):
    namespace: Literal["android_app"] = "android_app"
    package_name: Annotated[str, Field(serialization_alias="package_name")]
    sha256_cert_fingerprints: Annotated[tuple[str, ...], Field(serialization_alias="sha256_cert_fingerprints")]


class AndroidRules(Record):
    components: Annotated[
        tuple[PathPattern, ...],
        Field(serialization_alias="dynamic_app_link_components", description="Read by Android 15 and later; ignored before."),
    ]


class AndroidExtensions(Record):
    handle_all_urls: Annotated[AndroidRules, Field(serialization_alias=HANDLE_ALL_URLS)]


class AndroidStatement(Record):
    """That an app may open URLs of this host."""

    relation: tuple[Literal["delegate_permission/common.handle_all_urls"]] = (HANDLE_ALL_URLS,)
    target: AndroidTarget
    relation_extensions: Annotated[AndroidExtensions, Field(serialization_alias="relation_extensions")]


class AndroidFile(RootModel[tuple[AndroidStatement, ...]]):
    """The file assetlinks.json."""


class Finding(Record):
    field: Annotated[str, Field(description="What to set: a field of the website, or the operator's setting `PENSTOCK_PUBLIC_URL`.")]
    message: Annotated[str, Field(description="A sentence that says what to set it to, and why.")]


class AddressCheck(Record):
    url: Annotated[str, Field(description="The public address of the installation, with which its links begin.")]
    findings: tuple[Finding, ...]


class _PlatformCheck(Record):
    state: Annotated[State, Field(description="`notSet`: no field of this platform is set.")]
    file: Annotated[str, Field(description="Where phones look for the association file.")]
    findings: Annotated[tuple[Finding, ...], Field(description="What is missing or wrong; empty when `ready`.")]


class IosCheck(_PlatformCheck):
    entry: Annotated[AppleDetail | None, Field(description="What the file says for this app; null: nothing.")]


class AndroidCheck(_PlatformCheck):
    entry: Annotated[AndroidStatement | None, Field(description="What the file says for this app; null: nothing.")]


class AppLinksCheck(Record):
    website_id: str
    ready: Annotated[
        bool, Field(description="The address has no findings, a platform is ready, and none is begun and not ready. Nothing was fetched.")
    ]
    address: AddressCheck
    ios: IosCheck
    android: AndroidCheck
