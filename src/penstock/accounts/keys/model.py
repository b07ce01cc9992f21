"""Plain types of API keys. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from dataclasses import dataclass

from penstock.base.ids import KeyId


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key without its secret. prefix: the first characters, to recognize it by."""

    id: KeyId
    name: str
    prefix: str
    created_at_ms: int
    last_used_at_ms: int | None = None
    revoked_at_ms: int | None = None
