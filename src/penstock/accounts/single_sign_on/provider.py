"""Client for the configured identity provider: its discovery document, keys and ID tokens.

Its responses are limited in size and time, and only `https` URLs are requested. For tests and
trials, a provider on this machine may use `http`.
"""

import hashlib
import ssl
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
import structlog
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet
from pydantic_core import from_json

from penstock.accounts.single_sign_on.model import SCOPES, Claims, SignOnAttempt
from penstock.base.clock import Clock
from penstock.base.errors import Unauthorized, Unavailable
from penstock.base.service_urls import is_provider_url
from penstock.settings import Settings

log = structlog.get_logger()

_MAX_BYTES = 512 * 1024
_TIMEOUT_S, _DEADLINE_S = 5.0, 10.0
_VALID_MS = 3_600_000
_RETRY_MS = 10_000
_REREAD_MS = 60_000
_LEEWAY_S = 60
_ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
"""Accepted signature algorithms. All of them use the provider's own key; signatures made with the
client secret are rejected.
"""


class _Discovery(NamedTuple):
    authorization_url: str
    token_url: str
    userinfo_url: str | None
    keys: KeySet
    read_at_ms: int


class IdentityProvider:
    """An OpenID provider. Methods block: call them from a worker thread."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        """settings: must contain an issuer."""
        self._issuer, self._client_id = settings.oidc_issuer or "", settings.oidc_client_id or ""
        secret = settings.oidc_client_secret
        self._client_secret = secret.get_secret_value() if secret else ""
        self._clock = clock
        self._discovery: _Discovery | None = None
        self._failed_at_ms: int | None = None

    def authorization_url(self, attempt: SignOnAttempt, redirect_uri: str) -> str:
        """Return the URL to send the browser to. Raises `Unavailable` if the provider does not
        answer.
        """
        query = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": redirect_uri,
            "scope": SCOPES,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": _base64url(hashlib.sha256(attempt.verifier.encode()).digest()),
            "code_challenge_method": "S256",
        }
        url = httpx.URL(self._current_discovery().authorization_url)
        return str(url.copy_merge_params(query))

    def claims(self, code: str, attempt: SignOnAttempt, redirect_uri: str) -> Claims:
        """Return the provider's claims about the person, for a code that it gave the browser.

        Raises `Unauthorized` if the provider rejects the code or its response is invalid, and
        `Unavailable` if the provider does not answer.
        """
        discovery = self._current_discovery()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": attempt.verifier,
        }
        # Both must be form-encoded first. Source: RFC 6749, section 2.3.1.
        credentials = (quote(self._client_id, safe=""), quote(self._client_secret, safe=""))
        status, token = self._fetch(
            "POST", discovery.token_url, data=form, auth=httpx.BasicAuth(*credentials)
        )
        if status != 200 or not isinstance(token.get("id_token"), str):
            log.warning("single_sign_on_token_refused", status=status)
            raise _invalid_answer()
        claims = self._id_token(token, attempt)
        if "email" not in claims and discovery.userinfo_url:
            claims |= self._userinfo(discovery.userinfo_url, token, claims["sub"])
        return claims

    def _id_token(self, token: Claims, attempt: SignOnAttempt) -> Claims:
        """Return the verified claims of the ID token.

        Source: OpenID Connect Core, section 3.1.3.7.
        """
        try:
            signed = self._verify_token(token["id_token"])
            claims = signed.claims
            is_only_ours = claims.get("aud") in (self._client_id, [self._client_id])
            options: dict[str, jwt.ClaimsOption] = {
                "iss": {"essential": True, "value": self._issuer},
                "sub": {"essential": True},
                "aud": {"essential": True, "value": self._client_id},
                "azp": {"essential": not is_only_ours, "value": self._client_id},
                "exp": {"essential": True},
                "iat": {"essential": True},
                "nonce": {"essential": True, "value": attempt.nonce},
            }
            if access_token := token.get("access_token"):
                options["at_hash"] = {"value": _half_hash(access_token, signed.header["alg"])}
            now_s = self._clock() // 1000
            jwt.JWTClaimsRegistry(now_s, _LEEWAY_S, **options).validate(claims)
        except (AttributeError, JoseError, ValueError, TypeError, KeyError) as error:
            log.warning("single_sign_on_token_invalid", error=type(error).__name__)
            raise _invalid_answer() from None
        return claims

    def _verify_token(self, id_token: str) -> jwt.Token:
        """Return the verified ID token. Reads the keys again if the token's key is unknown."""
        discovery = self._current_discovery()
        try:
            return jwt.decode(id_token, discovery.keys, algorithms=_ALGORITHMS)
        except InvalidKeyIdError:
            if self._clock() - discovery.read_at_ms < _REREAD_MS:
                raise
        self._discovery = None
        return jwt.decode(id_token, self._current_discovery().keys, algorithms=_ALGORITHMS)

    def _userinfo(self, url: str, token: Claims, subject: str) -> Claims:
        """Return the person's email claims, for a provider that omits them from ID tokens."""
        bearer = {"Authorization": f"Bearer {token.get('access_token')}"}
        status, record = self._fetch("GET", url, headers=bearer)
        if status != 200 or record.get("sub") != subject:
            log.warning("single_sign_on_userinfo_refused", status=status)
            raise _invalid_answer()
        return {name: record[name] for name in ("email", "email_verified") if name in record}

    def _current_discovery(self) -> _Discovery:
        """Return the discovery document and keys, cached for an hour; a failure is cached for ten
        seconds.
        """
        now_ms, known = self._clock(), self._discovery
        if known is not None and now_ms - known.read_at_ms < _VALID_MS:
            return known
        if self._failed_at_ms is not None and now_ms - self._failed_at_ms < _RETRY_MS:
            raise _unavailable()
        try:
            self._discovery = self._discover(now_ms)
        except Unavailable:
            self._failed_at_ms = now_ms
            raise
        self._failed_at_ms = None
        return self._discovery

    def _discover(self, now_ms: int) -> _Discovery:
        url = self._issuer.rstrip("/") + "/.well-known/openid-configuration"
        status, document = self._fetch("GET", url)
        if status != 200 or document.get("issuer") != self._issuer:
            log.warning("single_sign_on_discovery_refused", status=status)
            raise _unavailable()
        try:
            keys = KeySet.import_key_set(self._fetch("GET", document["jwks_uri"])[1])  # type: ignore[arg-type]
            return _Discovery(
                self._check_url(document["authorization_endpoint"]),
                self._check_url(document["token_endpoint"]),
                document.get("userinfo_endpoint"),
                keys,
                now_ms,
            )
        except (JoseError, ValueError, TypeError, KeyError) as error:
            log.warning("single_sign_on_discovery_invalid", error=type(error).__name__)
            raise _unavailable() from None

    def _check_url(self, url: Any) -> str:
        """Return the URL if it is safe to request. Otherwise raises `ValueError`."""
        if not isinstance(url, str) or not is_provider_url(url):
            raise ValueError("not an https URL")
        if url.startswith("http:") and not self._issuer.startswith("http:"):
            raise ValueError("not an https URL")
        return url

    def _fetch(
        self,
        method: str,
        url: Any,
        *,
        data: Mapping[str, str] | None = None,
        auth: httpx.Auth | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Claims]:
        """Return the status and the JSON object of a response.

        Raises `Unavailable` if there is no response or it is too large.
        """
        give_up_s, body = time.monotonic() + _DEADLINE_S, bytearray()
        accept = {"Accept": "application/json", **(headers or {})}
        try:
            with (
                _client(auth) as client,
                client.stream(method, self._check_url(url), data=data, headers=accept) as response,
            ):
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > _MAX_BYTES or time.monotonic() > give_up_s:
                        raise ValueError("answer too large or too slow")
            record = from_json(bytes(body))
            if not isinstance(record, dict):
                raise ValueError("not a JSON object")
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            log.warning("single_sign_on_provider_away", error=type(error).__name__)
            raise _unavailable() from None
        return response.status_code, record


def _half_hash(text: str, algorithm: str) -> str:
    """Return the hash of an access token that an ID token with this signature algorithm contains.

    Source: OpenID Connect Core, section 3.1.3.6.
    """
    name = "sha512" if algorithm == "EdDSA" else f"sha{algorithm[2:]}"
    digest = hashlib.new(name, text.encode()).digest()
    return _base64url(digest[: len(digest) // 2])


def _base64url(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _client(auth: httpx.Auth | None) -> httpx.Client:
    return httpx.Client(
        timeout=_TIMEOUT_S, follow_redirects=False, auth=auth, verify=_tls_context()
    )


@cache
def _tls_context() -> ssl.SSLContext:
    """The TLS settings, cached because loading the certificates takes 20 ms."""
    return httpx.create_ssl_context()


def _invalid_answer() -> Unauthorized:
    return Unauthorized(
        "The identity provider did not confirm who you are. Try again.", code="sign_on_invalid"
    )


def _unavailable() -> Unavailable:
    return Unavailable(
        "The identity provider is not responding right now. Try again, or log in with a password.",
        code="sign_on_unavailable",
    )
