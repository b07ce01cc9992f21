"""Plain types of accounts. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from dataclasses import dataclass, field
from enum import StrEnum

from penstock.base.ids import KeyId, ScopeId, UserAccountId, WebsiteId, WorkspaceId


@dataclass(frozen=True, slots=True)
class Caller:
    """On whose behalf a request is made. key_id: of a bearer key; user_id: of a session; exactly one of them is set."""

    workspace_id: WorkspaceId
    user_id: UserAccountId | None = None
    key_id: KeyId | None = None


@dataclass(frozen=True, slots=True)
class User:
    id: UserAccountId
    email: str
    created_at_ms: int


@dataclass(frozen=True, slots=True)
class Workspace:
    id: WorkspaceId
    name: str
    created_at_ms: int


class Role(StrEnum):
    """What a member may do in a workspace. An owner also says who is in it."""

    OWNER = "owner"
    MEMBER = "member"


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Who a session stands for. role: of the user in the workspace."""

    user: User
    workspace: Workspace
    role: Role

    @property
    def caller(self) -> Caller:
        return Caller(workspace_id=self.workspace.id, user_id=self.user.id)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key as it is kept: never the key itself. prefix: its first characters, to recognise it by."""

    id: KeyId
    name: str
    prefix: str
    created_at_ms: int
    last_used_at_ms: int | None = None
    revoked_at_ms: int | None = None


class WebsiteKind(StrEnum):
    WEB = "web"
    MOBILE = "mobile"


@dataclass(frozen=True, slots=True)
class MobileApp:
    """What the operator told about an app: where it is found and how it is opened. All of it optional.

    *_probabilistic_matching: whether a first open may be matched to a click by its network.
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


@dataclass(frozen=True, slots=True)
class Website:
    """A site or a tracked app. scope_id: the identity scope that its visitors and user links belong to. app: empty for kind web."""

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


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """What one query of a workspace may take. None: as much as the operator allows."""

    timeout_s: float | None
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class WorkspaceSettings:
    """What a workspace says of itself."""

    name: str
    limits: QueryLimits
