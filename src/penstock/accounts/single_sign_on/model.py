"""Plain types for single sign-on. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from typing import Any, NamedTuple


class SignOnAttempt(NamedTuple):
    """Data that a browser keeps while it visits the provider.

    state: proves that the provider's answer is for this browser. nonce: proves that the ID token is
    for this attempt. verifier: proves that the code is redeemed by its requester (PKCE). next_path:
    the page to open afterwards.
    """

    state: str
    nonce: str
    verifier: str
    next_path: str
    expires_at_ms: int


class ProviderAnswer(NamedTuple):
    """Query parameters of the redirect from the provider. Any of them may be missing."""

    code: str | None
    state: str | None
    issuer: str | None
    error: str | None


SCOPES = "openid email"
Claims = dict[str, Any]
"""An ID token's statements about a person."""
