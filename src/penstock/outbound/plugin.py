"""The outbound room: requests to addresses that members choose."""

from dataclasses import dataclass

from penstock.core import Core, Room
from penstock.outbound.sender import Outbound


@dataclass(frozen=True)
class OutboundRoom(Room):
    outbound: Outbound


def build(core: Core) -> OutboundRoom:
    return OutboundRoom(outbound=Outbound(core.settings.outbound_networks or ""))
