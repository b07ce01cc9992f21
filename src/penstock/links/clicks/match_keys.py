"""Match keys, which recognise a network for an hour without storing its address.

A match key is an HMAC of the network under a secret key that changes every ten minutes and is
deleted an hour after its last use.
"""

from functools import partial
from hashlib import blake2b
from secrets import token_bytes

import structlog
from sqlalchemy import Connection

from penstock.base.clock import Clock
from penstock.base.errors import StoreUnavailable
from penstock.base.ids import WebsiteId
from penstock.base.networks import network_of
from penstock.base.ttl_cache import TtlCache
from penstock.links.clicks import store
from penstock.metadb.database import Database

log = structlog.get_logger()

NETWORK_WINDOW_MS = 60 * 60 * 1000
"""Time after a click during which it can be matched by its network, in milliseconds."""

_PERIOD_MS = 10 * 60 * 1000


def _match_key(secret: bytes, website_id: WebsiteId, network: str) -> bytes:
    return blake2b(f"{website_id}\0{network}".encode(), key=secret, digest_size=16).digest()


class MatchKeys:
    """Computes match keys for new clicks. All nodes share the secrets through the metadata DB."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock
        self._secrets: TtlCache[int, bytes] = TtlCache(_PERIOD_MS / 1000)

    async def fetch(self, website_id: WebsiteId, address: str) -> bytes:
        """Return the match key for a click at the current time.

        The key is empty if the address is not an IP address, or if the metadata DB is unavailable.
        Such a click cannot be matched by its network.
        """
        network = network_of(address)
        if not network:
            return b""
        period = self._clock() // _PERIOD_MS
        try:
            secret = self._secrets.get(period) or await self._secrets.fetch(
                period, partial(self._load_or_create, period)
            )
        except StoreUnavailable as error:
            log.warning("match_key_missing", error=error.reason)
            return b""
        return _match_key(secret, website_id, network) if secret else b""

    def _load_or_create(self, period: int) -> bytes:
        with self._database.read() as db:
            secret = store.find_match_secret(db, period)
        if secret is None:
            expires_at_ms = (period + 1) * _PERIOD_MS + NETWORK_WINDOW_MS
            with self._database.write() as db:
                store.add_match_secret(db, period, token_bytes(32), expires_at_ms)
            with self._database.read() as db:
                secret = store.find_match_secret(db, period)
        assert secret is not None  # A secret is kept for longer than its period.
        return secret


def recent_match_keys(
    db: Connection, website_id: WebsiteId, address: str, now_ms: int
) -> list[bytes]:
    """Return all possible match keys of clicks in the last hour from this address's network."""
    network = network_of(address)
    if not network:
        return []
    secrets = store.match_secrets_since(db, (now_ms - NETWORK_WINDOW_MS) // _PERIOD_MS)
    return [_match_key(secret, website_id, network) for secret in secrets]


def delete_expired_secrets(db: Connection, now_ms: int) -> None:
    store.delete_expired_match_secrets(db, now_ms)
