"""Signatures of user IDs. No I/O."""

import hashlib
import hmac


def user_hash(secret: str, user_id: str) -> str:
    """HMAC-SHA256 of a user ID in hex: proof that the customer's backend knows this user."""
    return hmac.new(secret.encode(), user_id.encode(), hashlib.sha256).hexdigest()
