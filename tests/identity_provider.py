"""An identity provider for tests, on the loopback interface. It can send any kind of wrong
response.
"""

import json
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from joserfc import jwt
from joserfc.jwk import RSAKey
from pydantic import SecretStr

Response = tuple[int, Any]


@cache
def _key() -> RSAKey:
    """Create the key that every provider uses first. It is cached, because generating a key takes a
    tenth of a second.
    """
    return RSAKey.generate_key(2048, {"kid": "1", "use": "sig"})


class IdentityProvider:
    """A fake provider. answers: wrong responses to send, by path. requests: received forms, by
    path.
    """

    client_secret = "s3cret/+ &"

    def __init__(self) -> None:
        self.key = _key()
        self.issuer = ""
        self.claims: dict[str, Any] = {}
        self.sign: Callable[[dict[str, Any]], str] = self.signed
        self.userinfo: dict[str, Any] = {}
        self.answers: dict[str, Response] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []

    def settings(self) -> dict[str, Any]:
        """Settings of a service whose users log in here."""
        return {
            "oidc_issuer": self.issuer,
            "oidc_client_id": "penstock",
            "oidc_client_secret": SecretStr(self.client_secret),
        }

    def signed(self, claims: dict[str, Any]) -> str:
        token: str = jwt.encode({"alg": "RS256", "kid": self.key.kid}, claims, self.key)
        return token

    def answer(self, path: str, form: dict[str, str], authorization: str) -> Response:
        self.requests.append((path, form))
        if path in self.answers:
            return self.answers[path]
        match path:
            case "/.well-known/openid-configuration":
                return 200, {
                    "issuer": self.issuer,
                    "authorization_endpoint": f"{self.issuer}/authorize",
                    "token_endpoint": f"{self.issuer}/token",
                    "userinfo_endpoint": f"{self.issuer}/userinfo",
                    "jwks_uri": f"{self.issuer}/keys",
                }
            case "/keys":
                return 200, {"keys": [self.key.as_dict(private=False)]}
            case "/token":
                user_and_secret = b64decode(authorization.removeprefix("Basic ")).decode()
                assert user_and_secret == "penstock:s3cret%2F%2B%20%26"
                return 200, {"access_token": "at", "id_token": self.sign(self.claims)}
            case "/userinfo":
                assert authorization == "Bearer at"
                return 200, self.userinfo
        return 404, {}

    def count(self, path: str) -> int:
        return [requested for requested, _ in self.requests].count(path)


@contextmanager
def identity_provider() -> Iterator[IdentityProvider]:
    """A running provider. Its URL is in `issuer`."""
    provider = IdentityProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            status, content = provider.answer(
                self.path, form, self.headers.get("authorization", "")
            )
            text = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.issuer = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
