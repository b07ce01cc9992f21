"""Tracks the connections of this node: their number, their networks and their deadlines.

One sweep checks all deadlines twice a second. A separate timer for each request would take more
time than the rest of the edge together.
"""

import asyncio
from collections import Counter
from enum import Enum, auto
from typing import NamedTuple, Protocol

from penstock.base.metrics import counter
from penstock.base.networks import TrustedNetworks, network_of
from penstock.settings import Settings

REFUSALS = counter(
    "penstock_edge_refusals",
    "Connections and requests that a limit refused or ended.",
    ["reason"],
)

_SWEEP_S = 0.5
MAX_HEAD_BYTES = 64 * 1024
"""Maximum size of all headers of a request, in bytes."""
_LINGERING = 256
"""Maximum number of rejected connections that stay open for a moment, so that clients can read the
reason.
"""


class Timeouts(NamedTuple):
    """Timeouts in seconds.

    head_s: time for a request's head, from its first byte. body_s: time for the body after the
    head. idle_s: time until the next request on a connection.
    """

    head_s: float
    body_s: float
    idle_s: float


class Admission(Enum):
    OPEN = auto()
    FULL = auto()
    ADDRESS_FULL = auto()


class Connection(Protocol):
    """The methods of a connection that the sweep uses."""

    def check_deadline(self, now_s: float) -> None: ...


class Connections:
    """Counts connections in total and per network. Used only on the event loop.

    A trusted proxy counts only towards the total, because its clients are limited by their requests
    (`penstock.edge.layer`).
    """

    def __init__(self, settings: Settings) -> None:
        self.timeouts = Timeouts(
            settings.limits.header_timeout_s,
            settings.limits.body_timeout_s,
            settings.idle_timeout_s,
        )
        self.max_head_bytes = MAX_HEAD_BYTES
        self._proxies = TrustedNetworks(settings.trusted_proxies)
        self._limit, self._limit_per_address = settings.connections, settings.address_connections
        self._open: set[Connection] = set()
        self._lingering: set[Connection] = set()
        self._by_network: Counter[str] = Counter()
        self._sweeping = False

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: Connection, address: str) -> Admission:
        """Count a new connection, unless it exceeds a limit."""
        if len(self._open) >= self._limit:
            return Admission.FULL
        if network := self._counted_network(address):
            if self._by_network[network] >= self._limit_per_address:
                return Admission.ADDRESS_FULL
            self._by_network[network] += 1
        self._open.add(connection)
        self._schedule_sweep()
        return Admission.OPEN

    def linger(self, connection: Connection) -> bool:
        """Whether a rejected connection may stay open until the client has read the reason for the
        rejection.
        """
        if len(self._lingering) >= _LINGERING:
            return False
        self._lingering.add(connection)
        self._schedule_sweep()
        return True

    def remove(self, connection: Connection, address: str) -> None:
        self._lingering.discard(connection)
        if connection not in self._open:
            return
        self._open.remove(connection)
        if network := self._counted_network(address):
            self._by_network[network] -= 1
            if not self._by_network[network]:
                del self._by_network[network]

    def _counted_network(self, address: str) -> str:
        """Return the network that a connection counts for; empty if it may be a proxy."""
        if self._proxies.trusts_all or address in self._proxies:
            return ""
        return network_of(address)

    def _schedule_sweep(self) -> None:
        if not self._sweeping:
            self._sweeping = True
            asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        self._sweeping = False
        now_s = asyncio.get_running_loop().time()
        for connection in [*self._open, *self._lingering]:
            connection.check_deadline(now_s)
        if self._open or self._lingering:
            self._schedule_sweep()
