"""Plain types of identity secrets. No I/O. Times are milliseconds since 1970-01-01 UTC."""

import hashlib
import hmac
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class IdentitySecret:
    """A secret of a website. valid_until_ms: set once another took its place."""

    id: str
    secret: str = field(repr=False)
    created_at_ms: int
    valid_until_ms: int | None = None

    def is_valid(self, now_ms: int) -> bool:
        return self.valid_until_ms is None or now_ms < self.valid_until_ms


def user_hash(secret: str, user_id: str) -> str:
    """HMAC-SHA256 of a user ID in hex: proof that the customer's backend knows this user."""
    return hmac.new(secret.encode(), user_id.encode(), hashlib.sha256).hexdigest()
