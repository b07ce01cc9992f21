"""Use cases for single sign-on: sending users to the identity provider, and handling their
return.
"""

import hmac
from functools import partial
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from penstock.accounts.credentials import new_token
from penstock.accounts.model import SIGN_ON_ATTEMPT_S, Role, VerifiedLogIn
from penstock.accounts.schema import Email
from penstock.accounts.service import AccountService
from penstock.accounts.single_sign_on.model import Claims, ProviderAnswer, SignOnAttempt
from penstock.base.clock import Clock
from penstock.base.errors import Forbidden, NotFound, RatePolicy, Unauthorized, Unavailable
from penstock.base.fair_queue import FairQueue, QueueLimits
from penstock.base.ids import WorkspaceId
from penstock.base.networks import client_network
from penstock.http.rate_limiter import RateLimiter
from penstock.metadb.secret_box import SecretBox
from penstock.settings import Settings

if TYPE_CHECKING:
    from penstock.accounts.single_sign_on.provider import IdentityProvider

_ATTEMPTS = RatePolicy("sign_on", quota=200, window_s=300)
"""Limit on single sign-on requests per network. Each log-in takes two."""
_WORK = QueueLimits(slots=4, slots_per_key=2, waiting=40, waiting_per_key=8)
_EMAIL: TypeAdapter[str] = TypeAdapter(Email)


class SingleSignOnService:
    """Logs people in with the configured identity provider. Raises `NotFound` if there is none."""

    def __init__(
        self, accounts: AccountService, box: SecretBox, settings: Settings, clock: Clock
    ) -> None:
        self._accounts, self._box = accounts, box
        self._settings, self._clock = settings, clock
        self._provider = _provider_of(settings, clock)
        self._attempts = RateLimiter(_ATTEMPTS, clock)
        self._work = FairQueue("log-ins", _WORK)
        domains = (settings.oidc_email_domains or "").lower().split(",")
        self._domains = frozenset(domain.strip() for domain in domains if domain.strip())

    @property
    def provider_name(self) -> str | None:
        """The provider's name for the button; None if no provider is configured."""
        return self._settings.oidc_name if self._provider else None

    @property
    def _redirect_uri(self) -> str:
        return f"{self._settings.base_url}/login/sso/callback"

    async def begin(self, next_path: str, address: str) -> tuple[str, str]:
        """Return the URL to send the browser to, and the sealed attempt for its cookie.

        next_path: the page to open after the log-in. address: IP address of the client.
        """
        provider, network = self._require_provider(), client_network(address)
        self._attempts.count(network)
        expires_at_ms = self._clock() + SIGN_ON_ATTEMPT_S * 1000
        attempt = SignOnAttempt(new_token(), new_token(), new_token(), next_path, expires_at_ms)
        url = await self._work.run(network, provider.authorization_url, attempt, self._redirect_uri)
        return url, self._box.seal_token(to_json(attempt).decode())

    async def finish(
        self, sealed_attempt: str, answer: ProviderAnswer, address: str
    ) -> tuple[VerifiedLogIn, str]:
        """Return the log-in, and the page to open next.

        Raises `Unauthorized` if the answer is invalid or not for this browser, and `Forbidden` if
        the person may not log in.
        """
        provider, network = self._require_provider(), client_network(address)
        self._attempts.count(network)
        attempt = self._attempt(sealed_attempt)
        is_ours = hmac.compare_digest((answer.state or "").encode(), attempt.state.encode())
        if not is_ours or answer.issuer not in (None, self._settings.oidc_issuer):
            raise _expired()
        if answer.error is not None or not answer.code:
            raise Unauthorized(
                "The identity provider did not log you in. Try again, or ask its administrator.",
                code="sign_on_refused",
            )
        use_case = partial(self._log_in, provider, answer.code, attempt, network)
        return await self._work.run(network, use_case), attempt.next_path

    def _log_in(
        self, provider: "IdentityProvider", code: str, attempt: SignOnAttempt, network: str
    ) -> VerifiedLogIn:
        email = self._email(provider.claims(code, attempt, self._redirect_uri))
        opened = self._accounts.log_in_verified(email, network)
        if opened is None and self._settings.oidc_join_workspace is not None:
            workspace_id = WorkspaceId(self._settings.oidc_join_workspace)
            opened = self._accounts.join_verified(
                email, workspace_id, Role(self._settings.oidc_join_role), network
            )
        if opened is None:
            raise Forbidden(
                f"{email} has no account here. Ask an owner of your workspace to invite you.",
                code="sign_on_unknown_user",
            )
        return opened

    def _email(self, claims: Claims) -> str:
        """Return the verified email address.

        Raises `Forbidden` if the address is unverified or its domain is not allowed.
        """
        try:
            email = _EMAIL.validate_python(claims.get("email"))
        except ValidationError:
            email = ""
        if not email or claims.get("email_verified") is not True:
            raise Forbidden(
                "The identity provider does not confirm your email address. Verify it there.",
                code="sign_on_email_not_verified",
            )
        if self._domains and email.rpartition("@")[2] not in self._domains:
            raise Forbidden(
                f"{email} is not in a domain that may log in here.",
                code="sign_on_domain_not_allowed",
            )
        return email

    def _attempt(self, sealed: str) -> SignOnAttempt:
        try:
            attempt = SignOnAttempt(*from_json(self._box.open_token(sealed)))
        except Unavailable:
            raise _expired() from None
        if attempt.expires_at_ms <= self._clock():
            raise _expired()
        return attempt

    def _require_provider(self) -> "IdentityProvider":
        if self._provider is None:
            raise NotFound("No identity provider is set up.", code="sign_on_not_set_up")
        return self._provider


def _expired() -> Unauthorized:
    return Unauthorized(
        "This log-in has expired, or was started in another browser. Try again.",
        code="sign_on_expired",
    )


def _provider_of(settings: Settings, clock: Clock) -> "IdentityProvider | None":
    """The configured provider. Importing its packages takes 10 MB of memory, so services without a
    provider do not import them.
    """
    if not settings.oidc_issuer:
        return None
    from penstock.accounts.single_sign_on.provider import IdentityProvider

    return IdentityProvider(settings, clock)
