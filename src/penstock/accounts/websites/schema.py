"""Wire types for websites: inputs with their rules, and the record."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from penstock.accounts.model import MobileApp, Website, WebsiteKind
from penstock.base.errors import Fault
from penstock.base.patterns import Pattern
from penstock.http.schema import Input, Iso, Name, Omittable, Record, RuleBroken

_HOST_LABEL = Pattern(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_FINGERPRINT = Pattern(r"[0-9A-F]{2}(?::[0-9A-F]{2}){31}")
_SCHEME = Pattern(r"[a-z][a-z0-9+.-]*")
_NOT_IN_URLS = frozenset("\\\x7f" + "".join(map(chr, range(32))))
_RESERVED_SCHEMES = frozenset(
    (
        "about",
        "blob",
        "chrome",
        "content",
        "data",
        "file",
        "ftp",
        "http",
        "https",
        "intent",
        "javascript",
        "mailto",
        "sms",
        "tel",
        "ws",
        "wss",
    )
)


def _domain(value: str) -> str:
    """Normalise a domain: lower case, international names in IDNA form, with an optional port."""
    name, colon, port = value.lower().partition(":")
    try:
        name = name.encode("idna").decode("ascii")
    except UnicodeError:
        name = ""
    port_is_valid = not colon or (port.isascii() and port.isdigit() and 0 < int(port) < 65536)
    if (
        not port_is_valid
        or len(name) > 253
        or not all(_HOST_LABEL.fullmatch(label) for label in name.split("."))
    ):
        raise RuleBroken(
            "not_a_domain", "Must be a host name such as shop.example.com, without scheme or path."
        )
    return name + colon + port


def _store_url(value: str) -> str:
    try:
        parts = urlsplit(value)
        parts.port  # noqa: B018 - raises for a port out of range
    except ValueError:
        parts = urlsplit("")
    if (
        parts.scheme != "https"
        or not parts.hostname
        or "@" in parts.netloc
        or any(character.isspace() or character in _NOT_IN_URLS for character in value)
    ):
        raise RuleBroken(
            "not_a_url",
            "Must be the https:// URL of the app's store page, without credentials.",
        )
    return value


def _app_signature(value: str) -> str:
    upper = value.upper()
    if not _FINGERPRINT.fullmatch(upper):
        raise RuleBroken(
            "not_a_fingerprint",
            "Must be the SHA-256 fingerprint of the signing certificate: 32 pairs of hex digits, "
            "separated by colons.",
        )
    return upper


def _scheme(value: str) -> str:
    lowered = value.lower()
    if lowered in _RESERVED_SCHEMES or not _SCHEME.fullmatch(lowered):
        raise RuleBroken(
            "not_a_scheme",
            "Must be the app's own URL scheme without ://, such as myshop. Common schemes such as "
            "http are not allowed.",
        )
    return lowered


def _pattern(pattern: str, error: Callable[[], RuleBroken]) -> AfterValidator:
    rule = Pattern(pattern)

    def check(value: str) -> str:
        if not rule.fullmatch(value):
            raise error()
        return value

    return AfterValidator(check)


Domain = Annotated[str, Field(max_length=260), AfterValidator(_domain)]
StoreUrl = Annotated[str, Field(max_length=2048), AfterValidator(_store_url)]
AppSignature = Annotated[str, Field(max_length=95), AfterValidator(_app_signature)]
CustomScheme = Annotated[str, Field(max_length=64), AfterValidator(_scheme)]
IosBundleId = Annotated[
    str,
    Field(max_length=155),
    _pattern(
        r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*",
        lambda: RuleBroken("not_a_bundle_id", "Must be a bundle ID such as com.example.shop."),
    ),
]
IosTeamId = Annotated[
    str,
    _pattern(
        r"[A-Z0-9]{10}",
        lambda: RuleBroken(
            "not_a_team_id", "Must be an Apple team ID: ten letters and digits, such as A1B2C3D4E5."
        ),
    ),
]
AndroidPackage = Annotated[
    str,
    Field(max_length=255),
    _pattern(
        r"[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z][A-Za-z0-9_]*)+",
        lambda: RuleBroken(
            "not_a_package",
            "Must be a package name with at least two parts, such as com.example.shop.",
        ),
    ),
]


class AppFields(Input):
    """Optional fields of a mobile app."""

    ios_bundle_id: IosBundleId | None = None
    ios_team_id: IosTeamId | None = None
    app_store_url: StoreUrl | None = None
    android_package: AndroidPackage | None = None
    android_sha256_fingerprints: Annotated[list[AppSignature], Field(max_length=20)] | None = None
    play_store_url: StoreUrl | None = None
    custom_scheme: CustomScheme | None = None
    ios_probabilistic_matching: bool | None = None
    """Whether a first open on iOS may be matched to a click by network; default false."""
    android_probabilistic_matching: bool | None = None
    """Whether a first open on Android may be matched to a click by network; default true."""
    ios_clipboard_matching: bool | None = None
    """Whether "Get the app" on iOS copies the link with its click token, for the app to read;
    default false.
    """

    def sent_values(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the named fields that were sent, as values for the model. Null becomes the
        default.
        """
        values = {name: getattr(self, name) for name in names if name in self.model_fields_set}
        if values.get("android_sha256_fingerprints"):
            values["android_sha256_fingerprints"] = tuple(values["android_sha256_fingerprints"])
        return {
            name: _APP_DEFAULTS.get(name) if value is None else value
            for name, value in values.items()
        }


_APP_DEFAULTS = asdict(MobileApp())
APP_FIELDS = tuple(AppFields.model_fields)
_ONLY_MOBILE = "Only websites of kind mobile have this field."


RetentionDays = Annotated[
    int | None,
    Field(
        ge=1,
        le=36_500,
        description="Days after which such events are deleted; null keeps them forever.",
    ),
]


class RetentionFields(Input):
    """Number of days that events are kept, for each kind of event."""

    pageview_retention_days: RetentionDays = None
    screenview_retention_days: RetentionDays = None
    event_retention_days: RetentionDays = None
    transaction_retention_days: RetentionDays = None
    provider_retention_days: RetentionDays = None

    def retention_after(self, before: Mapping[str, int]) -> dict[str, int]:
        """Return the retention in days by kind of event, after this change. before: the retention
        before the change.
        """
        sent = {
            name.removesuffix(_RETENTION): getattr(self, name)
            for name in RETENTION_FIELDS
            if name in self.model_fields_set
        }
        return {kind: days for kind, days in {**before, **sent}.items() if days is not None}


_RETENTION = "_retention_days"
RETENTION_FIELDS = tuple(RetentionFields.model_fields)


class _NewWebsite(Input):
    name: Name
    kind: WebsiteKind
    domain: Domain | None = None
    identity_scope: Name | None = None
    """Websites with the same scope share their visitors. It cannot be changed later. Default:
    visitors are not shared.
    """


class NewWebsite(AppFields, RetentionFields, _NewWebsite):
    # Pydantic validates the last base first, so `kind` is known when app fields are checked.

    @field_validator(*APP_FIELDS)
    @classmethod
    def _require_mobile(cls, value: Any, info: ValidationInfo) -> Any:
        if value and info.data.get("kind") is WebsiteKind.WEB:
            raise RuleBroken("only_mobile", _ONLY_MOBILE)
        return value

    @property
    def app(self) -> MobileApp:
        return MobileApp(**self.sent_values(APP_FIELDS))


class WebsiteChanges(AppFields, RetentionFields):
    """Changes to a website. Omitted fields keep their value; null clears a field.

    The kind and the identity scope are fixed.
    """

    name: Omittable[Name] = None
    domain: Domain | None = None
    requires_signed_identities: Omittable[bool] = None
    """Whether identify without an API key needs a `userHash`."""


def only_mobile_fault(field: str) -> Fault:
    alias = AppFields.model_fields[field].alias
    return Fault(alias or field, "only_mobile", _ONLY_MOBILE)


class WebsiteRecord(Record):
    id: str
    name: str
    kind: WebsiteKind
    domain: str | None
    identity_scope: str | None
    requires_signed_identities: bool
    ios_bundle_id: str | None
    ios_team_id: str | None
    app_store_url: str | None
    android_package: str | None
    android_sha256_fingerprints: tuple[str, ...]
    play_store_url: str | None
    custom_scheme: str | None
    ios_probabilistic_matching: bool
    android_probabilistic_matching: bool
    ios_clipboard_matching: bool
    pageview_retention_days: int | None
    screenview_retention_days: int | None
    event_retention_days: int | None
    transaction_retention_days: int | None
    provider_retention_days: int | None
    created_at: Iso
    updated_at: Iso

    @classmethod
    def from_website(cls, website: Website) -> Self:
        retention_days = {
            name: website.retention_days.get(name.removesuffix(_RETENTION))
            for name in RETENTION_FIELDS
        }
        return cls.from_object(website, **asdict(website.app), **retention_days)
