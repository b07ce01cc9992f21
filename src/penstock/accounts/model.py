"""Plain types for accounts. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from penstock.base.ids import (
    KeyId,
    ScopeId,
    SessionId,
    UserAccountId,
    WebsiteId,
    WorkspaceId,
)
from penstock.http.scopes import ALL_SCOPES, KeyScope

PENDING_S = 300
"""Time that a user has to enter the second-factor code, in seconds."""
SIGN_ON_ATTEMPT_S = 600
"""Time that a user has to complete single sign-on at the identity provider, in seconds."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request: an API key (`key_id`) or a user with a session (`user_id`).

    name: name of the key, or email address of the user. scopes: rights of the key, or of the user's
    role.
    website_id: the only website that the key can access; None for the whole workspace. session_id:
    the user's session.
    """

    workspace_id: WorkspaceId
    user_id: UserAccountId | None = None
    key_id: KeyId | None = None
    name: str = ""
    scopes: frozenset[KeyScope] = ALL_SCOPES
    website_id: WebsiteId | None = None
    session_id: SessionId | None = None


@dataclass(frozen=True, slots=True)
class User:
    """A person with an account. email_confirmed_at_ms: None until they prove their address."""

    id: UserAccountId
    email: str
    created_at_ms: int
    email_confirmed_at_ms: int | None

    @property
    def email_confirmed(self) -> bool:
        return self.email_confirmed_at_ms is not None

    @property
    def target(self) -> str:
        """The user as the target of an entry in the audit log."""
        return f"{self.id} {self.email}"


@dataclass(frozen=True, slots=True)
class Workspace:
    id: WorkspaceId
    name: str
    created_at_ms: int


class Role(StrEnum):
    """A member's role in a workspace."""

    OWNER = "owner"
    """May do everything, and manages people."""
    MEMBER = "member"
    """May do everything, except managing people."""
    VIEWER = "viewer"
    """May do what an API key with the scope `read` may do."""

    @property
    def scopes(self) -> frozenset[KeyScope]:
        return frozenset({KeyScope.READ}) if self is Role.VIEWER else ALL_SCOPES


@dataclass(frozen=True, slots=True)
class CurrentUser:
    """A user in a workspace. role: their role in it. session_id: None outside a session."""

    user: User
    workspace: Workspace
    role: Role
    session_id: SessionId | None = None

    @property
    def caller(self) -> Caller:
        return Caller(
            self.workspace.id,
            user_id=self.user.id,
            name=self.user.email,
            scopes=self.role.scopes,
            session_id=self.session_id,
        )


@dataclass(frozen=True, slots=True)
class PendingLogIn:
    """A log-in that is waiting for a second-factor code. token: the value of the browser's
    cookie.
    """

    token: str


class VerifiedLogIn(NamedTuple):
    """A log-in by an identity provider. opened: the session's token and user, or a pending log-in.

    is_reclaimed: whether the account was taken from its previous holder.
    """

    opened: tuple[str, CurrentUser] | PendingLogIn
    is_reclaimed: bool


class WebsiteKind(StrEnum):
    WEB = "web"
    MOBILE = "mobile"


@dataclass(frozen=True, slots=True)
class MobileApp:
    """A mobile app's settings for app stores and links. Every field is optional.

    *_probabilistic_matching: whether a first open may be matched to a click by its network.
    ios_clipboard_matching: whether "Get the app" copies the link with its click token.
    """

    ios_bundle_id: str | None = None
    ios_team_id: str | None = None
    app_store_url: str | None = None
    android_package: str | None = None
    android_sha256_fingerprints: tuple[str, ...] = ()
    play_store_url: str | None = None
    custom_scheme: str | None = None
    ios_probabilistic_matching: bool = False
    android_probabilistic_matching: bool = True
    ios_clipboard_matching: bool = False


@dataclass(frozen=True, slots=True)
class Website:
    """A website or mobile app that sends events.

    scope_id: the identity scope of its visitors and identity links. app: empty for kind `web`.
    requires_signed_identities: whether identify without a key needs a signature of the user ID.
    retention_days: days that events are kept, by kind of event; kinds that are not listed are kept
    forever.
    """

    id: WebsiteId
    workspace_id: WorkspaceId
    name: str
    kind: WebsiteKind
    domain: str | None
    identity_scope: str | None
    scope_id: ScopeId
    created_at_ms: int
    updated_at_ms: int
    app: MobileApp = field(default_factory=MobileApp)
    requires_signed_identities: bool = False
    retention_days: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SigningSecret:
    """A secret of a website, used to sign user IDs or webhooks.

    valid_until_ms: None for the current secret; set when it is replaced.
    """

    id: str
    secret: str = field(repr=False)
    created_at_ms: int
    valid_until_ms: int | None = None

    def is_valid(self, now_ms: int) -> bool:
        return self.valid_until_ms is None or now_ms < self.valid_until_ms
