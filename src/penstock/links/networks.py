"""Recognising a network for an hour without keeping its address: an HMAC under keys that change every ten minutes and are thrown away."""

from functools import partial
from hashlib import blake2b
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from secrets import token_bytes

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from penstock.accounts.recent import Recent
from penstock.base.clock import Clock
from penstock.base.ids import WebsiteId
from penstock.links import claims_store as store
from penstock.links.resolving import NETWORK_WINDOW_MS
from penstock.metadb.database import Database

log = structlog.get_logger()

PERIOD_MS = 10 * 60 * 1000


def network_of(address: str) -> str:
    """The network of one client: its IPv4 address, or the /64 of an IPv6 one. Empty when it is no IP address."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(ip, IPv6Address):
        ip = ip.ipv4_mapped or ip
    return str(IPv6Network((int(ip), 64), strict=False) if isinstance(ip, IPv6Address) else IPv4Network(ip))


def match_key(key: bytes, website_id: WebsiteId, network: str) -> bytes:
    """Stands for a network as one website sees it. key: of the ten minutes of the click."""
    return blake2b(f"{website_id}\0{network}".encode(), key=key, digest_size=16).digest()


class Networks:
    """The keys, which all nodes share through the metadata DB."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock
        self._keys: Recent[int, bytes] = Recent(PERIOD_MS / 1000)
        self._newest = -1

    async def match_key(self, website_id: WebsiteId, address: str) -> bytes:
        """For a click of now. Empty when the address is none, or while the metadata DB is away: then nothing is matched by network."""
        network = network_of(address)
        if not network:
            return b""
        period = self._clock() // PERIOD_MS
        try:
            key = self._keys.get(period) or await self._keys.fetch(period, partial(self._make, period))
        except DBAPIError as error:
            log.warning("match_key_missing", error=str(error.orig))
            return b""
        return match_key(key, website_id, network) if key else b""

    def _make(self, period: int) -> bytes:
        if period != self._newest:
            self._keys.forget(self._newest)
            self._newest = period
        with self._database.read() as db:
            known = store.key_of(db, period)
        if known is None:
            with self._database.write() as db:
                store.add_key(db, period, token_bytes(32), (period + 1) * PERIOD_MS + NETWORK_WINDOW_MS)
            with self._database.read() as db:
                known = store.key_of(db, period)
        assert known is not None  # no key of a period that is not over is thrown away
        return known


def match_keys(db: Connection, website_id: WebsiteId, address: str, now_ms: int) -> list[bytes]:
    """What stands for the network of an address in the clicks of the last hour."""
    network = network_of(address)
    keys = store.keys_since(db, (now_ms - NETWORK_WINDOW_MS) // PERIOD_MS) if network else []
    return [match_key(key, website_id, network) for key in keys]
