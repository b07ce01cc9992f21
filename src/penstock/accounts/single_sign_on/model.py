"""Plain types of single sign-on. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from typing import Any, NamedTuple


class SignOnAttempt(NamedTuple):
    """What a browser keeps between leaving for the provider and coming back.

    state: proves that the answer is for this browser. nonce: that the ID token is. verifier: that
    who redeems the code asked for it (PKCE). next_path: the page to open then.
    """

    state: str
    nonce: str
    verifier: str
    next_path: str
    expires_at_ms: int


class ProviderAnswer(NamedTuple):
    """Query parameters with which the provider sends a browser back; each may be missing."""

    code: str | None
    state: str | None
    issuer: str | None
    error: str | None


Claims = dict[str, Any]
"""What an ID token says about a person."""
