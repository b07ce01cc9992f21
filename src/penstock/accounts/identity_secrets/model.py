"""Signatures of user IDs. No I/O."""

import hashlib
import hmac


def user_hash(secret: str, user_id: str) -> str:
    """Return the HMAC-SHA256 of a user ID in hex. It proves that the customer's backend knows the
    user.
    """
    return hmac.new(secret.encode(), user_id.encode(), hashlib.sha256).hexdigest()
