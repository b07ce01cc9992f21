"""Plain types for API keys. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from dataclasses import dataclass

from penstock.base.ids import KeyId, WebsiteId
from penstock.http.scopes import ALL_SCOPES, KeyScope


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key without its secret.

    prefix: the key's first characters, so that people can recognise it. created_by: the creator's
    email address at that time; None for old keys, whose creator is unknown. website_id: the only
    website that the key can access; None for all websites of the workspace.
    """

    id: KeyId
    name: str
    prefix: str
    created_at_ms: int
    scopes: frozenset[KeyScope] = ALL_SCOPES
    website_id: WebsiteId | None = None
    expires_at_ms: int | None = None
    created_by: str | None = None
    last_used_at_ms: int | None = None
    revoked_at_ms: int | None = None
